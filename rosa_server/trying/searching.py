"""Asks a model again under other conventions, and says how well its answers then fit what was recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

from rosa_server.models.adapters.resolving import Resolved
from rosa_server.trying import grippers
from rosa_server.trying.asker import TrialAsker
from rosa_server.trying.explaining import (
    ABOUT_RIGHT,
    ACTIONS_IN,
    AND,
    AS_LEROBOT,
    RATE,
    RATES,
    STATE_DEG,
    WRITTEN,
)
from rosa_server.trying.orders import Arms, assigned, likely
from rosa_server.trying.steps import GRIPPER, Answered, JointOrder, Path, TrialStep, unlike
from rosa_server.trying.what_ifs import Change, conventions, kind_of, spread

MAX_STEPS, FEW_STEPS = 12, 4
Ranges = Sequence[tuple[float, float]]  # closed and open width of each gripper, m
Errors = dict[str, float]  # what is otherwise, by name -> the error of the answers then, as `unlike` says


def one_otherwise(
    asker: TrialAsker, answered: Sequence[Answered], resolved: Resolved | None, ranges: Ranges
) -> Errors:
    """What the model is given, changed in one way; each also with answers in another unit or at another rate."""
    steps, found = _spread(answered, MAX_STEPS), Errors()
    changes = conventions(steps[0], ranges)
    for name, change in changes.items():
        found |= _named(name, _asked(asker, name, steps, change))
    if STATE_DEG in changes and resolved is None and ranges and GRIPPER in steps[0].state:
        given = partial(grippers.given_as, meant="open_percent", ranges=ranges)
        told = _asked(asker, AS_LEROBOT, steps, lambda step: given(changes[STATE_DEG](step)))
        _note(found, AS_LEROBOT, told.get("actions_in_degrees"))
    return found


def two_otherwise(asker: TrialAsker, answered: Sequence[Answered], ranges: Ranges) -> Errors:
    """As `one_otherwise`, changed in two ways at once."""
    steps, found = _spread(answered, MAX_STEPS // 2), Errors()
    for (name, change), (other, then) in combinations(conventions(steps[0], ranges).items(), 2):
        if kind_of(name) != kind_of(other):
            both = f"{name}{AND}{other}"
            found |= _named(both, _asked(asker, both, steps, _after(change, then)))
    return found


def _after(change: Change, then: Change) -> Change:
    return lambda step: then(change(step))


def _named(name: str, errors: Errors) -> Errors:
    return {name + (AND + also if also else ""): error for also, error in errors.items()}


def other_orders(asker: TrialAsker, answered: Sequence[Answered], arms: Arms) -> Mapping[JointOrder, float]:
    """Joints that the model means in another order, or the other way round."""
    few, steps = _spread(answered, FEW_STEPS), _spread(answered, MAX_STEPS)
    count = steps[0].joint_count
    if not count:
        return {}
    guesses = likely(count, arms)
    same, ahead = tuple(range(count)), (1,) * count
    guesses += [(columns, ahead) for columns in assigned(answered) if columns != same]
    found: dict[JointOrder, float] = {}
    asked: dict[JointOrder, float] = {}
    for columns, signs in dict.fromkeys(guesses):
        answer = JointOrder(columns, signs, given=False, ordered=True)
        _note(found, answer, *map(unlike, _put_back(answer, answered)))
        asked |= _asked_in(asker, few, columns, signs)
    for both in (False, True):
        best = min((one for one in asked if one.ordered is both), key=asked.__getitem__, default=None)
        if best is not None:
            again = _asked_in(asker, steps, best.columns, best.signs)
            _note(found, best, again.get(best))
    return found


def _put_back(order: JointOrder, answered: Sequence[Answered]) -> Iterator[list[Answered]]:
    """Answers in the robot's order, taken as places and as moves."""
    yield [replace(one, path=one.path and order.of_path(one.path)) for one in answered]
    yield [
        replace(one, path=order.of_moves(one.path, one.step.here))
        if one.path is not None and one.step.here is not None and one.path.rows.shape[1] == len(one.step.here)
        else one
        for one in answered
    ]


def _asked_in(
    asker: TrialAsker, steps: Sequence[TrialStep], columns: tuple[int, ...], signs: tuple[int, ...]
) -> dict[JointOrder, float]:
    """The model given its joints so: with its answer as it is, and put back."""
    given = JointOrder(columns, signs, given=True, ordered=False)
    both = replace(given, ordered=True)
    found: dict[JointOrder, float] = {}
    with _noted(asker, "joints in another order"):
        again = [asker.ask(given.of_state(step)) for step in steps]
        direct = [replace(one, step=step) for one, step in zip(again, steps, strict=True)]
        moved = [
            replace(one, step=step, path=_shifted(one.path, one.step, step))
            for one, step in zip(again, steps, strict=True)
        ]
        back = [replace(one, path=one.path and both.of_path(one.path)) for one in direct]
        _note(found, given, unlike(direct), unlike(moved))
        _note(found, both, unlike(back))
    return found


def _note(found: dict[Any, float], key: Any, *errors: float | None) -> None:
    """The smallest of those that are known."""
    known = [error for error in errors if error is not None]
    if known:
        found[key] = min(known + ([found[key]] if key in found else []))


def other_widths(
    asker: TrialAsker, answered: Sequence[Answered], resolved: Resolved | None, ranges: Ranges
) -> Errors:
    """The gripper's width given to the model in another way. It may start the model anew."""
    steps, found = _spread(answered, MAX_STEPS), Errors()
    if not ranges or GRIPPER not in steps[0].state:
        return found
    for one in grippers.others(grippers.of_state(resolved)):
        name = f"{WRITTEN}{one.said} {one.meant}"
        other = grippers.with_state(resolved, one.meant) if resolved is not None else None
        told = Errors()
        if other is not None:
            with _noted(asker, name), _behind(asker, other) as behind:
                told = _asked(behind, name, steps, lambda step: step)
        else:
            given = partial(grippers.given_as, meant=one.meant, ranges=ranges)
            told = _asked(asker, name, steps, given)
        _note(found, name, told.get(""))
    return found


def other_readings(
    asker: TrialAsker, answered: Sequence[Answered], resolved: Resolved | None, ranges: Ranges
) -> dict[str, list[float]]:
    """Another way of reading the gripper's orders -> how far off each gripper is then. It may start the model anew."""
    found: dict[str, list[float]] = {}
    if not ranges:
        return found
    for one in grippers.others(grippers.of_actions(resolved)):
        other = grippers.with_actions(resolved, one.meant) if resolved is not None else None
        with _noted(asker, f"orders as {one.meant}"):
            if other is not None:
                with _behind(asker, other) as behind:
                    again = [behind.ask(step) for step in _spread(answered, MAX_STEPS)]
            else:
                again = [grippers.read_as(each, one.meant, ranges) for each in answered]
            found[one.meant] = [each.off for each in grippers.widths(again, ranges)]
    return found


def _spread(answered: Sequence[Answered], limit: int) -> list[TrialStep]:
    return [answered[index].step for index in spread(len(answered), limit)]


@contextmanager
def _noted(asker: TrialAsker, name: str) -> Iterator[None]:
    """A model may refuse what never was, which proves nothing."""
    try:
        yield
    except Exception as error:
        said = f"{name}: {type(error).__name__}: {str(error)[:80]}"
        if said not in asker.notes:
            asker.notes.append(said)


@contextmanager
def _behind(asker: TrialAsker, resolved: Resolved) -> Iterator[TrialAsker]:
    """The same model behind another adapter."""
    adapted: Any = asker.backend
    with adapted.otherwise(resolved) as backend:
        yield replace(asker, backend=backend)


def _asked(asker: TrialAsker, name: str, steps: Sequence[TrialStep], change: Change) -> Errors:
    """The error of the answers to changed steps, under an empty name as they are, and otherwise by what of them is."""
    found = Errors()
    with _noted(asker, name):
        turned = [change(step) for step in steps]
        again = [asker.ask(step) for step in turned]
        for put in (_as_they_are, _shifted):  # as they are, and as moves from where the robot is
            answers = [
                replace(one, step=step, path=put(one.path, other, step))
                for one, other, step in zip(again, turned, steps, strict=True)
            ]
            for also, error in _errors(answers, asker.knows_step(again)):
                _note(found, also, error)
    return found


def _errors(answers: Sequence[Answered], step_known: bool) -> Iterator[tuple[str, float | None]]:
    yield "", unlike(answers)
    for name, factor in ACTIONS_IN.items():
        told = [
            replace(one, path=one.path and replace(one.path, rows=one.path.rows * factor)) for one in answers
        ]
        yield name, unlike(told)
        yield name, unlike(answers, scale=factor)
    for slower in RATES if step_known else ():
        if not ABOUT_RIGHT[0] < slower < ABOUT_RIGHT[1]:
            yield f"{RATE}{slower:.3g}", unlike(answers, slower)


def _as_they_are(path: Path | None, turned: TrialStep, step: TrialStep) -> Path | None:
    return path


def _shifted(path: Path | None, turned: TrialStep, step: TrialStep) -> Path | None:
    """Actions that an adapter added to the changed place of the robot, added to its real one."""
    if path is None or turned.here is None or step.here is None or path.rows.shape[1] != len(step.here):
        return path
    return Path(path.rows - turned.here + step.here, path.step_s)
