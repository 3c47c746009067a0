"""The kind of a YAML document, factory or robot, and the robot files that it extends.

The kind matters because people pass a robot file where a factory file is expected, and the reverse.

A robot file with `extends:` has only what differs from another one: a path relative to the file's folder, or
`rosa:NAME.yaml` for one of the shipped `configs/robots`. Mappings are merged key by key; any other value replaces the
inherited one, and `null` removes it. The settings in `arm` belong to their driver, so a file with a different
`arm_driver` does not inherit them.
"""

from __future__ import annotations

from collections.abc import Mapping
from os.path import realpath
from pathlib import Path
from typing import Any

from rosa_contract.config.strict import read_yaml
from rosa_contract.errors import ConfigError, ConfigProblem
from rosa_contract.shipped import shipped
from rosa_contract.wording import shown

FACTORY, ROBOT = "factory", "robot"
SECTIONS = (
    "server_cluster",
    "robot_fleet",
    "models",
    "gateway",
    "policies",
    "frontends",
)  # of a factory file, besides tasks
OF_A_ROBOT = frozenset(
    {"extends", "joints", "limits", "home_rad", "safe_rad", "cameras", "arm_driver", "camera_driver"}
)

EXTENDS = "extends"
SHIPPED = "rosa:"
MAX_FILES = 8  # one above the other
DRIVER, SETTINGS = "arm_driver", "arm"
ALTERNATIVES = {
    "quaternion_xyzw": "rpy_rad",
    "rpy_rad": "quaternion_xyzw",
}  # a file that says the one does not mean the other
Origins = dict[str, str]  # dotted path of a value -> the file that says it


def kind_of(document: Any) -> str:
    """`FACTORY`, `ROBOT`, or empty for a document that looks like neither."""
    if not isinstance(document, dict):
        return ""
    if any(key in SECTIONS for key in document):
        return FACTORY
    if any(isinstance(value, dict) and "components" in value for value in document.values()):
        return FACTORY
    return ROBOT if OF_A_ROBOT & set(document) else ""


def mistaken(document: Any, expected: str) -> str:
    """Why a document is not of the `expected` kind; empty if it is, or if its kind is unclear."""
    kind = kind_of(document)
    if kind in ("", expected):
        return ""
    example = "configs/pick_place.yaml" if expected == FACTORY else "configs/robots/panda.yaml"
    return f"is a {kind} file; expected a {expected} file, such as {example}"


def read_extended(path: str | Path) -> tuple[Any, Origins]:
    """The merged values of a robot file and those that it extends, and the file that each value is from.

    Raises `ConfigError`, which names the wrong file: one that cannot be read, is not a robot file, extends itself
    through others, or makes the chain too long.
    """
    chain: list[tuple[Path, Any]] = []
    following: Path | None = Path(path)
    while following is not None:
        document = _read(following, chain)
        chain.append((following, document))
        following = _extended(following, document)
    merged, origins = chain[-1][1], _leaves("", chain[-1][1], str(chain[-1][0]))
    for upper, document in reversed(chain[:-1]):
        if document.get(DRIVER, merged.get(DRIVER)) != merged.get(DRIVER):
            merged = {key: value for key, value in merged.items() if key != SETTINGS}
        merged = _over(merged, document)
        origins |= _leaves("", document, str(upper))
    return merged, origins


def named(error: ConfigError, source: str, origins: Origins) -> ConfigError:
    """The same mistakes; those in an extended file name that file."""
    problems = []
    for one in error.problems:
        path = one.path.partition("[")[0]
        while path and path not in origins:
            path = path.rpartition(".")[0]
        origin = origins.get(path, source)
        words = one.words if origin == source else f"{one.words} (set in {origin})"
        problems.append(ConfigProblem(one.path, one.cause, words))
    return ConfigError(source, problems)


def _read(path: Path, above: list[tuple[Path, Any]]) -> Any:
    if not above:
        return read_yaml(path)
    source, name = str(above[-1][0]), above[-1][1][EXTENDS]
    if any(realpath(path) == realpath(other) for other, _ in above):
        detour = " -> ".join(other.name for other, _ in (*above, (path, None)))
        raise ConfigError(source, [ConfigProblem(EXTENDS, "conflict", f"is circular: {detour}")])
    if len(above) >= MAX_FILES:
        raise ConfigError(
            source, [ConfigProblem(EXTENDS, "too_large", f"is a chain of more than {MAX_FILES} files")]
        )
    try:
        document = read_yaml(path)
    except ConfigError as error:
        if [one.cause for one in error.problems] != ["unreadable"]:
            raise
        words = (
            f"{name!r} {error.problems[0].words}; expected a robot file, relative to the folder of this one,"
            f" or one of {', '.join(SHIPPED + one.name for one in sorted(shipped('configs', 'robots').glob('*.yaml')))}"
        )
        raise ConfigError(source, [ConfigProblem(EXTENDS, "unreadable", words)]) from None
    if problem := mistaken(document, ROBOT):
        raise ConfigError(str(path), [ConfigProblem("", "wrong_type", problem)])
    if not isinstance(document, dict):
        words = f"expected a mapping, got {shown(document)}"
        raise ConfigError(str(path), [ConfigProblem("", "wrong_type", words)])
    return document


def _extended(path: Path, document: Any) -> Path | None:
    """The file that this one extends, or None."""
    if not isinstance(document, dict) or EXTENDS not in document:
        return None
    name = document[EXTENDS]
    if not isinstance(name, str) or not name or not name.isprintable():
        words = f"expected the name of a robot file, got {shown(name)}"
        raise ConfigError(str(path), [ConfigProblem(EXTENDS, "wrong_type", words)])
    if name.startswith(SHIPPED):
        return shipped("configs", "robots", name.removeprefix(SHIPPED))
    return path.parent / name


def _over(lower: Any, upper: Mapping[str, Any]) -> dict[str, Any]:
    left = {ALTERNATIVES.get(key) for key in upper}
    merged = (
        {key: value for key, value in lower.items() if key not in left} if isinstance(lower, dict) else {}
    )
    for key, value in upper.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _over(merged.get(key), value) if isinstance(value, dict) else value
    return merged


def _leaves(path: str, value: Any, source: str) -> Origins:
    """The paths of all values in a file, including those of mappings, each with the file's name."""
    found = {path: source} if path else {}
    if isinstance(value, dict):
        for key, inner in value.items():
            found |= _leaves(f"{path}.{key}" if path else str(key), inner, source)
    return found
