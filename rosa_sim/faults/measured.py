"""All wrong measurements that are tested, and the fault that each one causes. None of them moves the arm.

`tests/unit/client/motion/hostile_arms.py` does each of them to every driver.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WrongMeasurement:
    """One way in which joint states are wrong. `causes`: of the fault that follows, at an arm that stands still; none
    where nothing differs there. What is told depends on the driver: not each gets stamps, or joints by name."""

    what: str
    causes: tuple[str, ...] = ()


JUMP, ELSEWHERE = "measurement_jump", "arm_elsewhere"
SILENT = ("arm_driver", "measurement_silent", "stamp_frozen")  # a driver may notice it before the check does

WRONG_MEASUREMENTS: dict[str, WrongMeasurement] = {
    "zeros_beside_it": WrongMeasurement(
        "a second publisher sends zeros, ten times a second", ("measurement_range", JUMP)
    ),
    "other_pose_beside_it": WrongMeasurement(
        "a second publisher sends a wrong pose next to each true one", (JUMP, ELSEWHERE)
    ),
    "other_pose_instead": WrongMeasurement(
        "the measurement switches to another pose and stays there", (JUMP, ELSEWHERE)
    ),
    "old_beside_it": WrongMeasurement(
        "a second publisher repeats an old joint state next to each true one", ("stamp_back",)
    ),
    "old_instead": WrongMeasurement("an old joint state is repeated with its old stamp", SILENT),
    "old_position_new_stamp": WrongMeasurement("an old position is repeated with new stamps"),
    "one_wrong": WrongMeasurement("one sample is 0.5 rad off", (JUMP,)),
    "jumps_and_returns": WrongMeasurement("a joint jumps by 0.5 rad and back, again and again", (JUMP,)),
    "huge": WrongMeasurement("a joint reads 1e6 rad", ("measurement_range",)),
    "not_finite": WrongMeasurement("a joint reads NaN or infinity", ("measurement_not_finite",)),
    "drifts": WrongMeasurement(
        "all joints drift away, slower than their speed limits", ("not_following", ELSEWHERE)
    ),
    "stamps_back": WrongMeasurement("stamps jump back by 100 s", ("stamp_back",)),
    "stamps_ahead": WrongMeasurement("stamps alternate between the future and the present", ("stamp_ahead",)),
    "stamps_stand": WrongMeasurement("stamps stand still while the positions are true", SILENT),
    "names_change": WrongMeasurement(
        "one joint's name goes missing, comes back and goes missing again",
        ("arm_driver", "measurement_shape"),
    ),
    "silence": WrongMeasurement("no joint states arrive", SILENT),
    "noise": WrongMeasurement("every second sample is up to 0.3 rad off", (JUMP,)),
}
