"""Ordered widths of grippers against recorded ones. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rosa_server.trying.grippers import Widths, Written, shown, widths
from rosa_server.trying.steps import ModelTrial
from rosa_server.trying.suspicion import BETTER, GOOD, Suspicion

AGAINST = -0.5  # correlation of ordered and recorded widths
SPAN, STILL = 0.5, 0.15  # of the range: it was moved, and it is not


def cause_of(written: Written) -> str:
    return "gripper_upside_down" if written.upside_down else "gripper_unit"


def judge_grippers(trial: ModelTrial) -> Iterator[Suspicion]:
    """Ordered widths against recorded ones, of each gripper."""
    found = widths(trial.answered, trial.grippers_m)
    for number, one in enumerate(found):
        which = f"gripper {number}: " if len(found) > 1 else ""
        if said := _orders(trial, number, one):
            yield Suspicion(said.cause, which + said.found, said.do)


def suspect(one: Widths) -> bool:
    """Whether a gripper's orders look wrong, so that they are worth reading in other ways."""
    return one.off > GOOD or one.correlation < AGAINST or _still(one)


def _still(one: Widths) -> bool:
    return bool(np.ptp(one.had) > SPAN * one.span and np.ptp(one.ordered) < STILL * one.span)


def _orders(trial: ModelTrial, number: int, one: Widths) -> Suspicion | None:
    if not suspect(one):
        return None
    do = "correct `gripper` of the part `to: gripper` in the adapter's `actions`"
    share = f"ordered widths differ from the recorded ones by {one.off:.0%} of the gripper's range"
    then = {meant: offs[number] for meant, offs in trial.orders_off.items() if number < len(offs)}
    meant = min(then, key=lambda name: round(then[name], 3), default="")
    if meant and then[meant] < min(GOOD, BETTER * one.off):
        written = Written(trial.orders_as, meant)
        words = (
            f"{share}, and by {then[meant]:.0%} if orders are {shown(meant)} instead of {shown(written.said)}"
        )
        do = f"write `gripper: {meant}` at the part `to: gripper` in the adapter's `actions`"
        return Suspicion(cause_of(written), words, do)
    if one.correlation < AGAINST or (one.off > GOOD and one.turned < min(GOOD, BETTER * one.off)):
        words = f"{share}, and by {one.turned:.0%} with open and closed exchanged"
        return Suspicion("gripper_upside_down", words, do)
    if _still(one):
        had, told = one.had, one.ordered
        words = f"widths were {had.min():.3f} to {had.max():.3f} m, the answers order {told.min():.3f} to"
        return Suspicion("gripper_still", f"{words} {told.max():.3f} m", do)
    return None
