"""The arguments of a bring-up: texts `name:=value`, as `ros2 launch` and `python -m rosa_client.bringup` take them.

Pure, except that it looks which files exist. `graph.py` says which arguments there are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from rosa_client.bringup.graph import DRIVERS, EXTERNAL, Cell, Robot
from rosa_client.bringup.supervisor import BringupError
from rosa_contract.wording import nearest

ENTRIES: dict[str, Field[Any]] = {entry.name: entry for entry in (*fields(Robot), *fields(Cell))}
CHOICES = {"driver": tuple(sorted(DRIVERS))}
FILES = ("config", "robot")
TRUTHS = ("true", "false", "True", "False")
NAMESPACE = re.compile(r"/?[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*/?")


class ArgumentError(BringupError):
    """An argument is wrong; the text names it, what came and what was expected."""


def robot_and_cell(texts: Mapping[str, str], share: Path) -> tuple[Robot, Cell]:
    """The arguments of one robot, and those of the whole cell. `share`: the folder that holds the package's `configs`.

    Raises `ArgumentError` for the first that is wrong.
    """
    values = {name: value_of(name, text, share) for name, text in texts.items()}
    once = {entry.name: values.pop(entry.name) for entry in fields(Cell) if entry.name in values}
    return Robot(**values), Cell(**once)


def value_of(name: str, text: str, share: Path) -> Any:
    """One argument in the type of its default. Raises `ArgumentError`."""
    if name not in ENTRIES:
        raise ArgumentError(unknown(name))
    default = ENTRIES[name].default
    if isinstance(default, bool):
        return truth_of(name, text)
    if isinstance(default, int):
        if not (text.isascii() and text.isdigit()):
            raise ArgumentError(f"{name}: expected a whole number, got {text!r}")
        return int(text)
    if name in CHOICES and text not in CHOICES[name]:
        known = ", ".join(CHOICES[name])
        raise ArgumentError(f"{name}: expected one of {known}, got {text!r}{nearest(text, CHOICES[name])}")
    if name == "namespace" and not NAMESPACE.fullmatch(text):
        words = "letters, digits and '_', not beginning with a digit, in parts separated by '/'"
        raise ArgumentError(f"{name}: expected {words}; got {text!r}")
    is_file = name in FILES or (name == "description" and text not in ("", EXTERNAL))
    return file_of(name, text, share) if is_file else text


def truth_of(name: str, text: str) -> bool:
    """true or false, in capitals or not. Raises `ArgumentError`."""
    if text.lower() not in TRUTHS:
        raise ArgumentError(f"{name}: expected true or false, got {text!r}")
    return text.lower() == "true"


def choices_of(name: str) -> tuple[str, ...] | None:
    """The texts that an argument may have; None: any."""
    return TRUTHS if isinstance(ENTRIES[name].default, bool) else CHOICES.get(name)


def file_of(name: str, text: str, share: Path) -> str:
    """The absolute path of a file: as given, from the current folder, or from the package's own.

    So `configs/two_robots.yaml` works in any folder.
    """
    given = Path(text).expanduser()
    for path in (given, share / given):
        if path.is_file():
            return str(path.resolve())
    folders = dict.fromkeys((Path.cwd(), share))  # one where the package is used in place
    looked = f" (looked in {' and '.join(map(str, folders))})" if not given.is_absolute() else ""
    raise ArgumentError(f"{name}: no file {text!r}{looked}")


def unknown(name: str) -> str:
    """What to say about an argument that there is not."""
    return f"no argument {name!r}{nearest(name, ENTRIES)}; known: {', '.join(ENTRIES)}"


def misspelt(arguments: Sequence[str], also: Sequence[str] = ()) -> str:
    """What is wrong with the names in `name:=value` words, or nothing: `ros2 launch` ignores what nobody declares."""
    for word in arguments:
        name, found, _ = word.partition(":=")
        if found and name not in ENTRIES and name not in also:
            return unknown(name)
    return ""


def split(arguments: Sequence[str]) -> dict[str, str]:
    """`name:=value` words by name. Raises `ArgumentError` for anything else."""
    texts = {}
    for word in arguments:
        name, found, text = word.partition(":=")
        if not found:
            raise ArgumentError(f"expected name:=value with a name of {', '.join(ENTRIES)}; got {word!r}")
        texts[name] = text
    return texts
