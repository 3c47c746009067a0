"""The alerts of one core: the open one, those that are settled, and the one that is still to come."""

from __future__ import annotations

from dataclasses import dataclass

from rosa_client.runtime.commands import Alert

REMEMBERED = 64  # settled alerts


@dataclass(frozen=True)
class Cause:
    """Why a human is called, and what that human should look at, in words; empty where the reason says it."""

    cause: str
    reason: str
    component: str = ""
    advice: str = ""


@dataclass(frozen=True)
class Settled:
    """Who or what settled an alert."""

    by: str
    choice: str
    at_s: float


class Person:
    """Whom the robot calls. Only this class writes what is here."""

    def __init__(self, first_alert: int) -> None:
        """`first_alert`: the number of the first alert."""
        self.alert: Alert | None = None  # the open one
        self.newest = first_alert - 1  # number of the newest alert
        self.call_for = Cause("", "")  # the cause of the alert to raise at the safe pose
        self.settled: dict[int, Settled] = {}

    def call(self, cause: str, reason: str, choices: tuple[str, ...]) -> Alert:
        """A new alert is open."""
        self.newest += 1
        self.alert = Alert(self.newest, cause, reason, choices)
        return self.alert

    def call_later(self, why: Cause) -> None:
        """Call for this reason once the arm is at its safe pose."""
        self.call_for = why

    def settle(self, by: str, choice: str, now_s: float) -> int:
        """Close the open alert; its number."""
        assert self.alert is not None
        number, self.alert = self.alert.alert_id, None
        self.settled[number] = Settled(by, choice, now_s)
        self.settled.pop(number - REMEMBERED, None)
        return number
