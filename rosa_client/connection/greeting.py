"""When a robot says hello, and when it counts its gateway as lost. Pure; the socket is in `link.py`."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from math import inf, nextafter

from rosa_contract.errors import CODEC_CAUSES
from rosa_contract.permits import PACE_HOLDS_S
from rosa_contract.way import ShortestWay
from rosa_contract.wire.messages import Decide, Hello, Message, Permit, Refused, Request, Response, Welcome

HELLO_EVERY_S = 1.0  # until welcomed; afterwards when nothing was sent that is answered, as a sign of life
HELLO_REQUIRED = "hello_required"  # the cause with which a gateway refuses requests without a session
MAX_ASKED = 16  # decisions that wait for the robot's next control period
SILENT_AFTER_S = 3.0  # after so long without a message the server counts as lost

log = logging.getLogger("rosa.link")


def robot_id_of(namespace: str) -> str:
    """The name at the server of the robot whose nodes are in `namespace`."""
    return namespace.strip("/").replace("/", "_") or "robot"


class Greeting:
    """The robot's view of its gateway. `ready` is true while the gateway has welcomed it."""

    def __init__(self, endpoint: str, hello: Hello) -> None:
        self.endpoint = endpoint
        self.hello = hello
        self.ready = False
        self.cause = "no_answer"  # why it is not ready, machine-readable; empty when it is
        self.reason = f"no answer from a gateway at {endpoint} yet"
        self.refusals = 0  # how often a hello was refused
        self.rates_hz: dict[str, float] = {}  # component -> calls per second that the server allows now
        self.catch_up = 0.0  # periods that a late robot may make up for
        self.first_call_s: dict[str, float] = {}  # component -> when its first call may leave
        self._permits: Sequence[str] = ()  # components for which the server gives permits
        self.permit_s: dict[str, float] = {}  # component -> when its newest permit came
        self.cancels = False  # the gateway understands that a request is not waited for any more
        self.tasks = False  # it understands where a robot is in its task
        self.status_hz = 0.0  # how often it wants to know how the robot is; 0: never
        self.gateways: Sequence[str] = ()  # of its schedule, as it said
        self.asked: deque[Decide] = deque(maxlen=MAX_ASKED)  # what persons decided, not yet judged
        self._way = ShortestWay()
        self._planned_hz: dict[str, float] = {}  # what the schedule allows, whatever goes on
        self._pace = 1.0  # factor on the rate that is allowed
        self._pace_until_s = inf  # unless a response says it again
        self.cameras: dict[str, Sequence[str]] = {}  # component -> what its model takes; no entry: all
        # Set even when the hello could not be sent: an absent server is greeted once a second, not once a period.
        self._last_hello_s = -1e9
        self._last_sent_s = -1e9
        self._last_heard_s = -1e9

    @property
    def permits(self) -> Sequence[str]:
        """Components that are called with a permit; none while the server says that nobody need ask."""
        return () if self._pace > 1.0 else self._permits

    def hello_is_due(self, now_s: float) -> bool:
        """Whether to say hello now; it then counts as said. A gateway that fell silent counts as lost from here on."""
        if now_s > self._pace_until_s:
            self._paced(1.0, inf)
        if self.ready and now_s > self._last_heard_s + SILENT_AFTER_S:
            self.lost("silent", f"nothing heard from the gateway at {self.endpoint} for {SILENT_AFTER_S:g} s")
        if now_s < self._silent_since_s() + HELLO_EVERY_S:
            return False
        self._last_hello_s = now_s
        return True

    def next_due_s(self) -> float:
        """When `hello_is_due` has something to do, if nothing is sent or heard before."""
        if not self.ready:
            return self._last_hello_s + HELLO_EVERY_S
        due_s = min(self._silent_since_s() + HELLO_EVERY_S, nextafter(self._pace_until_s, inf))
        lost_s = self._last_heard_s + SILENT_AFTER_S
        return due_s if due_s <= lost_s else nextafter(lost_s, inf)

    def sent(self, now_s: float) -> None:
        """A message has left that the gateway answers."""
        self._last_sent_s = now_s

    def heard(self, now_s: float) -> None:
        """Something came from the gateway, readable or not."""
        self._last_heard_s = now_s

    def budget_ms(self, now_s: float, request_id: int, left_ms: float) -> float:
        """A request leaves, with so much of its deadline left, ms: what of that the gateway has, without the way."""
        return self._way.sent(now_s, request_id, left_ms)

    def answered(self, now_s: float, response: Response) -> None:
        """An answer is here; `now_s` is read after waiting for it."""
        self._way.answered(now_s, response.request_id, response.queue_ms + response.inference_ms)

    def fitting(self, request: Request) -> Request:
        """The request with the images that its model takes, and no others: the gateway accepts no more. It says where
        the robot is in its task only to a gateway that understands it."""
        if not self.tasks and request.progress is not None:
            request = replace(request, progress=None)
        wanted = self.cameras.get(request.component)
        if wanted is None or all(camera in wanted for camera in request.images):
            return request
        return replace(request, images={name: i for name, i in request.images.items() if name in wanted})

    def take(self, message: Message) -> Response | None:
        """Understand a message of the gateway; returns an answer to a request."""
        if isinstance(message, Response):
            if message.pace:
                self._paced(message.pace, self._last_heard_s + PACE_HOLDS_S)
            return message
        if isinstance(message, Welcome):
            if not self.ready:
                log.info("welcomed by %s", self.endpoint)
                self._pace, self._pace_until_s = 1.0, inf  # another gateway knows nothing of the pace before
            self.ready, self.cause, self.reason = True, "", ""
            self._planned_hz, self.cameras = dict(message.rates_hz), dict(message.cameras)
            self.catch_up, self._permits = message.catch_up, message.permits
            self.cancels, self.tasks, self.status_hz = message.cancels, message.tasks, message.status_hz
            self.gateways = message.gateways
            for component, start_ms in message.starts_ms.items():
                self.first_call_s[component] = self._last_heard_s + start_ms / 1000
            self._paced(self._pace, self._pace_until_s, renew=True)
            self.hello = replace(self.hello, token=message.token)
        elif isinstance(message, Permit):
            self.permit_s = {**self.permit_s, message.component: self._last_heard_s}
        elif isinstance(message, Decide):
            self.asked.append(message)
        elif isinstance(message, Refused):
            self._refused(message)
        else:
            log.warning("dropped an unexpected %s from the gateway", type(message).__name__)
        return None

    def lost(self, cause: str, reason: str) -> None:
        """The gateway does not serve this robot now."""
        if reason != self.reason:
            log.warning("not connected: %s", reason)
        self.ready, self.cause, self.reason = False, cause, reason

    def begin_anew(self, token: str) -> None:
        """With another gateway, which knows nothing of what was agreed with the one before; `token`: what it gave."""
        self.ready, self.hello = False, replace(self.hello, token=token)
        self.first_call_s, self.permit_s = {}, {}
        self._way.forget()
        self._last_hello_s = self._last_sent_s = -1e9  # greet at the next opportunity

    def _paced(self, pace: float, until_s: float, renew: bool = False) -> None:
        """What the server allows holds for a while: when its answers are lost, the schedule's rates do."""
        self._pace_until_s = until_s if pace != 1.0 else inf
        if pace != self._pace or renew:
            self._pace = pace
            self.rates_hz = {component: rate * pace for component, rate in self._planned_hz.items()}

    def _silent_since_s(self) -> float:
        # Only a welcome makes it ready, so requests that leave meanwhile must not put off the hello.
        if self.ready and self._last_sent_s > self._last_hello_s:
            return self._last_sent_s
        return self._last_hello_s

    def _refused(self, refusal: Refused) -> None:
        if refusal.cause == HELLO_REQUIRED and self.cause not in ("", "no_answer", "silent", HELLO_REQUIRED):
            return  # a request was refused too; the reason for refusing the hello is more useful
        words = f"{refusal.cause}: {refusal.reason}"
        if refusal.cause in CODEC_CAUSES and refusal.cause != "version_mismatch" and self.ready:
            # One message was damaged on its way; its deadline passes.
            log.warning("the gateway could not read a message: %s", words)
            return
        self.lost(refusal.cause, words)
        if refusal.gateways:
            self.gateways = refusal.gateways
        self.refusals += 1
        if refusal.cause == HELLO_REQUIRED:
            self._last_hello_s = -1e9  # greet at the next opportunity
