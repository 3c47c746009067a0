"""Runs a model: once, along a recording, and again under other conventions."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path as File
from typing import Any

import numpy as np

from rosa_contract.config.spaces import ACTIONS, SPACES
from rosa_contract.kinematics.arm import UnreachableError
from rosa_server.models.adapters.resolving import Resolved
from rosa_server.models.backend import Backend, ModelOutput
from rosa_server.trying import grippers
from rosa_server.trying.gripper_judge import suspect
from rosa_server.trying.judges import (
    AS_LEROBOT,
    BOTH_DEG,
    BOTH_RAD,
    DEG,
    WRITTEN,
    explained,
)
from rosa_server.trying.spaces import OtherSpaces, other_space
from rosa_server.trying.steps import (
    GRIPPER,
    JOINTS,
    Answered,
    Array,
    ModelTrial,
    Path,
    TrialStep,
    path_of,
    row_s,
    unlike,
)
from rosa_server.trying.suspicion import GOOD
from rosa_server.trying.what_ifs import Change, conventions, scaled, spread, without

MAX_WHAT_IF_STEPS = 12
USUAL_STEP_S = 0.05
ANSWERS_A_SPACE = "the robot turns these answers into joint positions: --robot FILE shows where they lead"


@dataclass(frozen=True)
class TriedRobot:
    """What is known of the robot beside the recording."""

    limits_rad: tuple[Array, Array] | None = None
    grippers_m: Sequence[tuple[float, float]] = ()  # closed and open width of each
    columns: int | None = None  # its joints and grippers; None: not known
    misfit: str = ""  # why it does not fit the model, whatever that answers


@dataclass
class TrialAsker:
    """A loaded model and how it is asked."""

    backend: Backend
    component: str
    period_s: float | None = None  # that all rows fill, where answers do not say how long one is
    spaces: OtherSpaces = field(default_factory=lambda: OtherSpaces(None))
    clock: Callable[[], float] = time.perf_counter
    notes: list[str] = field(default_factory=list)

    def ask(self, step: TrialStep) -> Answered:
        """Raises whatever the model raises, but for an arm that does not reach what its adapter made of the answer."""
        began_s = self.clock()
        output, path, why = ModelOutput(), None, ""
        try:
            output = self.backend.infer([step.asked(self.component)])[0]
            path = self._path(step, output)
        except UnreachableError as error:
            why = str(error)
        except RuntimeError as error:  # of a worker elsewhere, which says it in words
            if UnreachableError.__name__ not in str(error):
                raise
            why = str(error).partition(f"{UnreachableError.__name__}: ")[2]
        return Answered(step, output, (self.clock() - began_s) * 1000, path, why)

    def _path(self, step: TrialStep, output: ModelOutput) -> Path | None:
        usual_s = step.recorded.step_s if step.recorded is not None else USUAL_STEP_S
        rows: Any = output.arrays.get(ACTIONS)
        if name := other_space(output):
            count = len(np.atleast_1d(output.arrays[name]))
            rows = self.spaces.rows(output, step, row_s(output, count, self.period_s, usual_s))
            if rows is None and SPACES[name].needs_chain and ANSWERS_A_SPACE not in self.notes:
                self.notes.append(ANSWERS_A_SPACE)
        return path_of(rows, output, self.period_s, usual_s)

    def knows_step(self, answered: Sequence[Answered]) -> bool:
        """Whether answers, or the factory, say how long a row is."""
        return self.period_s is not None or any("step_s" in one.output.arrays for one in answered)


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
        limits_rad=robot.limits_rad,
        columns=robot.columns,
        misfit=robot.misfit,
        grippers_m=ranges,
        orders_as=grippers.of_actions(resolved),
    )
    error = unlike(answered)
    if error is not None and error >= GOOD:
        turned = _what_ifs(asker, answered, ranges) | _both_ways(asker, answered, resolved, ranges)
        trial = replace(trial, what_ifs=turned)
        if not explained(trial):  # these may start the model anew
            more = _written(asker, answered, resolved, ranges)
            trial = replace(trial, what_ifs={**trial.what_ifs, **more})
    if any(suspect(one) for one in grippers.widths(answered, ranges)):
        trial = replace(trial, orders_off=_read(asker, answered, resolved, ranges))
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


def _what_ifs(
    asker: TrialAsker, answered: Sequence[Answered], ranges: Sequence[tuple[float, float]]
) -> dict[str, float]:
    """Name -> error of the answers under that convention."""
    chosen = _chosen(answered)
    found: dict[str, float] = {}
    for name, change in conventions(chosen[0], ranges).items():
        with _noted(asker, name):
            found |= _asked(name, asker, chosen, change)
    return found


def _both_ways(
    asker: TrialAsker,
    answered: Sequence[Answered],
    resolved: Resolved | None,
    ranges: Sequence[tuple[float, float]],
) -> dict[str, float]:
    """Name -> error of the answers where what the model is given and what it answers are in other units together."""
    steps = _chosen(answered)
    changes = {BOTH_DEG: scaled(DEG), BOTH_RAD: scaled(1 / DEG)} if JOINTS in steps[0].state else {}
    if changes and resolved is None and ranges and GRIPPER in steps[0].state:
        in_degrees = changes[BOTH_DEG]
        changes[AS_LEROBOT] = lambda step: grippers.given_as(in_degrees(step), "open_percent", ranges)
    found: dict[str, float] = {}
    for name, change in changes.items():
        factor = DEG if name == BOTH_RAD else 1 / DEG
        with _noted(asker, name):
            again = []
            for step in steps:
                one = asker.ask(change(step))
                path = one.path and replace(one.path, rows=one.path.rows * factor)
                again.append(replace(one, step=step, path=path))
            error = unlike(again)
            found |= {} if error is None else {name: error}
    return found


def _chosen(answered: Sequence[Answered]) -> list[TrialStep]:
    return [answered[index].step for index in spread(len(answered), MAX_WHAT_IF_STEPS)]


@contextmanager
def _noted(asker: TrialAsker, name: str) -> Iterator[None]:
    """A model may refuse what never was, which proves nothing."""
    try:
        yield
    except Exception as error:
        asker.notes.append(f"{name}: {type(error).__name__}: {str(error)[:80]}")


def _asked(name: str, asker: TrialAsker, steps: Sequence[TrialStep], change: Change) -> dict[str, float]:
    """The error of the answers to changed steps, as they are and as moves from where the robot is; none: no error."""
    direct, from_here = [], []
    for step in steps:
        turned = change(step)
        one = asker.ask(turned)
        direct.append(Answered(step, one.output, one.ms, one.path))
        from_here.append(Answered(step, one.output, one.ms, _shifted(one.path, turned, step)))
    errors = [error for error in (unlike(direct), unlike(from_here)) if error is not None]
    return {name: min(errors)} if errors else {}


def _written(
    asker: TrialAsker,
    answered: Sequence[Answered],
    resolved: Resolved | None,
    ranges: Sequence[tuple[float, float]],
) -> dict[str, float]:
    """Name -> error of the answers where the model is given the gripper's width in another way."""
    steps = _chosen(answered)
    found: dict[str, float] = {}
    if not ranges or GRIPPER not in steps[0].state:
        return found
    for one in grippers.others(grippers.of_state(resolved)):
        name = f"{WRITTEN}{one.said} {one.meant}"
        other = grippers.with_state(resolved, one.meant) if resolved is not None else None
        with _noted(asker, name):
            if other is not None:
                with _behind(asker, other) as behind:
                    found |= _asked(name, behind, steps, _as_it_is)
            else:
                given = partial(grippers.given_as, meant=one.meant, ranges=ranges)
                found |= _asked(name, asker, steps, given)
    return found


@contextmanager
def _behind(asker: TrialAsker, resolved: Resolved) -> Iterator[TrialAsker]:
    """The same model behind another adapter."""
    adapted: Any = asker.backend
    with adapted.otherwise(resolved) as backend:
        yield replace(asker, backend=backend)


def _as_it_is(step: TrialStep) -> TrialStep:
    return step


def _read(
    asker: TrialAsker,
    answered: Sequence[Answered],
    resolved: Resolved | None,
    ranges: Sequence[tuple[float, float]],
) -> dict[str, list[float]]:
    """Another way of reading the gripper's orders -> how far off each gripper is then."""
    found: dict[str, list[float]] = {}
    if not ranges:
        return found
    for one in grippers.others(grippers.of_actions(resolved)):
        other = grippers.with_actions(resolved, one.meant) if resolved is not None else None
        with _noted(asker, f"orders as {one.meant}"):
            if other is not None:
                with _behind(asker, other) as behind:
                    again = [behind.ask(step) for step in _chosen(answered)]
            else:
                again = [grippers.read_as(each, one.meant, ranges) for each in answered]
            found[one.meant] = [each.off for each in grippers.widths(again, ranges)]
    return found


def _shifted(path: Path | None, turned: TrialStep, step: TrialStep) -> Path | None:
    """Actions that an adapter added to the changed place of the robot, added to its real one."""
    if path is None or turned.here is None or step.here is None or path.rows.shape[1] != len(step.here):
        return path
    return Path(path.rows - turned.here + step.here, path.step_s)


def memory_mb() -> float:
    """Resident memory of this process and those that it started, MB; 0 where the system does not say."""
    pages = 0
    for pid in (os.getpid(), *_children()):
        with suppress(OSError):
            pages += int(File(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def _children() -> list[int]:
    with suppress(OSError):
        return [
            int(pid)
            for file in File("/proc/self/task").glob("*/children")
            for pid in file.read_text().split()
        ]
    return []


def gpu_memory_mb() -> float | None:
    """The most that PyTorch has had on the GPU in this process, MB; None without either."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return float(torch.cuda.max_memory_allocated()) / 1e6
