"""What the `franka` driver uses of the library franka-rs: one small interface for the arm, one for its hand.

franka-rs (Apache-2.0) speaks the Franka Control Interface (FCI) itself, with an FR3 and by its documentation with a
Panda (FER). Its 1 kHz loop is a Rust thread that never takes Python's lock. It is imported only when a robot file names
the driver.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np

from rosa_client.drivers import DriverError
from rosa_client.drivers.arms import Array
from rosa_client.drivers.arms.franka_rules import ROW_S, Heard
from rosa_contract.config.arms import FrankaSettings

INSTALL = "pip install franka-rs"
NETWORK, REAL_TIME = "network", "realtime"  # kinds of franka-rs's errors
FURTHEST_RAD = 6.0  # from where the loop began: no limit of ours, which the setpoints keep already
DOF = 7

P = ParamSpec("P")
R = TypeVar("R")


class FciError(Exception):
    """Something that the arm or the way to it refused; the text is the library's."""

    def __init__(self, text: str, kind: str = "") -> None:
        """`kind`: franka-rs's own name for it, such as `NETWORK`."""
        super().__init__(text)
        self.kind = kind

    @property
    def lost(self) -> bool:
        """Whether the connection is gone."""
        return self.kind == NETWORK


class Fci(Protocol):
    """An arm on the Franka Control Interface. `newest` and `send` never wait; every other call may wait for the arm.

    Every call but `newest`, `end` and `leave` raises `FciError`. One thread calls `newest` and `send`, another one the
    rest.
    """

    def newest(self) -> Heard | None:
        """The newest state while the 1 kHz loop runs; None while it does not."""

    def send(self, rows_rad: Array) -> bool:
        """Pass through `rows_rad` (n, 7), one every `ROW_S`, in place of what was sent before; False without a loop."""

    def connect(self) -> None:
        """Connect, and set what is a collision."""

    def read(self) -> Heard:
        """The next state while the loop does not run."""

    def follow(self) -> None:
        """Start the loop: hold where the arm is."""

    def end(self) -> str:
        """Come to rest and end the loop; returns why it had ended by itself, if it had."""

    def clear_error(self) -> None:
        """Automatic error recovery."""

    def leave(self) -> None:
        """End the connection, once the loop has ended: Control serves one program at a time."""


class FciHand(Protocol):
    """The hand of an arm. Each call but `leave` waits until the fingers have stopped, and raises `FciError`."""

    def connect(self) -> None:
        """Connect."""

    def read(self) -> tuple[float, float]:
        """The next state: width now and widest opening, m. May be called beside the other calls."""

    def home(self) -> bool:
        """Open and close once, and measure the widest opening."""

    def move(self, width_m: float) -> bool:
        """Move the fingers to `width_m` apart."""

    def grasp(self, width_m: float) -> bool:
        """Close with the force of a grasp on whatever is between the fingers; whether they stopped as they should."""

    def leave(self) -> None:
        """End the connection."""


def library() -> ModuleType:
    """The library. Raises `DriverError` saying how to install it."""
    try:
        found = importlib.import_module("franka")
    except ImportError as error:
        raise DriverError(
            f"arm_driver: franka needs the package franka-rs: {INSTALL} (it cannot be imported: {error})"
        ) from error
    if not hasattr(found, "JointTargets"):
        where = getattr(found, "__file__", "an unknown place")
        raise DriverError(
            f"arm_driver: franka needs the package franka-rs 0.4 or newer, but `franka` in {where} is another:"
            f" {INSTALL}"
        )
    return found


def _told(
    call: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[Any, P], R]:
    """Turn the library's errors into `FciError`."""

    @wraps(call)
    def wrapped(self: Any, /, *given: P.args, **named: P.kwargs) -> R:
        try:
            return call(self, *given, **named)
        except self.library.FrankaError as error:
            raise FciError(said(error), str(error.kind)) from error

    return wrapped


def said(error: Exception) -> str:
    """One line of what the library says, without its own name."""
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    return first.removeprefix("libfranka: ").removeprefix("libfranka gripper: ").rstrip(".!")


class FrankaRs:
    """`Fci` by franka-rs."""

    def __init__(self, settings: FrankaSettings) -> None:
        """Raises `DriverError` when the library is missing."""
        self.library = library()
        self._settings = settings
        self._robot: Any = None
        self._targets: Any = None
        self._lock = threading.Lock()  # a loop that is being ended must not be asked meanwhile

    def newest(self) -> Heard | None:
        with self._lock:
            if self._targets is None or not self._targets.running:
                return None
            try:
                return heard(self._targets.state())
            except self.library.FrankaError:
                return None  # the loop has just ended; why, `end` says

    @_told
    def send(self, rows_rad: Array) -> bool:
        with self._lock:
            if self._targets is None or not self._targets.running:
                return False
            self._targets.follow(rows_rad, dt=ROW_S)
            return True

    @_told
    def connect(self) -> None:
        settings = self._settings
        self._robot = None  # lets go of an old connection: Control serves one at a time
        self._robot = self.library.Robot(settings.address, realtime=settings.real_time)
        torque, force = [settings.collision_torque_nm] * DOF, [settings.collision_force_n] * 6
        self._robot.set_collision_behavior_simple(torque, torque, force, force)

    @_told
    def read(self) -> Heard:
        return heard(self._robot.read_once())

    @_told
    def follow(self) -> None:
        # The arm's own joint impedance controller: stiffer than the library's, and it needs no gains of ours.
        targets = self._robot.joint_targets(
            fraction=self._settings.limit_share, max_deviation=FURTHEST_RAD, backend="robot"
        )
        with self._lock:
            self._targets = targets

    def end(self) -> str:
        with self._lock:
            targets, self._targets = self._targets, None
        if targets is None:
            return ""
        try:
            targets.stop()
        except self.library.FrankaError as error:
            return said(error)
        return ""

    @_told
    def clear_error(self) -> None:
        self._robot.automatic_error_recovery()

    def leave(self) -> None:
        self._robot = None


class FrankaRsHand:
    """`FciHand` by franka-rs."""

    def __init__(self, settings: FrankaSettings, widest_m: float) -> None:
        """`widest_m`: no finger ever ends further than this from a width that was asked for."""
        self.library = library()
        self._settings = settings
        self._widest_m = widest_m
        self._hand: Any = None

    @_told
    def connect(self) -> None:
        self._hand = None
        self._hand = self.library.Gripper(self._settings.address)

    @_told
    def read(self) -> tuple[float, float]:
        state = self._hand.read_once()
        return float(state.width), float(state.max_width)

    @_told
    def home(self) -> bool:
        return bool(self._hand.homing())

    @_told
    def move(self, width_m: float) -> bool:
        return bool(self._hand.move(width_m, self._settings.gripper.speed_m_s))

    @_told
    def grasp(self, width_m: float) -> bool:
        hand, slack = self._settings.gripper, self._widest_m
        # Whatever is between the fingers, or nothing: what was grasped is seen in the width.
        return bool(
            self._hand.grasp(width_m, hand.speed_m_s, hand.force_n, epsilon_inner=slack, epsilon_outer=slack)
        )

    def leave(self) -> None:
        self._hand = None


def heard(state: Any) -> Heard:
    """A `RobotState` of the library as plain values."""
    q, dq, effort = (np.array(values, dtype=np.float64) for values in (state.q, state.dq, state.tau_J))
    return Heard(q, dq, effort, str(state.robot_mode), tuple(state.current_errors), float(state.time))
