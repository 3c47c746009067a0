"""`rosa check FILE [ROBOT]`: what a file means, and what `rosa serve` or the robot would refuse of it."""

from __future__ import annotations

import argparse
import dataclasses
import json
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from rosa_contract.config.adapter import Adapter
from rosa_contract.config.documents import ROBOT, kind_of
from rosa_contract.config.factory import Factory, factory_from, load_factory
from rosa_contract.config.robot import RobotSpec, hello_of, load_robot
from rosa_contract.config.strict import read_yaml
from rosa_contract.errors import CausedError, ConfigError, ConfigProblem
from rosa_server.commands.check_text import factory_lines, robot_lines
from rosa_server.commands.memory import memory_lines, memory_of
from rosa_server.commands.serve import add_reach

Content = tuple[str, Factory | RobotSpec]  # a file's path and what it says
PLAN_ONLY = "no model has an entry in `models`: this file can be planned, not served"


class NotInstalledError(ConfigError):
    """A model's package cannot be imported here, so what the model needs is not known."""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "check",
        help="validate a factory file, a robot file, or both together, and print a summary",
        description="Print a summary of a file and everything in it that `rosa serve` or a robot's nodes would"
        " refuse. With a factory and a robot file, also check that the robot fits the factory's models."
        " This builds the models' backends, so their option values are checked too, which is otherwise"
        " left to the workers. Exit status: 0 valid, 2 invalid.",
    )
    parser.add_argument("file", help="factory file or robot file (YAML)")
    parser.add_argument("other", nargs="?", help="file of the other kind, to check that the two fit together")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_reach(parser)
    return parser


def main(arguments: argparse.Namespace) -> int:
    paths = [arguments.file] + ([arguments.other] if arguments.other else [])
    try:
        contents = [(path, _checked(path, arguments)) for path in paths]
        fitting = _fits(*contents) if arguments.other else []
    except ConfigError as error:
        if not arguments.json:
            raise
        problems = [dataclasses.asdict(problem) for problem in error.problems]
        print(json.dumps({"file": error.source, "valid": False, "problems": problems}, indent=2))
        return 2
    if arguments.json:
        bodies = [_body(path, content) for path, content in contents]
        one = bodies[0] if len(bodies) == 1 else {"files": bodies, "valid": True, "fits": fitting}
        print(json.dumps(one, indent=2, default=dict))
        return 0
    for path, content in contents:
        print(f"{path}: a valid {_kind(content)} file")
        print("\n".join(factory_lines(content) if isinstance(content, Factory) else robot_lines(content)))
        if isinstance(content, Factory):
            print("\n".join([*memory_lines(memory_of(content)), *crowded_lines(content)]))
    print("\n".join(fitting), end="\n" if fitting else "")
    return 0


def _checked(path: str, arguments: argparse.Namespace) -> Factory | RobotSpec:
    """The content of a file in which nothing is refused. Raises `ConfigError`."""
    try:
        content = load_any(path)
    except ConfigError as error:
        if not isinstance(error.read, Factory):
            raise
        raise error.with_more(_served_problems(_with_keys(error.read, arguments), arguments)) from None
    if isinstance(content, RobotSpec):
        problems = [text for check in robot_checks() for text in check(content)]
        if problems:
            raise ConfigError(path, problems)
        return content
    content = _with_keys(content, arguments)
    found = _served_problems(content, arguments)
    found += _misfits(content) if content.models and not found else []
    if found:
        raise ConfigError(path, found)
    return content


def _with_keys(factory: Factory, arguments: argparse.Namespace) -> Factory:
    """With the keys that the command line names, where there are models to serve with them."""
    if not arguments.keys or not factory.models:
        return factory
    return dataclasses.replace(
        factory, gateway=dataclasses.replace(factory.gateway, curve_keys=arguments.keys)
    )


def _served_problems(factory: Factory, arguments: argparse.Namespace) -> list[ConfigProblem]:
    """What `rosa serve` would refuse of it."""
    if not factory.models:  # Figure 3 of the paper is such a file
        return []
    from rosa_server.serving.served import serving_problems

    return serving_problems(factory, arguments.bind, arguments.insecure)


def _check_gripper(adapter: Adapter, robot: RobotSpec) -> None:
    """Raise `AdapterError` where the two mean grippers of different widths."""
    from rosa_server.models.adapters.adapted import AdapterError
    from rosa_server.models.adapters.resolving import resolve
    from rosa_server.models.adapters.unmapped import robot_file_problems

    widths = [(gripper.min_m, gripper.max_m) for gripper in robot.grippers.values()]
    if words := robot_file_problems(resolve(adapter), widths):
        raise AdapterError("unmapped", "; ".join(words))


def _misfits(factory: Factory) -> list[ConfigProblem]:
    """What the frontends of a factory file do not map. Builds the backends of their tasks; those whose package is not
    installed here are left to the gateway."""
    if not factory.frontends:
        return []
    from rosa_server.frontends.mapping import ClientMapping
    from rosa_server.serving.worker.elsewhere import backend_of

    problems = []
    for name, one in factory.frontends.items():
        needs = {}
        for model in set(factory.models_of(one.task).values()):
            with suppress(CausedError):  # `rosa serve` says what is wrong with a model
                needs[model] = backend_of(model, factory.models[model]).input_spec
        if len(needs) < len(set(factory.models_of(one.task).values())):
            continue
        if found := ClientMapping(one).misfits(needs):
            problems.append(ConfigProblem(f"frontends.{name}", "conflict", "; ".join(found)))
    return problems


def crowded_lines(factory: Factory) -> list[str]:
    """What a factory with fewer servers than workers needs to be served."""
    from rosa_server.serving.served import crowded_servers

    crowded = crowded_servers(factory)
    return [f"needs a schedule: {crowded}"] if crowded else []


def robot_checks() -> list[Any]:
    """What other packages, which the server must not import, know of robot files: `RobotSpec` -> `Problem`s."""
    return [entry.load() for entry in entry_points(group="rosa.robot_checks")]


def load_any(path: str | Path) -> Factory | RobotSpec:
    """What a file says, whichever kind it is. Raises `ConfigError`."""
    document = read_yaml(path)
    if not isinstance(document, dict):
        factory_from(document, str(path))  # raises with the right words
    return load_robot(path) if kind_of(document) == ROBOT else load_factory(path)


def _kind(content: Factory | RobotSpec) -> str:
    return "factory" if isinstance(content, Factory) else "robot"


def _body(path: str, content: Factory | RobotSpec) -> dict[str, Any]:
    said = {
        "file": path,
        "valid": True,
        "kind": _kind(content),
        "content": dataclasses.asdict(content),
    }
    if isinstance(content, RobotSpec):
        return said
    return {**said, "served": bool(content.models), "memory": memory_of(content)}


def fits(factory: str, robot: str) -> list[str]:
    """Which tasks of a factory file the robot of a robot file fits.

    Raises `ConfigError` when it fits none, and `ImportError` where a model's package is not installed on this machine.
    """
    try:
        return _fits((factory, load_any(factory)), (robot, load_any(robot)))
    except NotInstalledError as error:
        raise ImportError("; ".join(map(str, error.problems))) from error


def _fits(first: Content, second: Content) -> list[str]:
    """Which tasks of the factory the robot fits. Raises `ConfigError` when it fits none."""
    (path, one), (other_path, other) = first, second
    if isinstance(one, RobotSpec):
        (path, one), (other_path, other) = (other_path, other), (path, one)
    if not isinstance(one, Factory) or not isinstance(other, RobotSpec):
        raise ConfigError(
            f"{path} and {other_path}",
            [f"expected a factory file and a robot file, got two {_kind(one)} files"],
        )
    if not one.models:
        raise ConfigError(path, [f"{PLAN_ONLY}, so it does not say what a robot needs"])
    from rosa_server.serving.core.sessions.fit import unfit
    from rosa_server.serving.worker.elsewhere import backend_of

    needs = {}
    for name, model in one.models.items():
        try:
            needs[name] = backend_of(name, model).input_spec
            if model.adapter is not None:
                _check_gripper(model.adapter, other)
        except CausedError as error:
            kind = NotInstalledError if error.cause == "not_importable" else ConfigError
            raise kind(path, [ConfigProblem(f"models.{name}", "invalid", str(error))]) from error
    lines: list[str] = []
    refusals: list[str] = []
    for task in one.tasks:
        refusal = unfit(hello_of("robot", task, other), one.models_of(task), needs.get)
        lines.append(f"{other.name} fits {task}" if refusal is None else f"{task}: {refusal.reason}")
        refusals += [f"{task}: {refusal.reason}"] if refusal is not None else []
    if len(refusals) == len(one.tasks):
        raise ConfigError(f"{path} with {other_path}", refusals)
    return lines
