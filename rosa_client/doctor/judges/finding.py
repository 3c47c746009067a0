"""One line of `rosa doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

OK, WARN, FAIL, SKIPPED = "ok", "warn", "fail", "skipped"
LEVELS = (OK, WARN, FAIL, SKIPPED)


@dataclass(frozen=True)
class Finding:
    """What one check found."""

    check: str  # such as gateway, or camera.front
    level: str  # one of LEVELS
    cause: str  # machine-readable; "fine" when ok
    found: str  # what was measured and what it means
    do: str = ""  # what to do; empty when there is nothing to do

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ValueError(f"level: expected one of {', '.join(LEVELS)}, got {self.level!r}")

    def line(self, width: int) -> str:
        """One line for a person; the names of the checks are padded to `width`."""
        words = f"{self.found}; {self.do}" if self.do else self.found
        return f"{self.level:<8}{self.check:<{width}}  {words}"


def fine(check: str, found: str) -> Finding:
    """Nothing to do."""
    return Finding(check, OK, "fine", found)


def skipped(check: str, cause: str, found: str, do: str = "") -> Finding:
    """Could not be looked at, or does not matter here."""
    return Finding(check, SKIPPED, cause, found, do)


def inactive(check: str, node: str, state: str) -> Finding | None:
    """A managed node that is there and does not work: whoever manages it has not begun; None: it is active."""
    if state in ("", "active"):
        return None
    step = "activate" if state == "inactive" else "configure, then activate"
    do = (
        f"{step} it, as its lifecycle manager does: ros2 lifecycle set /ROBOT/{node} {step.partition(',')[0]}"
    )
    return Finding(check, FAIL, "inactive", f"its {node} is {state}, so it does nothing yet", do)


def status_of(findings: Sequence[Finding]) -> int:
    """Exit status: 1 when any check failed. A warning or a skipped check is no failure."""
    return int(any(finding.level == FAIL for finding in findings))


def summary(findings: Sequence[Finding]) -> str:
    """Such as "9 ok, 1 warn, 2 fail, 3 skipped"."""
    return ", ".join(f"{sum(one.level == level for one in findings)} {level}" for level in LEVELS)
