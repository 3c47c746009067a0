"""What a YAML document of a factory or a robot is: its kind, and the robot file that it extends.

People pass a robot file where a factory file belongs, and the reverse.

`extends:` is for a robot file that says only what differs from another one. The name is a path seen from the folder of
the file, or `rosa:NAME.yaml` for one of `configs/robots` as shipped. Mappings are merged key by key; every other value
replaces the one below it, and `null` takes it away. The settings in `arm` belong to their driver, so a file that names
another `arm_driver` begins them anew.
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
    """Why a document is not of the `expected` kind; empty when it is, or when its own mistakes say more."""
    kind = kind_of(document)
    if kind in ("", expected):
        return ""
    example = "configs/pick_place.yaml" if expected == FACTORY else "configs/robots/panda.yaml"
    return f"describes a {kind}; expected a {expected} file, such as {example}"


def read_extended(path: str | Path) -> tuple[Any, Origins]:
    """The values of a robot file and of those that it extends, and which of them said what.

    Raises `ConfigError`, which names the file that is wrong: one that cannot be read, that is not a robot file, that
    extends itself by a detour, or one too many.
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
    """The same mistakes, those of a file below with its name."""
    problems = []
    for one in error.problems:
        path = one.path.partition("[")[0]
        while path and path not in origins:
            path = path.rpartition(".")[0]
        origin = origins.get(path, source)
        words = one.words if origin == source else f"{one.words} (said in {origin})"
        problems.append(ConfigProblem(one.path, one.cause, words))
    return ConfigError(source, problems)


def _read(path: Path, above: list[tuple[Path, Any]]) -> Any:
    if not above:
        return read_yaml(path)
    source, name = str(above[-1][0]), above[-1][1][EXTENDS]
    if any(realpath(path) == realpath(other) for other, _ in above):
        detour = " -> ".join(other.name for other, _ in (*above, (path, None)))
        raise ConfigError(source, [ConfigProblem(EXTENDS, "conflict", f"runs in a circle: {detour}")])
    if len(above) >= MAX_FILES:
        raise ConfigError(source, [ConfigProblem(EXTENDS, "too_large", f"more than {MAX_FILES} files")])
    try:
        document = read_yaml(path)
    except ConfigError as error:
        if [one.cause for one in error.problems] != ["unreadable"]:
            raise
        words = (
            f"{name!r} {error.problems[0].words}; expected a robot file, seen from the folder of this one,"
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
    """The file that this one extends; None: it extends none."""
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
    """Everything that a file says, by its path; a mapping with what is in it."""
    found = {path: source} if path else {}
    if isinstance(value, dict):
        for key, inner in value.items():
            found |= _leaves(f"{path}.{key}" if path else str(key), inner, source)
    return found
