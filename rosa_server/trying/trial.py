"""Runs a model: once, along a recording, and again under other conventions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rosa_server.models.adapters.resolving import Resolved
from rosa_server.trying import grippers
from rosa_server.trying.asker import TrialAsker
from rosa_server.trying.explaining import explanation
from rosa_server.trying.gripper_judge import suspect
from rosa_server.trying.orders import Arms
from rosa_server.trying.searching import (
    one_otherwise,
    other_orders,
    other_readings,
    other_widths,
    two_otherwise,
)
from rosa_server.trying.steps import Answered, Array, ModelTrial, TrialStep, unlike
from rosa_server.trying.suspicion import GOOD
from rosa_server.trying.what_ifs import without


@dataclass(frozen=True)
class TriedRobot:
    """What is known of the robot beside the recording."""

    limits_rad: tuple[Array, Array] | None = None
    grippers_m: Sequence[tuple[float, float]] = ()  # closed and open width of each
    columns: int | None = None  # its joints and grippers; None: not known
    joints: Sequence[str] = ()  # their names
    arms: Arms = ()  # which of the joints are each arm's
    misfit: str = ""  # why it does not fit the model, whatever that answers


def try_model(asker: TrialAsker, steps: Sequence[TrialStep], robot: TriedRobot) -> ModelTrial:
    """Ask about each step, then about the same under other conventions. Raises whatever the model raises."""
    answered = [asker.ask(step) for step in steps]
    changed, deaf = _deaf(asker, next((one for one in answered if one.path is not None), answered[0]))
    resolved: Resolved | None = getattr(asker.backend, "resolved", None)
    ranges = robot.grippers_m or _known(resolved)
    trial = ModelTrial(
        asker.component,
        answered,
        without_effect=deaf,
        changed=changed,
        step_known=asker.knows_step(answered),
        period_s=asker.period_s,
        limits_rad=robot.limits_rad,
        columns=robot.columns,
        misfit=robot.misfit,
        grippers_m=ranges,
        joint_names=robot.joints or (resolved.names if resolved is not None else ()),
        orders_as=grippers.of_actions(resolved),
    )
    error = unlike(answered)
    if error is not None and error >= GOOD:
        trial = _searched(asker, trial, resolved, robot.arms)
    if any(suspect(one) for one in grippers.widths(answered, ranges)):
        trial = replace(trial, orders_off=other_readings(asker, answered, resolved, ranges))
    return trial


def _searched(asker: TrialAsker, trial: ModelTrial, resolved: Resolved | None, arms: Arms) -> ModelTrial:
    """With what other conventions would make of it, what costs least first, until one explains the recording."""
    answered, ranges = trial.answered, trial.grippers_m
    trial = replace(trial, what_ifs=one_otherwise(asker, answered, resolved, ranges))
    if explanation(trial) is None:  # these may start the model anew
        more = other_widths(asker, answered, resolved, ranges)
        trial = replace(trial, what_ifs={**trial.what_ifs, **more})
    if explanation(trial) is None:
        asker.say("nothing fits the recording yet; asking the model with its joints in other orders")
        trial = replace(trial, joint_orders=other_orders(asker, answered, arms))
    best = explanation(trial)
    if best is None or best[0] >= GOOD:
        asker.say("nothing fits the recording well; asking the model with two conventions changed at once")
        more = two_otherwise(asker, answered, ranges)
        trial = replace(trial, what_ifs={**trial.what_ifs, **more})
    return trial


def _known(resolved: Resolved | None) -> Sequence[tuple[float, float]]:
    return tuple(zip(resolved.closed_m, resolved.open_m, strict=True)) if resolved is not None else ()


def _deaf(asker: TrialAsker, first: Answered) -> tuple[list[str], list[str]]:
    """(what was taken away, what of it made no difference); a model of words may well say the same again."""
    changed: list[str] = []
    deaf: list[str] = []
    if first.path is None:
        return changed, deaf
    if not _same(first, asker.ask(first.step)):
        asker.notes.append("the model answers otherwise when it is asked the same again")
        return changed, deaf
    for name, step in without(first.step):
        try:
            other = asker.ask(step)
        except Exception as error:  # a model may refuse it, which is no deafness
            asker.notes.append(f"without {name} it raised {type(error).__name__}")
            continue
        changed.append(name)
        if _same(first, other):
            deaf.append(name)
    return changed, deaf


def _same(one: Answered, other: Answered) -> bool:
    """Whether two answers are the same actions, or the same moves from where the robot is."""
    if one.path is None or other.path is None:
        return False
    rows, others = one.path.rows, other.path.rows
    if rows.shape != others.shape:
        return False
    if _close(rows, others):
        return True
    here, there = one.step.here, other.step.here
    if here is None or there is None or len(here) != rows.shape[1]:
        return False
    return _close(rows - here, others - there)


def _close(one: Array, other: Array) -> bool:
    return bool(np.allclose(one, other, rtol=1e-6, atol=2e-6))
