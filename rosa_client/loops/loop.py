"""The loop around the robot's core: one thread that polls the server, reads the sensors, asks the core and carries out.

The same loop runs in the ROS node and in a virtual robot; what differs is the `Body`.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Protocol

from rosa_client.connection.link import GatewayLink
from rosa_client.loops.reporting import Reporter, audit_of, cut
from rosa_client.motion.refusal import Refusal
from rosa_client.runtime.commands import (
    CANCELLED,
    Ask,
    CallEnded,
    Command,
    Hold,
    Inputs,
    MoveTo,
    Order,
    Play,
    Send,
    TaskEnded,
)
from rosa_client.runtime.runtime import RobotRuntime
from rosa_client.sensing.picture_quality import PictureQuality
from rosa_contract.clock import MonotonicClock
from rosa_contract.config.prompts import NOTHING, Instruction
from rosa_contract.config.tasks import GOAL_COUPLED, SYSTEM1
from rosa_contract.errors import CodecError
from rosa_contract.wire.images import EncodedImage
from rosa_contract.wire.messages import Array, Decide, Decided, Request
from rosa_contract.wire.status import ARM_CHOICES, EMERGENCY_STOP, Audit

log = logging.getLogger("rosa.loop")

Seen = tuple[Mapping[str, Array], Mapping[str, EncodedImage]]  # state arrays and camera frames


class Body(Protocol):
    """The robot as the loop sees it: its sensors, its arm, and where it reports. Called from the loop's thread only."""

    def sense(self) -> Inputs:
        """What sensors and arm report now; the loop itself fills in the link."""
        ...

    def observe(self) -> Seen:
        """The newest state arrays and camera frames."""
        ...

    def act(self, command: Order) -> None:
        """Carry out an arm command."""
        ...

    def publish(self, message: Command) -> None:
        """Publish a decision, an alert, a call that was sent, the end of a call or of the task."""
        ...

    def audit(self, audit: Audit) -> None:
        """Keep for the record what a person has decided, whichever way it came."""
        ...

    def ask_arm(
        self, choice: str, decided_by: str, why: str, answered: Callable[[Refusal | None], None]
    ) -> None:
        """Stop the arm, or release its emergency stop (`status.ARM_CHOICES`). `answered` is called once, from any
        thread, with why it was refused, or None."""
        ...

    def report(self, core: RobotRuntime, now_s: float, link: GatewayLink) -> None:
        """Called every period, after the commands of that period: publish what is due, and give the arm a sign of
        life while the core lets it move."""
        ...


class RobotLoop:
    """Runs `core` at `period_s` until stopped; an answer of the server wakes it at once."""

    def __init__(
        self,
        core: RobotRuntime,
        link: GatewayLink,
        body: Body,
        period_s: float = 0.01,
        recording: str = "",
        pictures: PictureQuality | None = None,
    ) -> None:
        """`recording`: where the robot is recorded, which its reports tell; empty: nowhere. `pictures`: how good they
        are on a slow link; none: they always leave as they came."""
        self.core = core
        self.link = link
        self.body = body
        self.period_s = period_s
        self.failure: Exception | None = None  # set when the core failed and the loop has ended
        self._clock = MonotonicClock()
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[float], Any]]] = queue.SimpleQueue()
        # By its number: the newest observation that was sent, and that of the newest call of System 1 or 2, which a
        # later one of its round may name again.
        self._seen: dict[int, Seen] = {}
        self._of_round = -1
        # The newest call of System 1, and the state that it was about.
        self._asked: tuple[int, Mapping[str, Array] | None] = -1, None
        self._pictures = PictureQuality({}) if pictures is None else pictures
        self._reporter = Reporter(recording)
        self._stopping = threading.Event()
        self._why = "", ""  # cause and reason of the stop
        self._thread = threading.Thread(target=self._run, name="rosa-loop", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, cause: str = "node_ends", reason: str = "the runtime stops") -> None:
        """Abort a running task with this cause and reason, say goodbye to the server, and wait for the thread."""
        self._why = cause, reason
        self._stopping.set()
        self._thread.join(timeout=5)

    def begin(self, timeout_s: float, told: Instruction = NOTHING) -> Future[None]:
        """Start the task. The future fails with `IllegalEvent` when one is running."""
        return self._ask(lambda now_s: self._carry(self.core.start(now_s, timeout_s, told), now_s))

    def cancel(self, reason: str) -> Future[None]:
        return self._ask(lambda now_s: self._carry(self.core.cancel(now_s, reason), now_s))

    def decide(self, alert_id: int, choice: str, decided_by: str, why: str) -> Future[Refusal | None]:
        """An operator's decision; the result says why it was refused, None when accepted."""
        return self._ask(lambda now_s: self._judge(now_s, alert_id, choice, decided_by, why))

    def record(self, audit: Audit) -> Future[None]:
        """Keep a decision that was taken elsewhere, such as by ending the task."""
        return self._ask(lambda now_s: self._keep(audit, now_s))

    def _judge(self, now_s: float, alert_id: int, choice: str, decided_by: str, why: str) -> Refusal | None:
        """The one way of a decision, whether it came over ROS or from the server. Accepted or not, it is recorded."""
        refusal, commands = self.core.decide(now_s, alert_id, choice, decided_by)
        self._carry(commands, now_s)
        words = "" if refusal is None else refusal.reason
        self._keep(audit_of(alert_id, choice, decided_by, why, refusal is None, words), now_s)
        return refusal

    def _keep(self, audit: Audit, now_s: float) -> None:
        self._reporter.audited(audit, now_s)
        self.body.audit(audit)

    def _asked_by_server(self, asked: Decide) -> None:
        """A person decided at the server, which hears from the robot what came of it.

        Somebody on the way to a server without keys could say the same: without them only a stop is taken from it.
        """
        if asked.choice != EMERGENCY_STOP and not self.link.proves_server:
            now_s = self._clock.now_s()
            reason = "the link has no keys, so nobody knows who decided; decide at the robot, or use keys"
            words = (asked.alert_id, asked.choice, asked.decided_by, asked.why)
            self._keep(audit_of(*words, accepted=False, reason=reason), now_s)
            self.link.decided(_answer(asked, Refusal("unproven_server", reason)), now_s)
            return
        if asked.choice in ARM_CHOICES:
            args = (asked.choice, asked.decided_by, asked.why)
            self.body.ask_arm(*args, lambda refusal: self._arm_answered(asked, refusal))
            return
        now_s = self._clock.now_s()
        judged = self._judge(now_s, asked.alert_id, asked.choice, asked.decided_by, asked.why)
        self.link.decided(_answer(asked, judged), now_s)

    def _arm_answered(self, asked: Decide, refusal: Refusal | None) -> None:
        """From any thread: the loop's own tells the server."""
        words = "" if refusal is None else refusal.reason
        audit = audit_of(0, asked.choice, asked.decided_by, asked.why, refusal is None, words)

        def tell(now_s: float) -> None:
            self._reporter.audited(audit, now_s)  # the arm keeps its own record over ROS
            self.link.decided(_answer(asked, refusal), now_s)

        self._ask(tell)

    def _ask(self, call: Callable[[float], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self._calls.put((future, call))
        return future

    def _run(self) -> None:
        try:
            next_s = self._clock.now_s()
            while not self._stopping.is_set():
                next_s = max(next_s + self.period_s, self._clock.now_s())
                self._period(next_s)
            now_s = self._clock.now_s()
            self._carry(self.core.abort(now_s, *self._why), now_s)
        except Exception as error:  # a robot without its core must stop, and say so
            log.exception("the robot's core failed; the arm is told to hold")
            self.failure = error
            self.body.act(Hold(self.core.next_sequence()))
        finally:
            self.link.close()

    def _period(self, until_s: float) -> None:
        """One control period, cut short by whatever arrives from the server."""
        now_s = self._clock.now_s()
        answers = self.link.poll(until_s - now_s, now_s)
        now_s = self._clock.now_s()
        for response in answers:
            self.link.answered(now_s, response)
            if (decision := self._pictures.answered(now_s, response)) is not None:
                self._carry([decision], now_s)
            asked, seen = self._asked
            self._carry(
                self.core.answer(now_s, response, seen if response.request_id == asked else None), now_s
            )
        while not self._calls.empty():
            self._serve(*self._calls.get())
        while self.link.asked:
            self._asked_by_server(self.link.asked.popleft())
        now_s = self._clock.now_s()
        inputs = replace(
            self.body.sense(),
            link_ready=self.link.ready,
            link_reason=with_server(self.link),
            rates_hz=self.link.rates_hz,
            catch_up=self.link.catch_up,
            first_call_s=self.link.first_call_s,
            permits=self.link.permits,
            permit_s=self.link.permit_s,
        )
        self._carry(self.core.tick(now_s, inputs), now_s)
        self.body.report(self.core, now_s, self.link)
        report = self._reporter.due(self.core, self.link.status_hz if self.link.ready else 0.0, now_s)
        if report is not None:
            self.link.report(report, now_s)

    def _serve(self, future: Future[Any], call: Callable[[float], Any]) -> None:
        if not future.set_running_or_notify_cancel():
            return  # the caller has given up
        try:
            future.set_result(call(self._clock.now_s()))
        except Exception as error:  # the caller's, not the loop's
            future.set_exception(error)

    def _carry(self, commands: list[Command], now_s: float) -> None:
        for command in commands:
            self._reporter.hear(command, now_s)
            if isinstance(command, Send):
                seen = self._observed(command)
                if command.component == SYSTEM1:
                    self._asked = command.request_id, seen[0]
                self._send(command, seen, now_s)
                self.body.publish(command)
            elif isinstance(command, Ask):
                self.link.ask(command.component, now_s)
            elif isinstance(command, Play | Hold | MoveTo):
                self.body.act(command)
            else:
                if isinstance(command, CallEnded) and command.ending == CANCELLED:
                    self.link.cancel(command.request_id, now_s)
                elif isinstance(command, TaskEnded):
                    self.link.task_ends(command.task, command.outcome, now_s)
                self.body.publish(command)

    def _observed(self, send: Send) -> Seen:
        """What a call is about: what an earlier one with its number has shown, or what there is to see now."""
        number, seen = send.observation, self._seen.get(send.observation)
        if seen is None:
            state, images = self.body.observe()
            seen = state, self._pictures.fit(images)
        if send.component in GOAL_COUPLED:
            self._of_round = number
        kept = {of: one for of, one in self._seen.items() if of == self._of_round}
        self._seen = {**kept, number: seen}
        return seen

    def _send(self, send: Send, seen: Seen, now_s: float) -> None:
        """What cannot leave is dropped: its deadline passes and its fallback runs, as for any other loss."""
        state, images = seen
        leaves_s = self._clock.now_s()
        budget_ms = max(0.0, send.budget_ms - (leaves_s - now_s) * 1000)
        self._pictures.sent(leaves_s, send.request_id, budget_ms)
        request = Request(
            send.request_id,
            send.component,
            budget_ms,
            send.prompt,
            state,
            images,
            send.horizon,
            send.observation,
            send.overlap,
            send.progress,
        )
        try:
            if not self.link.send(request, leaves_s):
                log.debug("request %d did not leave: %s", send.request_id, self.link.reason)
        except CodecError as error:
            log.error("request %d cannot be sent: %s", send.request_id, error)


def _answer(asked: Decide, refusal: Refusal | None) -> Decided:
    if refusal is None:
        return Decided(asked.number, True)
    return Decided(asked.number, False, refusal.cause, cut(refusal.reason))


def with_server(link: GatewayLink) -> str:
    """Why the link is not ready, with the server's address, for whoever reads it far from the log."""
    if link.ready or link.endpoint in link.reason:
        return link.reason
    return f"{link.endpoint}: {link.reason}"
