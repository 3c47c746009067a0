"""The gripper written in other ways than the adapter says: which there are, and what comes of each. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rosa_contract.config.adapter import GRIPPER as TO_GRIPPER
from rosa_contract.config.conventions import AS_IS, FINGER_PAIR, GRIPPERS, WIDTH, gripper_from, gripper_in
from rosa_server.models.adapters.resolving import Resolved
from rosa_server.trying.steps import GRIPPER, Answered, Array, TrialStep

POINTS = 5  # of a chunk, at which widths are compared
Ranges = Sequence[tuple[float, float]]  # closed and open width of each gripper, m


@dataclass(frozen=True)
class Written:
    """How somebody writes a gripper's width now, and how it might be meant."""

    said: str  # of `GRIPPERS`
    meant: str

    @property
    def upside_down(self) -> bool:
        """Whether open and closed change places between the two."""
        return _grows(self.said) != _grows(self.meant)


def _grows(convention: str) -> bool:
    """Whether its numbers grow when the gripper opens."""
    ends = GRIPPERS[convention]
    return ends is None or ends[0] < ends[1]


def shown(convention: str) -> str:
    """With what its ends are."""
    ends = GRIPPERS[convention]
    return f"`{convention}` (m)" if ends is None else f"`{convention}` ({ends[0]:g} closed, {ends[1]:g} open)"


def others(said: str) -> list[Written]:
    """Every other way of writing it with as many numbers, wide ranges first: what is beyond an end counts as the end,
    so 0 and 100 fit as shares just as well."""
    said = said or WIDTH
    if said == FINGER_PAIR:
        return []
    return [
        Written(said, name)
        for name in sorted(GRIPPERS, key=_range_of, reverse=True)
        if name not in (said, FINGER_PAIR)
    ]


def _range_of(convention: str) -> float:
    ends = GRIPPERS[convention]
    return abs(ends[1] - ends[0]) if ends is not None else 0.0


def of_state(resolved: Resolved | None) -> str:
    """How the model is given it."""
    parts = resolved.spec.state.values() if resolved is not None else ()
    found = [part.gripper for given in parts for part in given if part.of == GRIPPER]
    return (found[0] if found else AS_IS) or WIDTH


def of_actions(resolved: Resolved | None) -> str:
    """How the model's orders are read."""
    actions = resolved.spec.actions if resolved is not None else None
    found = [part.gripper for part in actions.parts if part.to == TO_GRIPPER] if actions is not None else []
    return (found[0] if found else AS_IS) or WIDTH


def with_state(resolved: Resolved, meant: str) -> Resolved | None:
    """The adapter that gives the model the width in this way; None: it gives it none by itself."""
    changed = False
    state = {}
    for key, parts in resolved.spec.state.items():
        state[key] = tuple(
            replace(part, gripper=meant, unit=AS_IS, zeros=(), signs=()) if part.of == GRIPPER else part
            for part in parts
        )
        changed = changed or any(part.of == GRIPPER for part in parts)
    return replace(resolved, spec=replace(resolved.spec, state=state)) if changed else None


def with_actions(resolved: Resolved, meant: str) -> Resolved | None:
    """The adapter that reads the model's orders in this way; None: it reads none."""
    actions = resolved.spec.actions
    if actions is None or not any(part.to == TO_GRIPPER for part in actions.parts):
        return None
    parts = tuple(
        replace(part, gripper=meant, unit=AS_IS, zeros=()) if part.to == TO_GRIPPER else part
        for part in actions.parts
    )
    return replace(resolved, spec=replace(resolved.spec, actions=replace(actions, parts=parts)))


def given_as(step: TrialStep, meant: str, ranges: Ranges) -> TrialStep:
    """The step with the widths written in this way, for a model that is given them as they are."""
    widths = np.asarray(step.state[GRIPPER], np.float64)
    each = [gripper_in(meant, widths[i : i + 1], *ends) for i, ends in _ranges(widths, ranges)]
    return replace(step, state={**step.state, GRIPPER: np.concatenate(each).astype(np.float32)})


def read_as(one: Answered, meant: str, ranges: Ranges) -> Answered:
    """The answer with the columns of the grippers read in this way, of a model whose answers nobody translates."""
    joints = one.step.joint_count
    if one.path is None or one.path.rows.shape[1] <= joints:
        return one
    rows = np.array(one.path.rows, np.float64)
    for number, ends in _ranges(rows[0, joints:], ranges):
        column = rows[:, joints + number]
        rows[:, joints + number] = gripper_from(meant, column, *ends)
    return replace(one, path=replace(one.path, rows=rows))


def _ranges(widths: Any, ranges: Ranges) -> Iterator[tuple[int, tuple[float, float]]]:
    """Without a robot file all are alike."""
    return ((number, ranges[min(number, len(ranges) - 1)]) for number in range(len(widths)))


@dataclass(frozen=True)
class Widths:
    """Ordered and recorded widths of one gripper, m, at the same moments, and its range."""

    ordered: Array
    had: Array
    closed: float
    opened: float

    @property
    def span(self) -> float:
        return self.opened - self.closed

    @property
    def off(self) -> float:
        """Mean difference as a share of the range."""
        return float(np.abs(self.ordered - self.had).mean()) / self.span

    @property
    def turned(self) -> float:
        """The same with open and closed exchanged."""
        return float(np.abs(self.closed + self.opened - self.ordered - self.had).mean()) / self.span

    @property
    def correlation(self) -> float:
        """-1 to 1; 0 where one of them never changes."""
        alive = self.ordered.std() > 0 and self.had.std() > 0
        return float(np.corrcoef(self.ordered, self.had)[0, 1]) if alive else 0.0


def widths(answered: Sequence[Answered], ranges: Ranges | None) -> list[Widths]:
    """Of each gripper, over all chunks that were recorded. Empty: there is nothing to compare."""
    told: list[Array] = []
    done: list[Array] = []
    for one in answered:
        recorded, path, here = one.step.recorded, one.path, one.step.here
        if recorded is None or path is None or here is None or GRIPPER not in one.step.state:
            continue
        if not recorded.rows.shape[1] == path.rows.shape[1] == len(here):
            continue
        times_s = np.linspace(0, min(recorded.until_s, path.until_s), POINTS)
        told.append(path.at(times_s)[:, one.step.joint_count :])
        done.append(recorded.at(times_s)[:, one.step.joint_count :])
    if not told:
        return []
    ordered, had = np.concatenate(told), np.concatenate(done)
    found = []
    for number in range(had.shape[1]):
        mine, theirs = ordered[:, number], had[:, number]
        guess = min(0.0, float(theirs.min())), float(max(theirs.max(), mine.max()))
        closed, opened = ranges[min(number, len(ranges) - 1)] if ranges else guess
        if opened > closed:
            found.append(Widths(mine, theirs, closed, opened))
    return found
