"""The places that a schedule has for robots: taken at hello, free again when the robot has left."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable

from rosa_contract.messages import Refused
from rosa_server.serving.core.placement import AdmissionControl, Admitted, Placement

Missing = Callable[[Iterable[str]], str]  # the first of some replicas that is not warm, or nothing


class Slots:
    """Free slots by task. A robot beyond the planned ones gets a slot from `admission`, or its words of refusal.

    Each task keeps as many slots as were planned, whichever these are. While more robots than planned are here, a robot
    that leaves takes its slot along, so that the others may be faster again: at once, or as soon as the replicas that
    have failed are warm again.
    """

    def __init__(self, placement: Placement, admission: AdmissionControl) -> None:
        self.placement = placement
        self._admission = admission
        self._free: dict[str, list[tuple[int, str]]] = {}  # task -> in order
        self._planned = Counter(task_of(slot) for slot in placement.routes or ())
        self._refused: dict[str, Refused] = {}  # an answer holds until something changes
        for slot in placement.routes or ():
            self._put(slot)

    def changed(self) -> None:
        """Hosts or slots are not what they were: refusals are to be thought over."""
        self._refused.clear()

    def take(self, task: str, missing: Missing) -> str | Admitted | Refused:
        """A free slot, the lowest whose replicas are warm. `missing` names what is not."""
        if task in self._refused:
            return self._refused[task]
        assert self.placement.routes is not None
        cold = ""
        free = self._free.get(task, [])
        for index, (_, slot) in enumerate(free):
            lacking = missing(self.placement.routes[slot].values())
            if not lacking:
                del free[index]
                return slot
            cold = cold or lacking
        refusal = _not_ready(cold)
        if not cold:
            answer = self._admission.admit(task)
            if isinstance(answer, Admitted):
                cold = missing((answer.placement.routes or {})[answer.slot].values())
                if not cold:
                    self.placement = answer.placement
                    self.changed()
                    return answer
                self._admission.leave(answer.slot)  # admission knows loads, not who has failed
                refusal = _not_ready(cold)
            else:
                count = self._planned[task]
                taken = (
                    f"the {count} planned slots of task {task} are taken"
                    if count
                    else f"no slot for task {task}"
                )
                refusal = Refused("not_admitted", f"admission: {taken}, and no other can be added: {answer}")
        self._refused[task] = refusal
        return refusal

    def release(self, slot: str, missing: Missing) -> bool:
        """The robot of a slot has left. True when the placement has changed by that."""
        self.changed()
        self._put(slot)
        return self.trim(missing)

    def trim(self, missing: Missing) -> bool:
        """Free slots beyond the planned ones go, those whose replicas are warm. True when one has gone.

        Not the others: when a slot goes, another robot may take its place, and would come to a replica that has failed.
        """
        gone = False
        left = Counter(task_of(slot) for slot in self.placement.routes or ())
        for task, free in self._free.items():
            for entry in reversed(list(free)):  # the latest first
                routes = (self.placement.routes or {})[entry[1]]
                if left[task] > self._planned[task] and not missing(routes.values()):
                    free.remove(entry)
                    self.placement = self._admission.leave(entry[1])
                    left[task] -= 1
                    gone = True
        if gone:
            self.changed()
        return gone

    def _put(self, slot: str) -> None:
        insort(self._free.setdefault(task_of(slot), []), (int(slot.rpartition("/")[2]), slot))


def _not_ready(cold: str) -> Refused:
    return Refused("not_ready", f"{cold} has no warm worker yet; say hello again")


def task_of(slot: str) -> str:
    """`pick/3` -> `pick`."""
    return slot.rpartition("/")[0]
