"""What the arm was told, how far it is with that, and which of its faults a person knows of."""

from __future__ import annotations

from collections.abc import Sequence

from rosa_client.motion.arm_orders import row_at
from rosa_client.runtime.commands import OPEN, Inputs, MoveTo, Order, Play
from rosa_client.runtime.machines import machine
from rosa_client.runtime.machines.side_machines import LEG_PROGRESS, LegEvent, LegProgress
from rosa_client.runtime.route import TO_SAFETY, Leg


class Arm:
    """The orders of one core to its arm. Only this class writes what is here."""

    def __init__(self, open_m: Sequence[float] = ()) -> None:
        """`open_m`: the widths of its grippers when they are open."""
        self._open_m = tuple(open_m)
        self.gripper_m: tuple[float, ...] | None = None  # the widths that they were told last; None: none yet
        self.sequence = 0  # of the newest order
        self.last_order: Order | None = None
        self.ordered_s = 0.0
        self.unheard_since_s = 0.0  # since when the arm has not taken an order that it should
        self.leg = TO_SAFETY  # the move under way
        self.leg_progress = LegProgress.ARRIVED
        self.stay_until_s = 0.0  # until then it stays at the end of the leg
        # The arm's fault when a person decided; it counts again once the arm has taken a new order.
        self.excused_fault = ""
        self.awaited = False  # it has not been seen well since a person decided
        self.was_stopped = False  # the emergency stop was latched in the control period before

    def next_sequence(self) -> int:
        """The number of the next order; the arm obeys an order only when its number is new."""
        self.sequence += 1
        return self.sequence

    def ordered(self, order: Order, taken: int, now_s: float) -> None:
        """`order` leaves now; `taken`: the number of the last one that the arm has taken."""
        if taken >= order.sequence - 1:
            self.unheard_since_s = now_s
        self.last_order, self.ordered_s = order, now_s
        if isinstance(order, Play):
            end_s = order.skip_s + order.duration_s
            row = order.actions[row_at(end_s, end_s, order.step_s, len(order.actions))]
            self.gripper_m = tuple(row[len(row) - len(self._open_m) :].tolist())
        elif isinstance(order, MoveTo) and order.gripper == OPEN:
            self.gripper_m = self._open_m

    def reports(self, before: Inputs, now: Inputs, now_s: float) -> None:
        """What the arm said in the control period before, and says now."""
        if now.arm_sequence != before.arm_sequence:
            self.unheard_since_s = now_s
        self.was_stopped = before.emergency_stop

    def begins(self, leg: Leg) -> None:
        """The next leg of a move, or the same one again because the arm cut it short."""
        self.leg = leg
        self._leg_goes(LegEvent.ORDERED)

    def rests(self, now_s: float) -> None:
        """It is at the end of the leg, and stays there for a while."""
        self._leg_goes(LegEvent.AT_REST)
        self.stay_until_s = now_s + self.leg.stay_s

    def excuse(self, fault: str, begins: bool) -> None:
        """A person goes on with the task, or begins it, and knows of the arm's present fault.

        When it begins, the fault is not known here before the arm has taken its first order.
        """
        self.excused_fault = fault
        self.awaited = bool(fault) or begins

    def has_taken_the_newest(self, fault: str) -> None:
        """What it reports is about the newest order now."""
        self.excused_fault = ""
        self.awaited &= bool(fault)

    def _leg_goes(self, event: LegEvent) -> None:
        self.leg_progress = machine.advance(LEG_PROGRESS, self.leg_progress, event)
