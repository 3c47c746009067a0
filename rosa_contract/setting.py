"""A field of a dataclass with its documentation and its limits: what configuration and messages are declared with."""

from __future__ import annotations

import dataclasses
from typing import Any

REQUIRED = dataclasses.MISSING


def setting(
    doc: str,
    default: Any = REQUIRED,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] | None = None,
    length: int | None = None,
    rule: Any = None,
    always: bool = False,
) -> Any:
    """A documented field. `default` may be a class or function: it is then called for each object.

    `rule`, `always`: of a message's field, how it travels (`wire/rules.py`).
    """
    metadata = {
        "doc": doc,
        "above": above,
        "at_least": at_least,
        "at_most": at_most,
        "choices": choices,
        "length": length,
        "rule": rule,
        "always": always,
    }
    if default is REQUIRED:
        return dataclasses.field(metadata=metadata)
    if callable(default):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)
