"""Is something between the fingers? They were told to be narrower than they are, and they are not shut."""

from __future__ import annotations

from rosa_client.runtime.commands import OPEN, MoveTo, Order, Play
from rosa_contract.robot import GripperSpec

SHUT_M = 0.005  # fingers closer than this hold nothing
OPEN_SHARE = 0.9  # of the full opening: fingers wider than this, and told nobody knows what, hold nothing
SQUEEZED_M = 0.003  # what they were told is at least this much narrower than what they hold


class Grasp:
    """Follows the orders given to the gripper, as far as they have been played."""

    def __init__(self, gripper: GripperSpec, velocity_scale: float = 1.0) -> None:
        self._gripper = gripper
        self._scale = velocity_scale  # a chunk's own time runs slower by this
        self._told_m: float | None = None  # None: nothing is known of what the fingers were last told
        self._play: tuple[Play, float] | None = None

    def order(self, order: Order, now_s: float) -> None:
        """An order leaves for the arm."""
        self._told_m = self.told_m(now_s)
        self._play = (order, now_s) if isinstance(order, Play) else None
        if isinstance(order, MoveTo) and order.gripper == OPEN:
            self._told_m = self._gripper.max_m

    def told_m(self, now_s: float) -> float | None:
        """The width that the fingers should have by now, m; None when unknown."""
        if self._play is None:
            return self._told_m
        play, begun_s = self._play
        row = int(min((now_s - begun_s) * self._scale, play.duration_s) / play.step_s)
        return float(play.actions[min(max(row, 0), len(play.actions) - 1), -1])

    def holds(self, measured_m: float | None, now_s: float) -> bool:
        """Whether the fingers are `measured_m` apart because something is between them.

        A width that nobody knows (None) counts as held: opening would drop it. So do half open fingers of which nobody
        knows what they were told.
        """
        if measured_m is None:
            return True
        if measured_m - self._gripper.min_m <= SHUT_M:
            return False
        told_m = self.told_m(now_s)
        if told_m is None:
            return measured_m < OPEN_SHARE * self._gripper.max_m
        return told_m < measured_m - SQUEEZED_M
