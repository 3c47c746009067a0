"""What an operator can click for a robot, and what a click means. The robot checks every decision itself.

A control's name carries the number of its alert, so a click on a menu that was opened for an alert that is settled
by now reaches the robot as an answer to that alert, and is refused there instead of being taken for the next one.
"""

from __future__ import annotations

from dataclasses import dataclass

from rosa_client.operator.robot_view import RobotView
from rosa_contract.wire.bounds import MAX_ID

DECIDE, STOP, RELEASE = "decide", "emergency_stop", "release_emergency_stop"
GO, CAREFUL, END = "go", "careful", "end"
TITLES = {
    "recover_arm": "recover the arm",
    "resume": "resume",
    "retry": "retry from the start",
    "return_to_safe_state": "move to the safe pose",
    "abort": "abort the task",
}
TONES = {"resume": GO, "retry": CAREFUL, "return_to_safe_state": CAREFUL, "abort": END}
ONLY_CHOICE_WHEN_STOPPED = "abort"


@dataclass(frozen=True)
class OfferedChoice:
    """One button: the control's name, its label, and its colour."""

    key: str
    title: str
    tone: str


@dataclass(frozen=True)
class Click:
    """What a click asks for: `kind` is DECIDE, STOP or RELEASE."""

    kind: str
    alert_id: int = 0
    choice: str = ""


def choices(view: RobotView) -> list[OfferedChoice]:
    """The decisions that are possible now, apart from the emergency stop, which is always offered."""
    offered = []
    if view.stopped:
        offered.append(OfferedChoice(RELEASE, "release the emergency stop", CAREFUL))
    if view.alert is not None:
        offered += [
            OfferedChoice(
                f"{DECIDE}/{view.alert.id}/{name}",
                TITLES.get(name, name.replace("_", " ")),
                TONES.get(name, CAREFUL),
            )
            for name in view.alert.choices
            if not view.stopped or name == ONLY_CHOICE_WHEN_STOPPED
        ]
    return offered


def parse_click(key: str) -> Click:
    """The meaning of a control's name. Raises `ValueError` for an unknown name."""
    if key in (STOP, RELEASE):
        return Click(key)
    kind, _, rest = key.partition("/")
    number, _, choice = rest.partition("/")
    if kind == DECIDE and number.isdigit() and choice and int(number) <= MAX_ID:
        return Click(DECIDE, int(number), choice)
    raise ValueError(f"control {key!r}: expected {STOP}, {RELEASE} or {DECIDE}/<alert>/<choice>")
