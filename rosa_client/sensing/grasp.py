"""Is something between the fingers of a gripper? Then they were commanded to be narrower than they are, and are not
shut."""

from __future__ import annotations

from collections.abc import Sequence

from rosa_client.motion.arm_orders import row_at
from rosa_client.runtime.commands import OPEN, MoveTo, Order, Play
from rosa_contract.config.robot import GripperSpec

SHUT_M = 0.005  # fingers closer than this hold nothing
OPEN_SHARE = 0.9  # of the full opening; wider fingers hold nothing, whatever was commanded
SQUEEZED_M = 0.003  # the commanded width is at least this much below the measured one


class Grasp:
    """Follows the orders given to the grippers of a robot, as far as they have been played."""

    def __init__(self, grippers: Sequence[GripperSpec], velocity_scale: float = 1.0) -> None:
        self._grippers = tuple(grippers)
        self._scale = velocity_scale  # a chunk's own time runs slower by this
        self._commanded_m: tuple[float, ...] | None = None  # None: unknown
        self._play: tuple[Play, float] | None = None

    def order(self, order: Order, now_s: float) -> None:
        """An order leaves for the arm."""
        self._commanded_m = self.commanded_m(now_s)
        self._play = (order, now_s) if isinstance(order, Play) else None
        if isinstance(order, MoveTo) and order.gripper == OPEN:
            self._commanded_m = tuple(one.max_m for one in self._grippers)

    def commanded_m(self, now_s: float) -> tuple[float, ...] | None:
        """The widths that the grippers should have by now, m; None when unknown."""
        if self._play is None:
            return self._commanded_m
        play, begun_s = self._play
        into_s = play.skip_s + (now_s - begun_s) * self._scale
        told = play.actions[row_at(into_s, play.skip_s + play.duration_s, play.step_s, len(play.actions))]
        return tuple(told[len(told) - len(self._grippers) :].tolist())

    def holds(self, measured_m: Sequence[float | None], now_s: float) -> bool:
        """Whether the fingers of a gripper are `measured_m` apart because something is between them.

        An unknown width (None) counts as holding, since opening the fingers would drop the object. So do half-open
        fingers whose commanded width is unknown. A robot without a gripper holds nothing.
        """
        commanded_m = self.commanded_m(now_s) or (None,) * len(self._grippers)
        return any(map(_holds, self._grippers, measured_m, commanded_m))


def _holds(gripper: GripperSpec, measured_m: float | None, commanded_m: float | None) -> bool:
    if measured_m is None:
        return True
    if measured_m - gripper.min_m <= SHUT_M:
        return False
    if commanded_m is None:
        return measured_m < OPEN_SHARE * gripper.max_m
    return commanded_m < measured_m - SQUEEZED_M
