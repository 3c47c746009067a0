"""What a model is asked in a trial, what it should have answered, and what it answered. Plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rosa_server.models.backend import ModelInput, ModelOutput

Array = NDArray[np.floating]
JOINTS, GRIPPER = "joint_position", "gripper_width"


@dataclass(frozen=True)
class Path:
    """Actions over time: joints in rad and, where there is a gripper, its width in m."""

    rows: Array  # (n, joints) or (n, joints + 1)
    step_s: float  # time of one row, > 0 and finite

    @property
    def times_s(self) -> Array:
        return np.arange(len(self.rows)) * self.step_s

    @property
    def until_s(self) -> float:
        """Time of the last row; the first is at 0."""
        return (len(self.rows) - 1) * self.step_s

    def at(self, times_s: Array, slower: float = 1.0) -> Array:
        """Rows `(len(times_s), columns)` at these times, between rows in a line; played `slower` times as slow."""
        last = len(self.rows) - 1
        place = np.minimum(np.maximum(times_s / (self.step_s * slower), 0), last)
        before = place.astype(int)
        after = np.minimum(before + 1, last)
        rows: Array = self.rows[before] + (place - before)[:, None] * (self.rows[after] - self.rows[before])
        return rows


@dataclass(frozen=True)
class TrialStep:
    """One moment: what the robot saw, and what was done then. `recorded` None: nobody knows."""

    at_s: float
    images: Mapping[str, NDArray[np.uint8]] = field(default_factory=dict)  # camera -> (height, width, 3) RGB
    state: Mapping[str, Array] = field(default_factory=dict)
    prompt: str = ""
    recorded: Path | None = None
    placed: bool = (
        True  # whether the joints are those of a robot; False: nobody said where it is, so they are zeros
    )

    def asked(self, component: str) -> ModelInput:
        """As a worker hands it to a model."""
        return ModelInput(component, self.prompt, dict(self.images), dict(self.state), robot="try")

    @cached_property
    def here(self) -> Array | None:
        """Where the robot is, as a row of a path; None where it does not say."""
        if JOINTS not in self.state:
            return None
        parts = [
            np.asarray(self.state[name], np.float64).ravel()
            for name in (JOINTS, GRIPPER)
            if name in self.state
        ]
        row: Array = np.concatenate(parts)
        row.flags.writeable = False  # whoever asks again gets the same
        return row

    @property
    def joint_count(self) -> int:
        return len(self.state[JOINTS]) if JOINTS in self.state else 0


@dataclass(frozen=True)
class Answered:
    """A step and what the model answered."""

    step: TrialStep
    output: ModelOutput
    ms: float
    path: Path | None  # of an action model
    unreachable: str = ""  # why the arm cannot go where the answer leads; empty: it can, or nobody knows


def path_of(rows: Any, output: ModelOutput, period_s: float | None, usual_s: float) -> Path | None:
    """Actions of an answer and how long a row is; None: it has none."""
    if rows is None:
        return None
    rows = np.asarray(rows, np.float64)
    if rows.ndim != 2 or not len(rows):
        return None
    own = row_s(output, len(rows), period_s, usual_s)
    return Path(rows, own) if 0 < own < inf else None


def row_s(output: ModelOutput, rows: int, period_s: float | None, usual_s: float) -> float:
    """Time of a row. Where an answer does not say it, all of them fill `period_s`; where that is not known either, a
    row is `usual_s`."""
    told = output.arrays.get("step_s")
    filled_s = period_s / max(1, rows) if period_s is not None else usual_s
    return float(np.asarray(told).ravel()[0]) if told is not None else filled_s


@dataclass(frozen=True)
class JointOrder:
    """How a model might mean its joints, in what it is given, in what it answers, or in both."""

    columns: tuple[int, ...]  # its joint i is the robot's joint `columns[i]`
    signs: tuple[int, ...]  # -1: it counts the other way
    given: bool
    ordered: bool

    @property
    def moved(self) -> list[int]:
        """The robot's joints that stand elsewhere."""
        return [joint for place, joint in enumerate(self.columns) if place != joint]

    @property
    def turned(self) -> list[int]:
        """The robot's joints that count the other way."""
        return [joint for joint, sign in zip(self.columns, self.signs, strict=True) if sign < 0]

    def of_state(self, step: TrialStep) -> TrialStep:
        """The step as such a model wants it."""
        joints = np.asarray(step.state[JOINTS])
        given = (joints[list(self.columns)] * np.array(self.signs)).astype(joints.dtype)
        return replace(step, state={**step.state, JOINTS: given})

    def of_path(self, path: Path) -> Path:
        """What such a model answered, in the robot's order; columns behind the joints stay."""
        rows = np.array(path.rows, np.float64)
        count = len(self.columns)
        if rows.shape[1] < count:  # a judge names that
            return path
        rows[:, list(self.columns)] = path.rows[:, :count] * np.array(self.signs)
        return replace(path, rows=rows)

    def of_moves(self, path: Path, here: Array) -> Path:
        """The same of moves from where the robot is, which an adapter has added to that."""
        moves = Path(path.rows - here, path.step_s)
        return replace(path, rows=self.of_path(moves).rows + here)


@dataclass(frozen=True)
class ModelTrial:
    """Everything that the judges look at."""

    component: str
    answered: Sequence[Answered]
    # What was changed in what the model is given -> the error of its answers then, as `unlike` says.
    what_ifs: Mapping[str, float] = field(default_factory=dict)
    # Inputs without which the model answered the very same, each taken away in turn: "camera front", "prompt"
    without_effect: Sequence[str] = ()
    changed: Sequence[str] = ()  # what was changed to find that out
    step_known: bool = True  # whether the time of a row is known
    period_s: float | None = None  # for how long the robot acts on a chunk; None: not known
    limits_rad: tuple[Array, Array] | None = None  # the robot's lowest and highest joint positions
    columns: int | None = None  # of a row for this robot: its joints and grippers; None: not known
    misfit: str = ""  # why the robot would be refused at its hello
    grippers_m: Sequence[tuple[float, float]] = ()  # closed and open width of each
    joint_names: Sequence[str] = ()  # empty: not known
    joint_orders: Mapping[JointOrder, float] = field(default_factory=dict)  # -> as of `what_ifs`
    orders_as: str = "width"  # how the gripper's orders are read now
    # Another way of reading them -> by how much ordered widths are off then, as a share of the range, of each gripper.
    orders_off: Mapping[str, Sequence[float]] = field(default_factory=dict)


POINTS = 8  # of a path, at which it is compared


def unlike(answered: Sequence[Answered], slower: float = 1.0, scale: float = 1.0) -> float | None:
    """How far predicted joints are from the recorded ones, as a share of how far these move: 0 the same, 1 no better
    than to stand still. None: nothing to compare, or nothing moved.

    `slower`: as if the prediction were played more slowly by this factor; `scale`: as if it moved farther by this one.
    """
    off = moved = 0.0
    for one in answered:
        recorded, here, path = one.step.recorded, one.step.here, one.path
        if recorded is None or here is None or path is None:
            continue
        count = min(one.step.joint_count, recorded.rows.shape[1], path.rows.shape[1])
        start = here[:count]
        if len(path.rows) == 1:  # a horizon of one: from here to there within the time of a row
            path = Path(np.stack([start, path.rows[0, :count]]), path.step_s)
        until_s = min(recorded.until_s, path.until_s * slower)
        times_s = np.arange(1, POINTS + 1) * (until_s / POINTS)
        done = recorded.at(times_s)[:, :count] - start
        told = (path.at(times_s, slower)[:, :count] - start) * scale
        off += float(np.abs(told - done).sum()) / max(1, done.size)
        moved += float(np.abs(done).sum()) / max(1, done.size)
    return off / moved if moved > 1e-6 else None
