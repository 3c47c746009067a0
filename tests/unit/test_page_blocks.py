"""What pages show of Python and YAML fits the code: names exist, calls can be made, settings are accepted.

Blocks of the tutorials and the quick start are run as they stand (tests/system/examples), the generated reference is
compared, and commands are parsed (test_page_commands.py). What is left are excerpts, which nobody can run alone.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from rosa_contract.config.factory import parse_factory
from rosa_contract.config.robot import load_robot

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"(<!-- file: \S+ -->\n)?```(python|yaml|json)\n(.*?)```", re.DOTALL)
OURS = ("rosa_contract", "rosa_client", "rosa_server", "rosa_sim")


def blocks(language: str) -> list[Any]:
    found = []
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if "reference" in path.parts:
            continue
        for number, (file, kind, text) in enumerate(BLOCK.findall(path.read_text())):
            if kind == language and not file:
                found.append(pytest.param(textwrap.dedent(text), id=f"{path.stem}-{number}"))
    return found


# -- Python -----------------------------------------------------------------------------------------------------------


def imported(tree: ast.Module) -> dict[str, Any]:
    """Every name that a block takes from ROSA. Fails where there is none of that name."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OURS:
            module = importlib.import_module(str(node.module))
            for alias in node.names:
                assert hasattr(module, alias.name), f"{node.module} has no {alias.name}"
                names[alias.asname or alias.name] = getattr(module, alias.name)
    return names


def made(tree: ast.Module, names: dict[str, Any]) -> dict[str, type]:
    """Variables that hold an object of one of ROSA's classes."""
    pairs: list[tuple[Any, Any]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            pairs.append((node.targets[0], node.value))
        elif isinstance(node, ast.With):
            pairs += [(item.optional_vars, item.context_expr) for item in node.items]
    return {
        target.id: names[value.func.id]
        for target, value in pairs
        if isinstance(target, ast.Name)
        and isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and inspect.isclass(names.get(value.func.id))
    }


def calls(tree: ast.Module, names: dict[str, Any]) -> Iterator[tuple[ast.Call, Any]]:
    """(call, what is called), as far as that is ROSA's."""
    objects = made(tree, names)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id in names:
            yield node, names[called.id]
        elif isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            owner = objects.get(called.value.id)
            if owner is not None:
                assert hasattr(owner, called.attr), f"{owner.__name__} has no {called.attr}"
                yield node, inspect.unwrap(getattr(owner, called.attr)).__get__(object())


@pytest.mark.parametrize("text", blocks("python"))
def test_python_names_what_exists_and_calls_it_as_it_can_be_called(text: str) -> None:
    compile(text, "page", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    tree = ast.parse(text)
    names = imported(tree)
    for node, called in calls(tree, names):
        given = [one for one in node.args if not isinstance(one, ast.Starred)]
        words = {one.arg: None for one in node.keywords if one.arg is not None}
        try:
            inspect.signature(called).bind(*given, **words)
        except TypeError as error:
            raise AssertionError(f"{ast.unparse(node)}: {error}") from None


# -- YAML and JSON ----------------------------------------------------------------------------------------------------


def merged(base: Any, more: Any) -> Any:
    """`base` with what `more` says instead."""
    if not isinstance(base, dict) or not isinstance(more, dict):
        return more
    return {**base, **{key: merged(base.get(key), value) for key, value in more.items()}}


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / "configs" / name).read_text())


def completed(part: Any) -> tuple[str, Any]:
    """A whole file that has this excerpt in it: ("factory" or "robot", document); "" for what is of neither."""
    keys = set(part)
    if "server_cluster" in keys:
        return "factory", part
    if keys & {"arm_driver", "camera_driver", "gripper", "cameras"}:
        base = read("robots/panda_ros2_control.yaml" if "gripper" in keys else "robots/panda.yaml")
        if "extends" in base:
            base["extends"] = f"rosa:{base['extends']}"
        if "arm_driver" in keys:
            base.pop("arm", None)
        if "cameras" in keys:
            base["cameras"] = {}
        return "robot", merged(base, part)
    factory = deepcopy(read("pick_place.yaml"))
    if keys & {"backend", "adapter"}:
        part = {"models": {"excerpt": {"backend": "my_module:MyBackend", **part}}}
    elif keys >= {"images", "state", "actions"}:
        part = {"frontends": {"excerpt": {"protocol": "openpi", "task": "pick_and_place", **part}}}
    elif all(isinstance(one, dict) and "backend" in one for one in part.values()):
        part = {"models": part}
    tasks = {
        name
        for name, one in part.items()
        if isinstance(one, dict) and one.keys() & {"pipeline", "components"}
    }
    if not (tasks or part.keys() & {"models", "frontends"}):
        return "", part  # of Prometheus, of nav2, of a scenario, a part of a part
    whole = merged(factory, part)
    for name in tasks:
        whole[name] = merged({"pipeline": factory["pick_and_place"]["pipeline"]}, whole[name])
        for component in whole[name].get("components", {}).values():
            whole["models"].setdefault(component["model"], {"backend": "null"})
    for number, model in enumerate(part.get("models", {})):  # a model that nobody uses is a mistake
        whole["pick_and_place"]["components"][f"excerpt{number}"] = {
            "model": model,
            "slo_ms": 1000,
            "freq_hz": 1,
        }
    return "factory", whole


@pytest.mark.parametrize("text", blocks("yaml"))
def test_settings_are_those_of_a_file_that_loads(text: str, tmp_path: Path) -> None:
    part = yaml.safe_load(text)
    kind, document = ("", None) if "..." in text else completed(part)
    whole = yaml.safe_dump(document)
    if kind == "factory":
        parse_factory(whole)
    elif kind == "robot":
        (tmp_path / "robot.yaml").write_text(whole)
        load_robot(tmp_path / "robot.yaml")


@pytest.mark.parametrize("text", blocks("json"))
def test_json_can_be_read(text: str) -> None:
    json.loads(text)
