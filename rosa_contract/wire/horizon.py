"""The execution horizon: how many steps of an action chunk the robot plays before the next observation.

A task that names a policy lets the server choose the horizon of each answer (Kairos 3.1). The robot sends the policy
with its request (Kairos 4, "Horizon Policy") and refuses an answer that the policy does not allow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rosa_contract.setting import setting
from rosa_contract.wire.rules import NAME

STATIC, THRESHOLD = "static", "threshold"
MAX_STEPS = 1024
MAX_POLICY_CHARS = 64
MAX_REASON_CHARS = 300  # of a choice; a longer reason is cut


@dataclass(frozen=True)
class Horizon:
    """A horizon policy and its arguments, as given in a task."""

    policy: str = setting(
        "static: always `steps`; threshold: the steps before the first uncertain one, see `t`; or a policy that"
        " the server's model registers, by name",
        rule=NAME,
    )
    steps: int | None = setting("static: number of steps to play", None, at_least=1, at_most=MAX_STEPS)
    t: float | None = setting(
        "threshold: a step is uncertain if its last update is larger than (1 + t) times the mean of its earlier"
        " ones",
        None,
        above=-1,
        at_most=1000,
    )
    min: int | None = setting(
        "minimum number of steps to play; default: 1",
        None,
        at_least=1,
        at_most=MAX_STEPS,
    )
    max: int | None = setting(
        "maximum number of steps to play; default: the whole chunk", None, at_least=1, at_most=MAX_STEPS
    )

    @property
    def fewest(self) -> int:
        return self.steps or self.min or 1

    @property
    def largest(self) -> int:
        return self.steps or self.max or MAX_STEPS

    def within(self, steps: int, available: int) -> int:
        """`steps`, clipped to what this policy allows for a chunk with `available` steps."""
        return min(max(steps, self.fewest), self.largest, available)

    def refusal(self, steps: int, available: int) -> str:
        """Why a chunk with `available` steps must not be played for `steps`; empty when it may be."""
        fewest, largest = min(self.fewest, available), min(self.largest, available)
        if fewest <= steps <= largest:
            return ""
        expected = f"{fewest}" if fewest == largest else f"{fewest} to {largest}"
        return f"expected {expected} of {available} steps (policy {self.policy}), got {steps}"


def contradictions(spec: Horizon) -> Iterator[tuple[str, str, str]]:
    """(key, words, cause) of unused and missing keys; the limits of each value have been checked before."""
    if not 0 < len(spec.policy) <= MAX_POLICY_CHARS:
        yield "policy", f"expected a name of 1 to {MAX_POLICY_CHARS} characters", "out_of_range"
    takes = {STATIC: ("steps",), THRESHOLD: ("t", "min", "max")}.get(
        spec.policy, ("steps", "t", "min", "max")
    )
    for key in ("steps", "t", "min", "max"):
        if getattr(spec, key) is not None and key not in takes:
            yield key, f"policy {spec.policy} does not use it; it uses {', '.join(takes)}", "conflict"
    needed = {STATIC: "steps", THRESHOLD: "t"}.get(spec.policy)
    if needed is not None and getattr(spec, needed) is None:
        yield needed, f"is missing; policy {spec.policy} needs it", "missing"
    if spec.min is not None and spec.max is not None and spec.min > spec.max:
        yield "min", f"must be <= max ({spec.max}), got {spec.min}", "conflict"


def contradiction(spec: Horizon) -> str:
    """The first contradiction in words; empty if there is none."""
    return next((f"{key}: {words}" for key, words, _ in contradictions(spec)), "")
