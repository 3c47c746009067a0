"""One bisection for every search over a single number."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def bisect(
    attempt: Callable[[float], Result | None],
    good: float,
    bad: float,
    result: Result,
    steps: int,
    precision: float = 0.0,
) -> tuple[float, Result]:
    """The number nearest to `bad` at which `attempt` succeeds, and what it returned there.

    `good` is known to succeed with `result`; numbers between it and `bad`, which may be on either side, succeed up to
    some point and fail beyond it. `attempt` returns None where it fails. Ends after `steps` attempts, or once the
    interval is narrower than `precision` times `bad`.
    """
    for _ in range(steps):
        if abs(bad - good) < precision * abs(bad):
            break
        middle = (good + bad) / 2
        found = attempt(middle)
        if found is None:
            bad = middle
        else:
            good, result = middle, found
    return good, result


def furthest(fits: Callable[[float], bool], good: float, bad: float, steps: int) -> float:
    """The number nearest to `bad` that fits, where only the number matters."""
    return bisect(lambda value: True if fits(value) else None, good, bad, True, steps)[0]
