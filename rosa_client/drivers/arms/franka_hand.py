"""The Franka Hand beside the arm: its commands take seconds, so they have a thread, and so has reading its width.

When the hand gets a goal, and when it counts as broken, is decided in `gripper_goals.py`.
"""

from __future__ import annotations

import threading

from rosa_client.drivers.arms.franka_ports import FciError, FciHand
from rosa_client.drivers.arms.franka_rules import hand_fault
from rosa_client.drivers.arms.gripper_goals import Goal, GripperGoals, Result
from rosa_contract.config.arms import FrankaHand

LOOK_EVERY_S = 0.1
END_WITHIN_S = 1.0


class HandWorker:
    """One hand, or none: an arm without one is always where it was told to be."""

    def __init__(self, hand: FciHand | None, settings: FrankaHand, open_m: float, closed_m: float) -> None:
        """`open_m` and `closed_m`: the widths of the open and of the closed gripper."""
        self._hand = hand
        self._goals = GripperGoals(open_m, settings.timeout_s, closed_m)
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._work = threading.Event()
        self._next: Goal | None = None  # the newest goal; one that waits is replaced
        self._mend = False  # connect again, and home
        self._may_home = False  # a person has said so, and nothing was halted since
        self._lost = ""
        self._widest_m = open_m
        self.width_m = open_m
        self._threads = [
            threading.Thread(target=run, name=name, daemon=True)
            for run, name in ((self._commands, "hand"), (self._states, "hand state"))
        ]

    def start(self) -> None:
        """Connect and hear the first state. Raises `FciError`."""
        if self._hand is None:
            return
        self._hand.connect()
        self.width_m, self._widest_m = self._hand.read()
        for thread in self._threads:
            thread.start()

    def want(self, now_s: float, width_m: float) -> None:
        """The width that the arm is to have now. Does not wait."""
        if self._hand is None:
            self.width_m = width_m
            return
        with self._lock:
            if self._trouble():
                return
            goal = self._goals.wanted(now_s, width_m, self.width_m)
            if goal is None:
                return
            self._next = goal
        self._work.set()

    def halt(self) -> None:
        """Begin no motion any more; the one that the hand makes at this moment it finishes. Does not wait."""
        with self._lock:
            self._goals.halt()
            self._mend = self._may_home = False
            self._drop_waiting()

    def go_on(self) -> None:
        """Take goals again."""
        with self._lock:
            self._goals.go_on()

    def fault(self, now_s: float) -> str:
        """Why the hand cannot be used; empty when it can. A goal that waits is then not begun any more."""
        with self._lock:
            self._goals.check(now_s)
            fault = self._trouble() or self._goals.fault
            if fault:
                self._drop_waiting()
            return fault

    def recover(self) -> None:
        """Forget a fault; connect again and home the hand where that is what it lacks."""
        with self._lock:
            self._mend, self._may_home = bool(self._trouble()), True
            self._goals.recover()
        self._work.set()

    def close(self) -> None:
        """End the threads; the fingers keep what they hold."""
        self._ending.set()
        self._work.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=END_WITHIN_S)
        if self._hand is not None and not any(thread.is_alive() for thread in self._threads):
            self._hand.leave()

    def _drop_waiting(self) -> None:
        """The lock is held."""
        if self._next is not None:
            self._next = None
            self._goals.drop()

    def _trouble(self) -> str:
        return self._lost or hand_fault(self._widest_m)

    # -- threads ------------------------------------------------------------------------------------------------------

    def _states(self) -> None:
        assert self._hand is not None
        while not self._ending.is_set():
            if self._lost:
                self._ending.wait(LOOK_EVERY_S)
                continue
            try:
                width_m, widest_m = self._hand.read()
            except FciError as error:
                self._lose(error)
                continue
            with self._lock:
                self.width_m, self._widest_m = width_m, widest_m

    def _commands(self) -> None:
        while True:
            self._work.wait()
            self._work.clear()
            if self._ending.is_set():
                return
            with self._lock:
                goal, self._next = self._next, None
                mend, self._mend = self._mend, False
            if mend:
                self._put_right()
            elif goal is not None:
                self._finish(goal)

    def _finish(self, goal: Goal) -> None:
        assert self._hand is not None
        try:
            did = self._hand.grasp(goal.width_m) if goal.closing else self._hand.move(goal.width_m)
            # A move that does not arrive was stopped by something between the fingers.
            result = Result(goal.number, reached=did and not goal.closing, stalled=goal.closing or not did)
            width_m = self._hand.read()[0]
        except FciError as error:
            result, width_m = Result(goal.number, False, False, str(error)), self.width_m
            if error.lost:
                self._lose(error)
        with self._lock:
            self.width_m = width_m
            self._goals.ended(result, width_m)

    def _put_right(self) -> None:
        assert self._hand is not None
        try:
            if self._lost:
                self._hand.connect()
            width_m, widest_m = self._hand.read()
            if hand_fault(widest_m) and self._may_home:
                self._hand.home()
                width_m, widest_m = self._hand.read()
        except FciError as error:
            self._lose(error)
            return
        with self._lock:
            self._lost, self.width_m, self._widest_m = "", width_m, widest_m

    def _lose(self, error: FciError) -> None:
        with self._lock:
            self._lost = self._lost or f"the connection to the hand is lost: {error}"
