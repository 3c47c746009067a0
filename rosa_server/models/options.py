"""What options a backend takes, read from its source: importing torch takes seconds, and a gateway may ask.

What cannot be seen this way (an inherited constructor, `**options`) is left to the worker, which builds the backend.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rosa_contract.errors import ConfigProblem
from rosa_contract.wording import nearest
from rosa_server.models.registry import BackendError, check_name

PATHS = ("weights", "profile", "recording")  # options that name a file or a folder


def option_problems(backend: str, options: Mapping[str, Any]) -> list[ConfigProblem]:
    """Why a worker could not build `backend` with `options`, as far as that shows without building it.

    The paths are `backend` or `options.NAME`.
    """
    try:
        module, _, name = check_name(backend).partition(":")
    except BackendError as error:
        return [ConfigProblem("backend", "unknown_name", str(error))]
    found = _find(module)
    if found is None:
        return [ConfigProblem("backend", "unknown_name", f"{backend!r}: there is no module {module}")]
    problems = _signature_problems(backend, _class_of(found, name), options) if found.origin else []
    if _tree(found) is not None and _class_of(found, name) is None and not _names(found, name):
        words = f"{backend!r}: {found.origin} has no class {name}"
        problems.append(ConfigProblem("backend", "unknown_name", words))
    for key in PATHS:
        path = options.get(key)
        if isinstance(path, str) and path and not Path(path).exists():
            problems.append(ConfigProblem(f"options.{key}", "unreadable", f"there is no {path}"))
    return problems


def _signature_problems(
    backend: str, kind: ast.ClassDef | None, options: Mapping[str, Any]
) -> list[ConfigProblem]:
    init = _constructor(kind)
    if init is None:
        return []
    takes = [one.arg for one in (*init.posonlyargs, *init.args)][1:]
    defaults = len(init.defaults)
    required = takes[: len(takes) - defaults] + [
        one.arg for one, value in zip(init.kwonlyargs, init.kw_defaults, strict=True) if value is None
    ]
    takes += [one.arg for one in init.kwonlyargs]
    problems = [
        ConfigProblem(f"options.{name}", "missing", f"is missing; {backend} needs it")
        for name in required
        if name not in options
    ]
    if init.kwarg is None:
        known = ", ".join(takes) or "none"
        for name in options:
            if name not in takes:
                words = f"is unknown to {backend}{nearest(name, takes)}; it takes {known}"
                problems.append(ConfigProblem(f"options.{name}", "unknown_key", words))
    return problems


def _constructor(kind: ast.ClassDef | None) -> ast.arguments | None:
    """The arguments of the class's own `__init__`; None where it has none, or is made by a decorator."""
    if kind is None or kind.decorator_list:
        return None
    for node in kind.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            return None if node.args.vararg else node.args
    return None


def _class_of(found: ModuleSpec, name: str) -> ast.ClassDef | None:
    tree = _tree(found)
    body = tree.body if tree is not None else []
    return next((node for node in body if isinstance(node, ast.ClassDef) and node.name == name), None)


def _names(found: ModuleSpec, name: str) -> bool:
    """Whether the module may have `name` from elsewhere: imported, assigned, or made in a separate block."""
    tree = _tree(found)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.alias) and (node.asname or node.name.split(".")[0]) in (name, "*"):
            return True
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name:
            return True
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name in (name, "__getattr__"):
            return True
    return False


def _tree(found: ModuleSpec) -> ast.Module | None:
    """The module's source; None where there is none to read, or where Python itself will complain."""
    if not (found.origin or "").endswith(".py"):
        return None
    try:
        return ast.parse(Path(str(found.origin)).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def _find(module: str) -> ModuleSpec | None:
    """Where a worker would find `module`: it runs in this folder, and looks there first."""
    parts = module.split(".")
    found = PathFinder.find_spec(parts[0], [os.getcwd()]) or find_spec(parts[0])
    places = [os.getcwd(), *sys.path]  # where the part before was looked for
    for index, before in enumerate(parts[:-1], start=1):
        if found is None or found.submodule_search_locations is None:
            return None
        if (
            found.origin is None
        ):  # a folder without __init__.py, whose own list asks for its parent to be imported
            places = [folder for place in places if os.path.isdir(folder := os.path.join(place, before))]
        else:
            places = list(found.submodule_search_locations)
        found = PathFinder.find_spec(parts[index], places)
    return found
