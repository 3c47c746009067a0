"""A Franka arm, driven directly over the Franka Control Interface (FCI), and its hand.

What counts as a fault is decided in `franka_rules.py`, when the hand gets a goal in `gripper_goals.py`; the library
behind both is in `franka_ports.py`. The library's own thread tells the arm a position every millisecond; the control
loop only hands it the next few. Whatever waits for the arm (connecting, recovering, reading while nothing moves) is
done in a thread of the driver, the hand's commands in another (`franka_hand.py`).

A process that dies leaves the arm held: Control ends a motion whose commands stop, and holds.
"""

from __future__ import annotations

import threading
import time

import numpy as np

from rosa_client.drivers import DriverError
from rosa_client.drivers.arms import ArmState, Array
from rosa_client.drivers.arms.franka_hand import HandWorker
from rosa_client.drivers.arms.franka_ports import REAL_TIME, Fci, FciError, FciHand, FrankaRs, FrankaRsHand
from rosa_client.drivers.arms.franka_rules import (
    CLEAR_ERROR,
    CONNECT,
    FOLLOW,
    FrankaLink,
    next_step,
    rows,
    why_not,
    why_stopped,
)
from rosa_client.motion.arm_orders import Command
from rosa_contract.config.arms import NO_GRIPPER, FrankaSettings, arm_settings
from rosa_contract.config.robot import RobotSpec

LOOK_EVERY_S = 0.01  # whether the library's loop still runs, and the state while it does not
END_WITHIN_S = 3.0


class FrankaArm:
    """An arm driver; see `rosa_client.drivers.arms`. `connect` waits for the arm's first state."""

    def __init__(
        self, spec: RobotSpec, seed: int, fci: Fci | None = None, hand: FciHand | None = None
    ) -> None:
        """`fci` and `hand` stand for the library. Raises `ConfigError` for wrong settings, `DriverError` without it."""
        self._settings: FrankaSettings = arm_settings(spec.name, "franka", spec.arm)
        if self._settings.limit_share < spec.velocity_scale:
            raise DriverError(
                f"arm.limit_share: {self._settings.limit_share:g} is less than velocity_scale, {spec.velocity_scale:g}:"
                " the arm could not follow its setpoints"
            )
        self._fci = fci or FrankaRs(self._settings)
        if hand is None and self._settings.gripper.kind != NO_GRIPPER:
            hand = FrankaRsHand(self._settings, spec.gripper.max_m)
        self._lock = threading.Lock()  # around the link
        self._link = FrankaLink()
        self._hand = HandWorker(hand, self._settings.gripper, spec.gripper.max_m, spec.gripper.min_m)
        self._grippers = len(spec.grippers)  # one or none
        self._connected = False
        self._wanted = threading.Event()  # a recovery
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="franka", daemon=True)
        self._begun = threading.Event()
        self._failure: Exception | None = None  # why it could not begin

    def connect(self, namespace: str) -> None:
        settings, where = self._settings, self._settings.address
        self._thread.start()
        if not self._begun.wait(settings.start_timeout_s):
            self._ending.set()
            raise DriverError(
                f"arm.address: no answer from {where} within {settings.start_timeout_s:g} s; another program may hold"
                " FCI: only one can"
            )
        try:
            if self._failure is not None:
                raise self._failure
            self._hand.start()
        except FciError as error:
            self.close()
            raise DriverError(explained(error, where)) from error

    def read(self) -> ArmState:
        now_s = time.monotonic()
        newest = self._fci.newest()
        if newest is not None:
            with self._lock:
                self._link.hear(now_s, newest)
        with self._lock:
            fault = self._link.fault() or self._hand.fault(now_s)
            return self._link.state(now_s, np.full(self._grippers, self._hand.width_m), fault)

    @property
    def leads(self) -> bool:
        return True

    @property
    def max_following_error_rad(self) -> float:
        return self._settings.max_following_error_rad

    def track(self, command: Command) -> None:
        with self._lock:
            before, ill = self._link.begins(command), self._link.fault()
        if not ill:
            self._send(rows(before, command.q_rad, command.within_s))
        for width_m in command.gripper_m:
            self._hand.want(time.monotonic(), float(width_m))

    def idle(self, period_s: float) -> None:
        pass

    def recover(self) -> None:
        """Recover in the driver's thread; `ArmState.fault` says how it goes."""
        self._hand.recover()
        with self._lock:
            if self._link.fault():
                self._link.recovering("begins")
        self._wanted.set()

    def halt(self) -> None:
        self._hand.halt()

    def go_on(self) -> None:
        self._hand.go_on()

    def close(self) -> None:
        self._ending.set()
        self._hand.close()
        if self._thread.is_alive():
            self._thread.join(timeout=END_WITHIN_S)

    def _send(self, way_rad: Array) -> None:
        try:
            sent = self._fci.send(way_rad)
        except FciError as error:
            # When the loop has just ended, the driver's thread finds out why.
            if self._fci.newest() is not None:
                with self._lock:
                    self._link.stopped(f"the arm refused a setpoint: {error}")
            return
        if sent:
            with self._lock:
                self._link.sent(way_rad[-1])

    # -- the driver's thread ------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            self._take(CONNECT)
            heard = self._link.heard
            # One in a reflex, or stopped by its user, waits for a person; and nobody may have waited for its answer.
            if next_step(True, False, heard) == FOLLOW and not why_not(heard) and not self._ending.is_set():
                self._take(FOLLOW)
            else:
                self._link.stopped(why_stopped(heard, ""))
        except Exception as error:
            self._failure = error
            self._ending.set()
        self._begun.set()
        try:
            self._watch()
        except Exception as error:
            with self._lock:
                self._link.stopped(f"the driver's thread ended: {error!r}")
            raise
        finally:
            self._fci.end()
            self._fci.leave()

    def _watch(self) -> None:
        while not self._ending.wait(LOOK_EVERY_S):
            if self._connected and self._fci.newest() is None:
                self._look()
            if self._wanted.is_set():
                self._wanted.clear()
                self._recover()

    def _look(self) -> None:
        """The loop does not run: note why, and hear the arm meanwhile."""
        said = self._fci.end()
        try:
            self._hear()
        except FciError as error:
            self._lost(error)
            return
        with self._lock:
            self._link.stopped(why_stopped(self._link.heard, said))

    def _recover(self) -> None:
        """Step by step until the arm follows, or until a step fails or only a person can go on."""
        taken: list[str] = []
        while step := next_step(self._connected, self._fci.newest() is not None, self._link.heard):
            problem = why_not(self._link.heard) if self._connected else ""
            if step in taken:
                problem = f"{step}: it did not help"
            if not problem:
                taken.append(step)
                with self._lock:
                    self._link.recovering(step)
                try:
                    self._take(step)
                    continue
                except FciError as error:
                    problem = f"{step}: {error}"
                    self._connected &= not error.lost
            with self._lock:
                self._link.recovery_failed(problem)
            return
        with self._lock:
            if self._link.fault():  # one that followed all the while goes on from its last setpoint
                self._link.follows()

    def _take(self, step: str) -> None:
        """Carry out one step. Raises `FciError`."""
        if step == CONNECT:
            self._fci.connect()
            self._connected = True
        elif step == CLEAR_ERROR:
            self._fci.clear_error()
        elif step == FOLLOW:
            self._fci.follow()
            return
        self._hear()

    def _hear(self) -> None:
        heard = self._fci.read()
        with self._lock:
            self._link.hear(time.monotonic(), heard)

    def _lost(self, error: FciError) -> None:
        self._connected = not error.lost
        with self._lock:
            self._link.stopped(f"the connection to the arm is lost: {error}" if error.lost else str(error))


def explained(error: FciError, where: str) -> str:
    """Why the driver cannot start, and the setting that is concerned."""
    if error.kind == REAL_TIME:
        return f"arm.real_time: {error}: see docs/franka.md; `ignore` is for a simulated arm only"
    return f"arm.address: {where}: {error}"
