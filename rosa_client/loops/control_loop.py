"""The thread that owns the arm: one setpoint per control period on the monotonic clock, independent of ROS."""

from __future__ import annotations

import math
import os
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from rosa_client.drivers import DriverError
from rosa_client.drivers.arms import ArmDriver, ArmState, Array, followed, rests
from rosa_client.loops.arm_watch import ArmWatch
from rosa_client.motion.arm_orders import Command, Order, OrderId
from rosa_client.motion.chunk_player import ChunkPlayer
from rosa_client.motion.refusal import Refusal
from rosa_client.motion.setpoint_guard import SetpointGuard

SPIN_S = 0.0005  # busy-wait at the end of each period, because a sleep ends late by about this much
# Python's threads take turns: how long one that has something to do waits before it asks the running one to let go.
# When the control thread wakes it gets its turn in the first half of its spin, and whoever gave it asks for the next
# one after the second half. Others that come while it is awake wait until it has begun its period, and usually until
# it sleeps.
TURN_ASLEEP_S = SPIN_S / 2
TURN_AWAKE_S = SPIN_S * 2
PRIORITY = 40  # below the kernel's own threads, above everything that is not real-time
LATE_S = 0.005  # a period may begin so late without having been lost
BLOCKED_S = 0.5  # without a period; a busy machine delays one by some tens of ms
LATE_PERIODS = 5  # further behind than this, the loop drops the lost periods instead of catching up
MOVING_RAD = 1e-6  # from its end: an arm that is closer stands
CERTAIN_WITHIN_S = 5.0  # of an arm's first measurements


@dataclass(frozen=True)
class Pace:
    """Timing of the loop over its last periods (at most a minute), ms."""

    periods: int
    jitter_p50_ms: float  # how late a period begins
    jitter_p99_ms: float
    work_p99_ms: float  # time spent in a period
    restarts: int  # times that lost periods were dropped


def _share(times_s: Array, share: float) -> float:
    """The time in ms that this share of them is below. Not `np.percentile`: its first call loads modules, for 26 ms in
    which the control thread waits."""
    index = min(len(times_s) - 1, int(share * len(times_s)))
    return float(np.partition(times_s, index)[index]) * 1000


class ControlLoop:
    """Runs `after(now_s, state)` at the end of each period, in its own thread."""

    def __init__(
        self,
        arm: ArmDriver,
        player: ChunkPlayer,
        watch: ArmWatch,
        rate_hz: float,
        after: Callable[[float, ArmState], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises `DriverError` when the arm's position does not become certain. `clock`: that of the arm's samples."""
        self._clock = clock
        self._arm = arm
        self._followed = followed(arm)
        # A controller that keeps to no time goes to the newest setpoint at once: it must not get several in a row.
        catches_up = self._followed is None or self._followed.leads
        self._late_periods = LATE_PERIODS if catches_up else 0
        self._player = player
        self._watch = watch
        self._guard = SetpointGuard(player.limits, rate_hz)
        self._period_s = 1.0 / rate_hz
        self._after = after
        self._work: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        kept = int(60 * rate_hz)
        self._late_s: deque[float] = deque(maxlen=kept)
        self._busy_s: deque[float] = deque(maxlen=kept)
        self._restarts = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)
        self.failure: BaseException | None = None  # why the loop ended by itself
        self._begun_s = time.monotonic()  # the last period
        self.sent: Command | None = None  # in the last period; None: nothing was
        self._sent_s = -math.inf  # when the last command was sent
        self._stands: tuple[Array, float] | None = (
            None  # where an arm that was told nothing stands, and from when on
        )
        self.reset()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the loop after the present period."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2.0)

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def reset(self) -> None:
        """Hold where the arm is now. Only before the start, or through `submit` for a simulated arm."""
        end_s = self._clock() + CERTAIN_WITHIN_S
        state = self._arm.read()
        while (doubt := self._watch.begin(self._clock(), state)) is not None:
            if self._clock() > end_s:
                raise DriverError(f"the arm's position is not certain after {CERTAIN_WITHIN_S:g} s: {doubt}")
            time.sleep(self._period_s)
            state = self._arm.read()
        self._player.reset(self._watch.q_rad, state.gripper_m)
        self._guard.begin(self._watch.q_rad)
        self.sent, self._stands = None, None

    def order(self, number: OrderId, what: Order) -> Future[Refusal | None]:
        """Give an order at the next period; the future says why it was refused, or None."""
        received_s = time.monotonic()
        return self.submit(lambda: self._player.order(received_s, number, what))

    def alive(self, number: OrderId) -> None:
        """Forward a sign of life of the sender."""
        received_s = time.monotonic()
        self.submit(lambda: self._player.alive(received_s, number))

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """Run `call` in the loop's thread between two periods; when the loop has ended, in the calling thread."""
        future: Future[Any] = Future()
        self._work.put((call, future))
        if self.failure is not None:
            self._do_work()
        return future

    def trouble(self) -> str:
        """Why setpoints no longer reach the arm; empty while they do."""
        if self.failure is not None:
            return f"the control loop ended: {self.failure!r}"
        silent_s = time.monotonic() - self._begun_s
        if self._thread.is_alive() and silent_s > BLOCKED_S:
            return f"the arm driver has blocked the control loop for {silent_s:.1f} s"
        return ""

    def pace(self) -> Pace:
        # Copying a deque while another thread appends may fail; try again.
        for _ in range(5):
            try:
                late, busy = np.array(self._late_s), np.array(self._busy_s)
                break
            except RuntimeError:
                continue
        else:
            late = busy = np.zeros(0)
        if not len(late) or not len(busy):
            return Pace(0, 0.0, 0.0, 0.0, self._restarts)
        work = _share(busy, 0.99)
        return Pace(len(late), _share(late, 0.5), _share(late, 0.99), work, self._restarts)

    def _run(self) -> None:
        real_time()
        next_s = time.monotonic()
        try:
            while not self._stop.is_set():
                next_s += self._period_s
                next_s = self.begins_s(next_s, time.monotonic())
                self._wait(next_s)
                begin_s = self._begun_s = time.monotonic()
                self._late_s.append(begin_s - next_s)
                self.period(begin_s)
                self._busy_s.append(time.monotonic() - begin_s)
        except BaseException as error:
            self._player.fail(Refusal("control_loop", f"the control loop ended: {error!r}"))
            self.failure = error
            self._do_work()  # answer whoever waits
            raise

    def begins_s(self, due_s: float, now_s: float) -> float:
        """When a period that is due at `due_s` counts as begun; with `now_s` the lost ones before it are dropped."""
        if now_s - due_s <= self._late_periods * self._period_s + LATE_S:
            return due_s
        self._restarts += 1
        return now_s

    @staticmethod
    def _wait(until_s: float) -> None:
        ahead_s = until_s - time.monotonic()
        if ahead_s > SPIN_S:
            sys.setswitchinterval(TURN_ASLEEP_S)
            time.sleep(ahead_s - SPIN_S)
            sys.setswitchinterval(TURN_AWAKE_S)
        while time.monotonic() < until_s:
            pass

    def period(self, now_s: float) -> None:
        """One control period; called by the loop's own thread, or instead of it in a simulated time."""
        self._do_work()
        command = self.sent = self._command(now_s)
        if command is None:
            self._guard.pause()
            self._arm.idle(self._period_s)
        else:
            self._arm.track(command)
        expected = None if command is None or self._player.returns else command.q_rad
        state, fault = self._watch.look(now_s, self._arm.read(), expected)
        self._player.sense(now_s, state.q_rad, self._guard.refusal or fault)
        if command is not None and state.fault:
            self._ends_with(command, now_s, state)
        self._after(now_s, state)

    def _command(self, now_s: float) -> Command | None:
        """What the driver sends in this period, None for nothing. Everything that it sends comes from here."""
        if self._comes_to_rest(now_s):
            return None
        setpoint = self._player.update(now_s)
        checked = None if setpoint is None else self._guard.check(setpoint)
        if isinstance(checked, Refusal):
            self._player.fail(checked)
            return None
        self._sent_s = now_s
        return checked

    def _comes_to_rest(self, now_s: float) -> bool:
        """Whether an arm that was told nothing for a while, or since its driver reports a fault, still comes to rest.

        Its controller has gone on meanwhile, so the next setpoint would be a jump back for it. Once it stands, the
        setpoints go on from there. A simulated arm without a controller stands still while the loop does.
        """
        arm, last = self._followed, self.sent
        stalled = now_s - self._sent_s > (LATE_PERIODS + 1.5) * self._period_s
        if arm is not None and last is not None and stalled and _moves(last):
            place, after_s = rests(arm, last)
            self._stands = place, self._sent_s + after_s
        if self._stands is None:
            return False
        place, from_s = self._stands
        if now_s < from_s:
            return True
        self._stands = None
        self._guard.stand(place)
        self._player.stand(place)
        return False

    def _ends_with(self, command: Command, now_s: float, state: ArmState) -> None:
        """The driver reports a fault: `command` is the last one for an arm in motion, which gets nothing more.

        Its controller may have been stopped, and begins where the arm stands when it is started again. That may be
        sooner than a ramp ends, and the rest of the ramp would be a jump for it. Only an arm that may follow all the
        same, and would not come to rest smoothly by itself, gets the ramp.
        """
        place, after_s = rests(self._arm, command)
        ramps = state.may_follow and not np.array_equal(place, command.rest_rad)
        if not ramps and _moves(command):
            self._stands = place, now_s + after_s

    def _do_work(self) -> None:
        while True:
            try:
                call, future = self._work.get_nowait()
            except queue.Empty:
                return
            if not future.set_running_or_notify_cancel():
                continue  # withdrawn by the caller
            try:
                future.set_result(call())
            except Exception as error:
                future.set_exception(error)


def _moves(command: Command) -> bool:
    """Whether the arm is still in motion at the end of it."""
    left = max(np.abs(command.rest_rad - command.q_rad).max(), np.abs(command.velocity_rad_s).max())
    return bool(left > MOVING_RAD)


def real_time() -> bool:
    """Give the calling thread a real-time priority where the system allows it (rtprio in limits.conf, or root)."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except (OSError, AttributeError):
        return False
    return True
