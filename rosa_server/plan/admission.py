"""Robots beyond the planned ones: what the server asks the scheduler, and what it may answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rosa_contract.wire.messages import Refused
from rosa_server.plan.placement import Placement


@dataclass(frozen=True)
class Admitted:
    """One more robot may come: its new slot, and the placement that contains it."""

    slot: str
    placement: Placement
    reason: str


class AdmissionControl(Protocol):
    """Decides about robots beyond the planned ones. The scheduler implements it."""

    def admit(self, task: str) -> Admitted | Refused:
        """A new slot for one more robot of a task, or what stands in the way."""

    def leave(self, slot: str) -> Placement:
        """The placement after the robot of a slot has left for good: the slot is gone, and rates may be higher."""


class NoAdmission:
    """Only the planned robots may come."""

    def __init__(self, why: str = "only the planned robots are admitted") -> None:
        self.why = why

    def admit(self, task: str) -> Refused:
        return Refused("admission_off", self.why)

    def leave(self, slot: str) -> Placement:
        raise KeyError(f"no robot was admitted to {slot}")
