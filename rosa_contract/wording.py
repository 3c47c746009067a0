"""What errors say about values and names: what came, in short, and which known name was probably meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")  # of a joint or a camera: also a part of a topic's name
# Of a command in an environment of wheels alone, or before anything was sourced.
NEEDS_ROS = "needs ROS 2 and the built rosa_interfaces; source them first, or use a clone with `make setup`"


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint such as ` (did you mean 'slo_ms'?)`, or the empty string."""
    match = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean {match[0]!r}?)" if match else ""


def misspelt(name: str, given: Iterable[str]) -> str:
    """A hint for a missing `name`, such as ` (is 'sytem1' a misspelling of it?)`, or the empty string."""
    match = difflib.get_close_matches(name, list(given), n=1, cutoff=0.6)
    return f" (is {match[0]!r} a misspelling of it?)" if match else ""


def name_problem(name: str) -> str:
    """What is wrong with the name of a joint or a camera, or an empty string."""
    return "" if NAME.fullmatch(name) else f"expected letters, digits, '_', '-' and '.', got {shown(name)}"


def shown(value: Any) -> str:
    """`value` as an error shows it: short, on one line."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of more than 4300 digits
        return f"a {type(value).__name__} that is too long to show"
    return text if len(text) <= 80 else text[:77] + "..."
