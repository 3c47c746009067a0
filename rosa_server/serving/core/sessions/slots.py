"""The slots that a schedule has for robots: taken at hello, free again when the robot has left."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from rosa_contract.wire.messages import Refused
from rosa_server.plan.admission import AdmissionControl, Admitted
from rosa_server.plan.placement import Placement, Replica


class Warmth(Protocol):
    """Knows which replicas have a warm worker."""

    def first_cold(self, replicas: Iterable[str]) -> Replica | None:
        """The first of these replicas whose streams no warm worker runs."""


@dataclass(frozen=True)
class Taken:
    """A slot that a robot has now."""

    slot: str
    admitted: Admitted | None = None  # where the slot was added for this robot
    token: str = ""  # the proof that it has it, where several gateways share the schedule


class Slots:
    """Free slots by task. A robot beyond the planned ones gets a slot, or a refusal, from `admission`.

    Each task keeps as many slots as were planned, whichever these are. While more robots than planned are here, a robot
    that leaves takes its slot along, so that the others may be faster again: at once, or as soon as the replicas that
    have failed are warm again.
    """

    def __init__(self, placement: Placement, admission: AdmissionControl, warmth: Warmth) -> None:
        self.placement = placement
        self.admission, self._warmth = admission, warmth
        self._free: dict[str, list[tuple[int, str]]] = {}  # task -> (number, slot), lowest first
        self.planned = Counter(task_of(slot) for slot in placement.routes or ())
        self._refused: dict[str, Refused] = {}  # by task; valid until something changes
        self._frozen = ""  # why the number of slots may not change now
        for slot in placement.routes or ():
            self._put(slot)

    def freeze(self, why: str) -> None:
        """Add and remove no slot, as somebody plans with those that there are, until a placement is adopted or `why` is
        empty."""
        self._frozen = why
        self.changed()

    def adopt(
        self, placement: Placement, admission: AdmissionControl, planned: Mapping[str, int] | None = None
    ) -> None:
        """Another placement from now on. `planned`: the slots that each task keeps; none: all that it has.

        Raises `ValueError` where a robot would lose its slot.
        """
        taken = self.taken()
        if lost := taken - set(placement.routes or ()):
            raise ValueError(f"robots would lose their slots {', '.join(sorted(lost))}")
        self.placement, self.admission, self._frozen = placement, admission, ""
        self._free.clear()
        self.planned = Counter(planned or (task_of(slot) for slot in placement.routes or ()))
        for slot in placement.routes or ():
            if slot not in taken:
                self._put(slot)
        self.changed()

    def taken(self) -> set[str]:
        """The slots that robots have now."""
        free = {slot for entries in self._free.values() for _, slot in entries}
        return set(self.placement.routes or ()) - free

    def changed(self) -> None:
        """Replicas or slots have changed: what was refused may be possible now."""
        self._refused.clear()

    def take(self, task: str, robot: str = "", token: str = "") -> Taken | Refused:
        """The lowest free slot whose replicas are warm, or one that admission adds, whichever robot asks."""
        if task not in self._refused:
            found = self._planned_slot(task) or self._added_slot(task)
            if isinstance(found, Taken):
                return found
            self._refused[task] = found
        return self._refused[task]

    def release(self, slot: str, bye: bool = False) -> bool:
        """The robot of a slot has left, with a `bye` or without. True when that changed the placement."""
        self.changed()
        self._put(slot)
        return self.trim()

    def add(self, task: str, dry_run: bool) -> Admitted | Refused:
        """One more planned slot of a task, which stays when its robot leaves. `dry_run`: only say what would follow."""
        if self._frozen:
            return Refused("not_admitted", self._frozen)
        answer = self.admission.admit(task)
        if isinstance(answer, Refused):
            return answer
        cold = self._cold(answer.placement, answer.slot)
        if cold is not None or dry_run:
            self.admission.leave(answer.slot)
            return not_ready(cold) if cold is not None else answer
        self._changes(answer.placement)
        self.planned[task] += 1
        self._put(answer.slot)
        self.changed()
        return answer

    def trim(self) -> bool:
        """Remove free slots beyond the planned ones if their replicas are warm. True when there were any.

        A slot of a failed replica stays: its removal may move another robot into its place, on the failed replica.
        """
        if self._frozen:
            return False
        removed = False
        left = Counter(task_of(slot) for slot in self.placement.routes or ())
        for task, free in self._free.items():
            for entry in reversed(list(free)):  # the latest first
                if left[task] > self.planned[task] and self._cold(self.placement, entry[1]) is None:
                    free.remove(entry)
                    self._changes(self.admission.leave(entry[1]))
                    left[task] -= 1
                    removed = True
        if removed:
            self.changed()
        return removed

    def _changes(self, placement: Placement) -> None:
        """Admission has changed the schedule that runs; it is no other one."""
        self.placement = replace(placement, epoch=self.placement.epoch)

    def _planned_slot(self, task: str) -> Taken | Refused | None:
        """None when no slot is free."""
        first_cold: Replica | None = None
        free = self._free.get(task, [])
        for index, (_, slot) in enumerate(free):
            cold = self._cold(self.placement, slot)
            if cold is None:
                del free[index]
                return Taken(slot)
            first_cold = first_cold or cold
        return None if first_cold is None else not_ready(first_cold)

    def _added_slot(self, task: str) -> Taken | Refused:
        answer = Refused("not_admitted", self._frozen) if self._frozen else self.admission.admit(task)
        if isinstance(answer, Refused):
            count = self.planned[task]
            taken = (
                f"the {count} planned slots of task {task} are taken" if count else f"no slot for task {task}"
            )
            return Refused(answer.cause, f"admission: {taken}, and no other can be added: {answer.reason}")
        cold = self._cold(answer.placement, answer.slot)
        if cold is not None:
            self.admission.leave(answer.slot)  # admission knows loads, not which replicas have failed
            return not_ready(cold)
        self._changes(answer.placement)
        self.changed()
        return Taken(answer.slot, answer)

    def _cold(self, placement: Placement, slot: str) -> Replica | None:
        assert placement.routes is not None, "there are no slots without a schedule"
        return self._warmth.first_cold(placement.routes[slot].values())

    def _put(self, slot: str) -> None:
        insort(self._free.setdefault(task_of(slot), []), (int(slot.rpartition("/")[2]), slot))


def not_ready(cold: Replica) -> Refused:
    """The refusal of a robot that needs a replica without a warm worker."""
    name = cold.id if cold.id == cold.model else f"{cold.id} ({cold.model})"
    return Refused("not_ready", f"{name} has no warm worker yet; say hello again")


def task_of(slot: str) -> str:
    """`pick/3` -> `pick`."""
    return slot.rpartition("/")[0]
