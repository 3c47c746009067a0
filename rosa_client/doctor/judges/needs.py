"""What the models of a factory file need of this robot's cameras and joints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rosa_client.doctor.judges.finding import FAIL, WARN, Finding, fine, skipped


@dataclass(frozen=True)
class NeedsFact:
    """What `rosa check FACTORY ROBOT` says. `unknown`: why it could not be asked here."""

    fits: Sequence[str] = ()  # one line per task, also for those that it does not fit
    problems: Sequence[str] = ()  # why it fits none
    unknown: str = ""


def judge_needs(fact: NeedsFact | None) -> Finding:
    """None: no factory file is given."""
    check = "needs"
    if fact is None:
        return skipped(check, "no_config", "no --config given: what models need is not known")
    if fact.unknown:
        do = "ask on the server: rosa check FACTORY.yaml ROBOT.yaml"
        return skipped(check, "not_installed", fact.unknown, do)
    if fact.problems:
        words = "; ".join(fact.problems)
        return Finding(
            check, FAIL, "unfit", words, "add the camera, or correct its name and size in the robot file"
        )
    unfit = [line for line in fact.fits if " fits " not in line]
    if unfit:
        return Finding(check, WARN, "partly_unfit", "; ".join(fact.fits), "this robot cannot run every task")
    return fine(check, "; ".join(fact.fits))
