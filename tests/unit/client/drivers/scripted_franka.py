"""A Franka arm and its hand without a library: they do as they are told, until a test breaks them."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rosa_client.drivers.arms.franka_ports import FciError
from rosa_client.drivers.arms.franka_rules import IDLE, MOVE, REFLEX, Heard
from rosa_contract.config.robot import load_robot

SPEC = load_robot(Path(__file__).parents[4] / "configs" / "robots" / "fr3_franka.yaml")
Q = np.array(SPEC.home_rad)


class ScriptedArm:
    """`Fci` without a library: an arm that is where it was told to be, until the test breaks it."""

    def __init__(self) -> None:
        self.mode = IDLE
        self.errors: tuple[str, ...] = ()
        self.fails: dict[str, FciError] = {}  # calls that fail, by name
        self.calls: list[str] = []
        self.ways: list[npt.NDArray[np.float64]] = []
        self.hangs_s = 0.0
        self.held = False  # by something in its way
        self.clears = True  # an error that is cleared is gone
        self._q = Q.copy()
        self._s = 0.0

    def newest(self) -> Heard | None:
        return self._heard() if self.mode == MOVE else None

    def send(self, rows_rad: npt.NDArray[np.float64]) -> bool:
        if self.mode != MOVE:
            return False
        self._may("send")
        self.ways.append(rows_rad)
        if not self.held:
            self._q = rows_rad[-1]
        return True

    def connect(self) -> None:
        time.sleep(self.hangs_s)
        self._call("connect")

    def read(self) -> Heard:
        self._may("read")
        return self._heard()

    def follow(self) -> None:
        self._call("follow")
        self.mode = MOVE

    def end(self) -> str:
        return "aborted"

    def leave(self) -> None:
        self.calls.append("leave")

    def clear_error(self) -> None:
        self._call("clear_error")
        if self.clears:
            self.mode, self.errors = IDLE, ()

    def reflex(self, *errors: str) -> None:
        self.errors, self.mode = errors, REFLEX

    def _heard(self) -> Heard:
        self._s += 0.001
        return Heard(self._q, np.zeros(7), np.zeros(7), self.mode, self.errors, self._s)

    def _call(self, name: str) -> None:
        self.calls.append(name)
        self._may(name)

    def _may(self, name: str) -> None:
        if name in self.fails:
            raise self.fails[name]


class ScriptedHand:
    """`Hand` with an object between its fingers."""

    def __init__(self) -> None:
        self.width_m, self.widest_m, self.object_m = 0.08, 0.08, 0.04
        self.calls: list[str] = []
        self.fails: FciError | None = None
        self.free = threading.Event()  # while it is not set, the hand is busy with what it was told
        self.free.set()

    def connect(self) -> None:
        self.calls.append("connect")
        self.free.wait(10.0)

    def read(self) -> tuple[float, float]:
        time.sleep(0.005)
        if self.fails is not None:
            raise self.fails
        return self.width_m, self.widest_m

    def home(self) -> bool:
        self.calls.append("home")
        self.width_m = self.widest_m = 0.08
        return True

    def move(self, width_m: float) -> bool:
        self.calls.append("move")
        self.width_m = width_m
        return True

    def grasp(self, width_m: float) -> bool:
        self.calls.append("grasp")
        self.free.wait(10.0)
        self.width_m = max(width_m, self.object_m)
        return True

    def leave(self) -> None:
        self.calls.append("leave")
