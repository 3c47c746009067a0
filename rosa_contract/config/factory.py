"""The factory file: the descriptor of ROSA's Figure 3, plus optional settings, whose defaults are defined only here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os.path import realpath
from pathlib import Path
from typing import Any

from rosa_contract.config.documents import FACTORY, SECTIONS, mistaken
from rosa_contract.config.frontends import Frontend, frontend_problems
from rosa_contract.config.gateway import Gateway
from rosa_contract.config.models import Model, anchored_model, check_checksums, check_names
from rosa_contract.config.policies import Policies
from rosa_contract.config.prompts import NOTHING, long_prompts, unknown_fields, unusable_parameters
from rosa_contract.config.strict import Reader, parse_yaml, read_yaml
from rosa_contract.config.tasks import Task, check_task
from rosa_contract.endpoint import endpoint_problem
from rosa_contract.errors import ConfigError
from rosa_contract.setting import setting
from rosa_contract.wording import misspelt, nearest, shown

CLUSTERS = LOCAL, RAY = "local", "ray"


@dataclass(frozen=True)
class ServerCluster:
    """The GPU pool (Figure 3, part 1)."""

    num_servers: int = setting("number of GPUs in the pool", at_least=1, at_most=100_000)
    gpu_type: str = setting("GPU model; selects the folder of model profiles", "cpu")
    cluster: str = setting(
        "where workers run: local: processes on this machine; ray: nodes of a Ray cluster (docs/cluster.md)",
        LOCAL,
        choices=CLUSTERS,
    )
    address: str = setting("ray only: HOST:PORT of the Ray head node", "127.0.0.1:6379")
    workers_port: int = setting(
        "ray only: TCP port on this machine that workers connect to; 0: any free port",
        0,
        at_least=0,
        at_most=65535,
    )


@dataclass(frozen=True)
class FleetEntry:
    """A group of robots that run the same task (Figure 3, part 2)."""

    task: str = setting("name of a task in this file")
    num_robots: int = setting("number of robots that run it", at_least=1, at_most=1_000_000)


@dataclass(frozen=True)
class Factory:
    """The content of a factory file."""

    server_cluster: ServerCluster
    robot_fleet: tuple[FleetEntry, ...]
    tasks: Mapping[str, Task]
    models: Mapping[str, Model]
    gateway: Gateway
    policies: Policies = field(default_factory=Policies)
    frontends: Mapping[str, Frontend] = field(default_factory=dict)

    def models_of(self, task: str) -> dict[str, str]:
        """Component name -> model name of one task."""
        return {name: component.model for name, component in self.tasks[task].components.items()}


def load_factory(path: str | Path) -> Factory:
    """Load and check a factory file. Raises `ConfigError` with every mistake in it.

    Relative paths in `gateway.curve_keys`, `gateway.task_lengths`, a frontend's TLS files, a model's `weights` and
    `profile` options and its adapter start at the file's folder.
    """
    folder = Path(realpath(path)).parent
    try:
        return _anchored(factory_from(read_yaml(path), str(path)), folder)
    except ConfigError as error:
        if isinstance(error.read, Factory):
            error.read = _anchored(error.read, folder)
        raise


def _anchored(factory: Factory, folder: Path) -> Factory:
    models = {name: anchored_model(model, folder) for name, model in factory.models.items()}
    gateway = factory.gateway
    if gateway.curve_keys:
        gateway = replace(gateway, curve_keys=str(folder / gateway.curve_keys))
    if gateway.task_lengths:
        gateway = replace(gateway, task_lengths=str(folder / gateway.task_lengths))
    if gateway.state not in ("", "auto"):
        gateway = replace(gateway, state=str(folder / gateway.state))
    frontends = {
        name: replace(
            one,
            tls_certificate=str(folder / one.tls_certificate) if one.tls_certificate else "",
            tls_key=str(folder / one.tls_key) if one.tls_key else "",
        )
        for name, one in factory.frontends.items()
    }
    return replace(factory, models=models, gateway=gateway, frontends=frontends)


def parse_factory(text: str, source: str = "<text>") -> Factory:
    """Like `load_factory`, for text in memory; relative paths are left as written."""
    return factory_from(parse_yaml(text, source), source)


def factory_from(document: Any, source: str) -> Factory:
    """A `Factory` from parsed YAML; every top-level key that is not a section is a task, as in Figure 3."""
    reader = Reader(source)
    entries = reader.mapping("", document)
    if problem := mistaken(document, FACTORY):
        reader.fail("", problem, "wrong_type")
    reader.finish()
    assert entries is not None
    for name in ("server_cluster", "robot_fleet"):
        if name not in entries:
            reader.fail(name, f"is missing{misspelt(name, entries)}", "missing")
    cluster = reader.section(
        ServerCluster, "server_cluster", entries.get("server_cluster", {"num_servers": 1})
    )
    fleet = reader.value(tuple[FleetEntry, ...], "robot_fleet", entries.get("robot_fleet", []), {})
    models = reader.value(Mapping[str, Model], "models", entries.get("models", {}), {})
    check_checksums(reader, models)
    gateway = reader.section(Gateway, "gateway", entries.get("gateway", {}))
    if gateway and (problem := endpoint_problem(gateway.bind, binds=True)):
        reader.fail("gateway.bind", problem, "out_of_range")
    policies = reader.section(Policies, "policies", entries.get("policies", {}))
    frontends = reader.value(Mapping[str, Frontend], "frontends", entries.get("frontends", {}), {})
    tasks = {}
    for name, value in entries.items():
        if name in SECTIONS:
            continue
        if not isinstance(value, dict) or not ("components" in value or "pipeline" in value):
            known = [*SECTIONS, *(f"{entry.task}" for entry in fleet if entry)]
            words = f"is neither a section nor a task with components{nearest(name, known)}"
            reader.fail(name, words, "unknown_key")
            continue
        tasks[name] = reader.section(Task, name, value)
        if tasks[name]:
            check_task(reader, name, tasks[name])
            for parameter, words in unusable_parameters(tasks[name]):
                reader.fail(f"{name}.parameters.{parameter}", words, "invalid")
            for component, words in unknown_fields(tasks[name]):
                reader.fail(f"{name}.components.{component}.prompt", words, "unknown_name")
            for component, words in long_prompts(tasks[name], NOTHING):
                reader.fail(f"{name}.components.{component}.prompt", words, "out_of_range")
    if not any(task for task in tasks.values()) and not reader.problems:
        reader.fail("", "has no task; expected at least one, with components", "missing")
    for index, entry in enumerate(fleet):
        if entry and entry.task not in tasks:
            hint = nearest(entry.task, tasks)
            words = f"no task {shown(entry.task)} in this file{hint}"
            reader.fail(f"robot_fleet[{index}].task", words, "unknown_name")
    for name, frontend in frontends.items():
        if frontend:
            _check_frontend(reader, f"frontends.{name}", frontend, tasks)
    parts: list[Any] = [
        cluster,
        gateway,
        policies,
        *fleet,
        *tasks.values(),
        *models.values(),
        *frontends.values(),
    ]
    if any(part is None for part in parts):
        reader.finish()
    check_names(reader, tasks, models)
    factory = Factory(cluster, fleet, tasks, models, gateway, policies, frontends)
    reader.finish(factory)
    return factory


def _check_frontend(reader: Reader, where: str, frontend: Frontend, tasks: Mapping[str, Task | None]) -> None:
    for key, words, cause in frontend_problems(frontend):
        reader.fail(f"{where}.{key}", words, cause)
    if frontend.task not in tasks:
        words = f"no task {shown(frontend.task)} in this file{nearest(frontend.task, tasks)}"
        reader.fail(f"{where}.task", words, "unknown_name")
    elif (task := tasks[frontend.task]) is not None and frontend.component not in task.components:
        hint = nearest(frontend.component, task.components)
        words = f"{frontend.task} has no component {shown(frontend.component)}{hint}"
        reader.fail(f"{where}.component", words, "unknown_name")
