"""Runs a model: once, along a recording, and again under other conventions."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

import numpy as np

from rosa_server.models.backend import Backend, ModelOutput
from rosa_server.trying.judges import GOOD
from rosa_server.trying.steps import Answered, Array, ModelTrial, Path, TrialStep, path_of, unlike
from rosa_server.trying.what_ifs import conventions, spread, without

MAX_WHAT_IF_STEPS = 12
USUAL_STEP_S = 0.05


@dataclass(frozen=True)
class TriedRobot:
    """What is known of the robot beside the recording."""

    limits_rad: tuple[Array, Array] | None = None
    gripper_m: tuple[float, float] | None = None


@dataclass
class TrialAsker:
    """A loaded model and how it is asked."""

    backend: Backend
    component: str
    period_s: float | None = None  # that all rows fill, where answers do not say how long one is
    clock: Callable[[], float] = time.perf_counter
    notes: list[str] = field(default_factory=list)

    def ask(self, step: TrialStep) -> Answered:
        """Raises whatever the model raises."""
        began_s = self.clock()
        output = self.backend.infer([step.asked(self.component)])[0]
        return Answered(step, output, (self.clock() - began_s) * 1000, self._path(step, output))

    def _path(self, step: TrialStep, output: ModelOutput) -> Path | None:
        usual_s = step.recorded.step_s if step.recorded is not None else USUAL_STEP_S
        return path_of(output, self.period_s, usual_s)

    def knows_step(self, answered: Sequence[Answered]) -> bool:
        """Whether answers, or the factory, say how long a row is."""
        return self.period_s is not None or any("step_s" in one.output.arrays for one in answered)


def try_model(asker: TrialAsker, steps: Sequence[TrialStep], robot: TriedRobot) -> ModelTrial:
    """Ask about each step, then about the same under other conventions. Raises whatever the model raises."""
    answered = [asker.ask(step) for step in steps]
    changed, deaf = _deaf(asker, answered[0])
    error = unlike(answered)
    what_ifs = _what_ifs(asker, answered, robot) if error is not None and error >= GOOD else {}
    return ModelTrial(
        asker.component,
        answered,
        what_ifs,
        deaf,
        changed,
        asker.knows_step(answered),
        robot.limits_rad,
        robot.gripper_m,
    )


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
    here, there = one.step.here, other.step.here
    comparable = here is not None and there is not None and len(here) == rows.shape[1]
    return _close(rows, others) or (comparable and _close(rows - here, others - there))


def _close(one: Array, other: Array) -> bool:
    return bool(np.allclose(one, other, rtol=1e-6, atol=2e-6))


def _what_ifs(asker: TrialAsker, answered: Sequence[Answered], robot: TriedRobot) -> dict[str, float]:
    """Name -> error of the answers under that convention."""
    chosen = [answered[index].step for index in spread(len(answered), MAX_WHAT_IF_STEPS)]
    found: dict[str, float] = {}
    for name, change in conventions(chosen[0], robot.gripper_m).items():
        direct, from_here = [], []
        try:
            for step in chosen:
                turned = change(step)
                one = asker.ask(turned)
                direct.append(Answered(step, one.output, one.ms, one.path))
                from_here.append(Answered(step, one.output, one.ms, _shifted(one.path, turned, step)))
        except Exception as error:  # it may refuse what never was
            asker.notes.append(f"{name}: {type(error).__name__}: {str(error)[:80]}")
            continue
        errors = [error for error in (unlike(direct), unlike(from_here)) if error is not None]
        if errors:
            found[name] = min(errors)
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
