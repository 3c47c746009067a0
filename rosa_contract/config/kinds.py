"""Which kind of file a YAML document is: people pass a robot file where a factory file belongs, and the reverse."""

from __future__ import annotations

from typing import Any

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
