"""How a loaded model is asked, and what that takes."""

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

from rosa_contract.config.spaces import ACTIONS, SPACES
from rosa_contract.kinematics.arm import UnreachableError
from rosa_server.models.backend import Backend, ModelOutput
from rosa_server.trying.spaces import OtherSpaces, other_space
from rosa_server.trying.steps import Answered, Path, TrialStep, path_of, row_s

USUAL_STEP_S = 0.05
ANSWERS_A_SPACE = "the robot turns these answers into joint positions: --robot FILE shows where they lead"


@dataclass
class TrialAsker:
    """A loaded model and how it is asked."""

    backend: Backend
    component: str
    period_s: float | None = None  # that all rows fill, where answers do not say how long one is
    spaces: OtherSpaces = field(default_factory=lambda: OtherSpaces(None))
    clock: Callable[[], float] = time.perf_counter
    notes: list[str] = field(default_factory=list)
    say: Callable[[str], None] = lambda words: None  # what takes long, as it begins

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
