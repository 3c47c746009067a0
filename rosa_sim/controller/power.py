"""Whether the simulated arm follows its controller: hardware, controller and robot mode as one table.

The order of a recovery is that of franka_ros2: a reflex stops the robot, the controller_manager deactivates the
hardware and with it the controller; the error is cleared, the hardware activated, then the controller.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Power(Enum):
    """What is on."""

    RUNNING = "running"
    STOPPED = "stopped"  # the controller is inactive
    REFLEX = "reflex"
    CLEARED = "cleared"  # the error is cleared, the hardware not yet active


class Event(Enum):
    ACTIVATE = "activate the controller"
    DEACTIVATE = "deactivate the controller"
    COLLIDE = "collide"
    CLEAR = "clear the error"
    START_HARDWARE = "activate the hardware"


TRANSITIONS: dict[tuple[Power, Event], Power] = {
    (Power.RUNNING, Event.DEACTIVATE): Power.STOPPED,
    (Power.RUNNING, Event.COLLIDE): Power.REFLEX,
    (Power.RUNNING, Event.CLEAR): Power.RUNNING,
    (Power.RUNNING, Event.START_HARDWARE): Power.RUNNING,
    (Power.STOPPED, Event.ACTIVATE): Power.RUNNING,
    (Power.STOPPED, Event.COLLIDE): Power.REFLEX,
    (Power.STOPPED, Event.CLEAR): Power.STOPPED,
    (Power.STOPPED, Event.START_HARDWARE): Power.STOPPED,
    (Power.REFLEX, Event.CLEAR): Power.CLEARED,
    (Power.CLEARED, Event.CLEAR): Power.CLEARED,
    (Power.CLEARED, Event.START_HARDWARE): Power.STOPPED,
}


@dataclass(frozen=True)
class Shown:
    """What others see of a `Power`."""

    controller: str  # ControllerState.state
    robot_mode: int  # FrankaRobotState.robot_mode
    reflex: bool


SHOWN = {
    Power.RUNNING: Shown("active", 2, False),
    Power.STOPPED: Shown("inactive", 1, False),
    Power.REFLEX: Shown("inactive", 4, True),
    Power.CLEARED: Shown("inactive", 1, False),
}


def after(power: Power, event: Event) -> Power | None:
    """The state after `event`; None when it is refused, as in the wrong order of a recovery."""
    return TRANSITIONS.get((power, event))
