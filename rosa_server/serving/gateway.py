"""The ZeroMQ shell around `ServingCore`: one poll loop that reads headers only and passes frames on untouched."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence

import zmq

from rosa_contract.clock import Clock
from rosa_contract.errors import CodecError
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.status import held_in, open_alert, reported_audits
from rosa_server.serving.base import log
from rosa_server.serving.base.malloc import Peaks
from rosa_server.serving.base.readiness import EVENTS, POLLIN, Readiness
from rosa_server.serving.base.worker_keys import WorkerKeys
from rosa_server.serving.core.dispatch.core import ServingCore
from rosa_server.serving.core.guard.limits import Limits
from rosa_server.serving.core.queueing.actions import Cancel, Dispatch, Kill, Note, Reply, Say
from rosa_server.serving.edge.access import KEY_PROPERTY, ZAP_ENDPOINT, KeyRing, admit
from rosa_server.serving.edge.cluster import Cluster
from rosa_server.serving.edge.doorman import LOOK_EVERY_S, Doorman
from rosa_server.serving.edge.intake import MAX_FRAMES, Intake, Message
from rosa_server.serving.edge.metrics import Metrics
from rosa_server.serving.edge.peer_desk import PeerDesk
from rosa_server.serving.edge.robots_socket import RobotsSocket
from rosa_server.serving.edge.workers.desk import CLUSTER_EVERY_S, WorkerDesk
from rosa_server.serving.edge.workers.links import BURST, WorkerLinks
from rosa_server.serving.edge.workers.remote_links import RemoteLinks
from rosa_server.serving.inline.desk import InlineDesk
from rosa_server.serving.watching.post import WatchPost

REPORT_EVERY_S = 1.0
KEYS_EVERY_S = 0.5  # how often the gateway looks for removed keys
# How often watchers are read and told: each ZeroMQ socket that is polled costs every request.
POST_EVERY_S = 0.02
GLANCE_EVERY_S = 0.005  # at the clocks of all that is done every so often
STRANGERS_S = 0.003  # in one step for what strangers say
MAX_WAITING = 4096  # messages of strangers
ANSWER_S = 50e-6  # counted per message beside what was measured: its answer is written later


class Gateway:
    """Two ROUTER sockets with the core between them. The only thing that waits is one poll."""

    def __init__(
        self,
        core: ServingCore,
        context: zmq.Context[zmq.Socket[bytes]],
        robots_endpoint: str,
        workers_endpoint: str,
        clock: Clock,
        cluster: Cluster,
        metrics: Metrics,
        max_message_mb: float,
        keys: KeyRing | None = None,
        limits: Limits | None = None,
        worker_keys: WorkerKeys | None = None,
        peers: PeerDesk | None = None,
        inline: InlineDesk | None = None,
        awake_s: float = 0.0,
    ) -> None:
        """`worker_keys`: of workers on other machines; none: all run on this one and reach `workers_endpoint` alone.
        `peers`: the other gateways of the schedule, where there are any; it is closed with this one, as is `inline`:
        the models that run in this thread. `awake_s`: see `Readiness`."""
        self._core, self._clock, self._metrics, self._keys = core, clock, metrics, keys
        self._max_bytes = int(max_message_mb * 1e6)
        self._next_glance_s = self._next_report_s = 0.0
        self._next_keys_s = self._next_post_s = 0.0
        self._due_s = 0.0  # when the core decides again if nothing is heard; 0: at once
        # The last one, and as it is sent.
        self._health: tuple[m.HealthReport, list[codec.Frame]] | None = None
        self._post: WatchPost | None = None
        self._peers = peers
        self._notes = log.LineBudget()
        self._strangers: deque[Message] = deque()  # what was read of those that are not welcomed
        self._peaks = Peaks()
        self._readiness = Readiness(awake_s, clock.now_s)
        self._doorman = Doorman(limits or Limits(), core.on_gone, metrics.cut_off)
        self._zap = context.socket(zmq.REP)
        self._zap.setsockopt(zmq.LINGER, 0)
        self._answers = RobotsSocket(context, self._max_bytes, keys)
        self._robots = self._answers.socket
        self._worker_keys = worker_keys
        links = (
            WorkerLinks(context, self._readiness, cluster)
            if worker_keys is None
            else RemoteLinks(context, self._readiness, cluster, worker_keys, self._max_bytes, metrics.cut_off)
        )
        elsewhere = worker_keys is not None
        self.workers = WorkerDesk(core, clock, cluster, links, metrics, inline, elsewhere, self._send)
        self._intake = Intake(self._robots, self._doorman)
        try:
            if keys is not None or worker_keys is not None or peers is not None:  # before anybody can connect
                self._zap.bind(ZAP_ENDPOINT)
            self._doorman.open(context, self._robots, keys is not None)
            self._answers.bind(robots_endpoint)
            self.workers.listen(workers_endpoint)
            if peers is not None:
                peers.open(self._readiness)
        except zmq.ZMQError:
            self.close()
            raise
        self._robots_fd = self._readiness.register(self._robots, asked_always=False)
        if keys is not None or worker_keys is not None or peers is not None:
            self._readiness.register(self._zap)
        if keys is not None:
            self._readiness.register(self._doorman.monitor)
        self.workers.begin()

    @property
    def robots_endpoint(self) -> str:
        """Where robots connect; the real port where a wildcard was bound."""
        return self._answers.endpoint

    def watched_through(self, post: WatchPost) -> None:
        """Tell `post` what happens here from now on, and close it with the gateway."""
        self._post = post
        self.workers.watched_through(post)

    def stir(self) -> None:
        """The core was told something outside of `step`, which decides before it waits the next time."""
        self._due_s = 0.0

    def step(self, longest_s: float = CLUSTER_EVERY_S) -> None:
        """Look around, wait for messages, read them, decide, send. What nobody waits for comes before the wait."""
        now_s = self._clock.now_s()
        if now_s >= self._next_glance_s:
            self._next_glance_s = now_s + GLANCE_EVERY_S
            self._look_around(now_s)
            self._due_s = 0.0
        if now_s >= self._due_s:
            self._due_s = self._decide(now_s)
        if self._strangers:
            longest_s = 0.0
        elif len(self._doorman.connections):
            longest_s = min(longest_s, LOOK_EVERY_S)
        wait_s = min(longest_s, max(0.0, self._due_s - self._clock.now_s()))
        for socket in self._readiness.wait(math.ceil(wait_s * 1000)):
            if socket is self._robots:
                self._read_robots()
            elif socket is self.workers.socket:
                self.workers.read()
            elif isinstance(socket, int):
                if not self.workers.read_shared(socket):
                    self._next_glance_s = 0.0
            elif socket is self.workers.monitor:
                self.workers.watch_links(self._clock.now_s())
            elif socket is self._zap:
                peer_keys = self._peers.keys if self._peers is not None else None
                answer = admit(self._zap.recv_multipart(), self._keys, self._worker_keys, peer_keys)
                self._zap.send_multipart(answer)
            elif socket is self._doorman.monitor:
                self._doorman.take_events(self._clock.now_s())
            elif self._peers is not None:
                self._peers.step(self._clock.now_s(), at_once=True)
        if self._strangers:
            self._hear_strangers()
        self._due_s = self._decide(self._clock.now_s())

    def _decide(self, now_s: float) -> float:
        """Send what follows from what was heard. Returns when something is due, in seconds, if nothing is heard."""
        self._send()  # answers first: a robot waits for each of them
        next_s = self._core.tick(now_s)
        self._send()
        if self.workers.look_back(now_s):
            return 0.0  # a model of this thread may run the next batch, when what has come meanwhile is read
        return next_s

    def _look_around(self, now_s: float) -> None:
        """What is done every so often: workers, connections, keys, whoever watches."""
        self.workers.look_around(now_s)
        self._doorman.step(now_s)
        if self._peers is not None:
            self._peers.step(now_s)
        if self._keys is not None and now_s >= self._next_keys_s:
            self._next_keys_s = now_s + KEYS_EVERY_S
            self._revoke(now_s, self._keys.revoked())
        if self._post is not None and now_s >= self._next_post_s:
            self._next_post_s = now_s + POST_EVERY_S
            for connection, message in self._post.step(now_s, self._core):
                self._say(connection, message)
        if now_s >= self._next_report_s:
            self._next_report_s = now_s + REPORT_EVERY_S
            self._peaks.look(now_s)
            self._count()

    def close(self) -> None:
        self._doorman.close()
        self._answers.close()
        self.workers.close()
        if self._post is not None:
            self._post.close()
        if self._peers is not None:
            self._peers.close()
        self._zap.close()

    # -- reading ---------------------------------------------------------------------------------------------------

    def _read_robots(self) -> None:
        for _ in range(BURST):
            now_s = self._clock.now_s()
            message = self._intake.read(now_s)
            if message is not None:
                if self._doorman.is_robot(message.frames[0].bytes):
                    self._handle(now_s, message)
                elif len(self._strangers) < MAX_WAITING:
                    self._strangers.append(message.put_off())
                else:
                    self._metrics.refused("overloaded")
                    self._intake.handled(now_s, message, 0.0, 0.0)
            if not int(self._robots.getsockopt(EVENTS)) & POLLIN:
                self._readiness.empty(self._robots_fd)
                return

    def _hear_strangers(self) -> None:
        """A crowd that speaks at once, hellos too, does not delay the robots: a few at a time."""
        end_s = self._clock.now_s() + STRANGERS_S
        while self._strangers and (now_s := self._clock.now_s()) < end_s:
            message = self._strangers.popleft().taken_up()
            if not self._doorman.ignores(now_s, message.frames[0]):
                self._handle(now_s, message)

    def _handle(self, now_s: float, message: Message) -> None:
        bad = self._from_robot(now_s, message.frames, message.frame_count, message.size)
        self._intake.handled(now_s, message, ANSWER_S, bad)

    def _from_robot(self, now_s: float, frames: Sequence[zmq.Frame], count: int, size: int) -> float:
        """Returns how bad the message was, see `Connections.heard`."""
        connection, content = frames[0].bytes, frames[1:]
        try:
            if size > self._max_bytes or count > MAX_FRAMES:
                limit = f"{MAX_FRAMES - 1} frames and {self._max_bytes} bytes (gateway.max_message_mb)"
                words = f"message: expected at most {limit}, got {count - 1} frames, {size} bytes"
                raise CodecError("too_large", words)
            header = codec.read_robot_header(content)
            if header["type"] == "request":
                self._core.on_request(now_s, connection, header, content)
                if self._post is not None and self._post.pictures:
                    self._show(now_s, connection, header, content, self._post)
                return 0.0
            if header["type"] == "status":
                self._report(now_s, connection, header, content)
                return 0.0
            message = codec.decode_robot(header, content)
            if isinstance(message, m.Decided):
                if self._core.on_report(now_s, connection) is not None and self._post is not None:
                    self._post.decided(connection, message)
                return 0.0
            assert not isinstance(message, m.Status)
            if (
                isinstance(message, m.TaskEnds)
                and self._post is not None
                and self._core.sessions.get(connection)
            ):
                self._post.hub.tasks[message.outcome] += 1
            refusal = None
            if self._keys is not None and isinstance(message, m.Hello):
                owner, key = str(frames[0].get("User-Id")), str(frames[0].get(KEY_PROPERTY))
                refusal = self._keys.refusal(owner, key, message.robot_id)
            if refusal is None:
                self._core.on_robot(now_s, connection, message, proven=self._keys is not None)
                if isinstance(message, m.Bye):
                    self._doorman.left(connection)
                return 0.0
        except CodecError as error:
            refusal = m.Refused(error.cause, str(error))
        self._core.refuse(connection, refusal)
        return max(1.0, count / MAX_FRAMES)

    def _show(
        self,
        now_s: float,
        connection: bytes,
        header: codec.Header,
        frames: Sequence[zmq.Frame],
        post: WatchPost,
    ) -> None:
        """Somebody looks at a robot: once a second the pictures of its request are handed on as they came."""
        session = self._core.sessions.get(connection)
        if session is None or not post.pictures.wants(now_s, session.robot_id):
            return
        try:
            request = codec.decode_robot(header, frames)
        except CodecError:
            return  # the core refuses it
        if isinstance(request, m.Request) and request.images:
            post.show(now_s, session.robot_id, request.images)

    def _report(
        self, now_s: float, connection: bytes, header: codec.Header, frames: Sequence[zmq.Frame]
    ) -> None:
        """How a robot says that it is. Its alert and what persons decided are read here; whoever watches reads all."""
        alert, audits = open_alert(header), reported_audits(header)
        session = self._core.on_report(now_s, connection)
        if session is not None and self._post is not None:
            said = (session.robot_id, frames[0].bytes, alert, held_in(header), audits)
            self._post.reported(now_s, self._core, *said)

    def _revoke(self, now_s: float, robots: set[str]) -> None:
        """End the connections and sessions of robots whose keys were removed."""
        for connection in self._doorman.revoke(now_s, robots):
            self._core.expel(now_s, connection, "its key was removed")

    # -- sending ---------------------------------------------------------------------------------------------------

    def _send(self) -> None:
        for action in self._core.actions():
            if isinstance(action, Reply):
                self._answer(action)
            elif isinstance(action, Dispatch):
                self.workers.dispatch(action)
            elif isinstance(action, Say):
                if isinstance(action.message, m.Refused):
                    refusal = action.message
                    self._metrics.refused(refusal.cause)
                    self._note_refusal(action.connection, refusal)
                    self._doorman.refused(
                        self._clock.now_s(), action.connection, refusal.cause, refusal.reason
                    )
                elif isinstance(action.message, m.Welcome):
                    known = self._core.robot_on(action.connection)
                    if known is not None:
                        self._doorman.welcomed(action.connection, *known)
                self._say(action.connection, action.message)
            elif isinstance(action, Cancel):
                self.workers.cancel(action)
            elif isinstance(action, Kill):
                self.workers.kill(action)
            elif isinstance(action, Note):
                self._metrics.noted(action.event)
                if self._notes.due(self._clock.now_s()):
                    log.warning(action.event, **action.fields)
            elif self._peers is not None:
                self._peers.tell(self._clock.now_s(), action)

    def _answer(self, answer: Reply) -> None:
        call = answer.call
        ran = answer.batch_size > 0
        queue_ms = ((call.dispatched_s if ran else answer.ended_s) - call.arrived_s) * 1000
        header = codec.response_header(
            m.Response(
                call.request_id,
                answer.status,
                answer.cause,
                answer.reason,
                queue_ms,
                answer.inference_ms,
                answer.batch_size,
                pace=call.pace,
            )
        )
        self._send_to(call.connection, [header] if answer.output is None else [header, answer.output])
        self._metrics.answered(answer)
        if self._post is not None:
            self._post.hub.answered(answer)

    def _note_refusal(self, connection: bytes, refusal: m.Refused) -> None:
        if self._post is not None:
            known = self._core.sessions.get(connection)
            robot = known.robot_id if known is not None else ""
            self._post.refused(self._clock.now_s(), refusal.cause, refusal.reason, robot)

    def _say(self, connection: bytes, message: m.ToRobot) -> None:
        """What is not an answer to a request; its time counts as that of the robot."""
        began_s = time.thread_time()
        if isinstance(message, m.HealthReport):  # the core makes one per second
            if self._health is None or self._health[0] is not message:
                self._health = message, codec.encode(message)
            frames = self._health[1]
        else:
            frames = codec.encode(message)
        self._send_to(connection, frames)
        self._doorman.spent(self._clock.now_s(), connection, time.thread_time() - began_s)

    def _send_to(self, connection: bytes, frames: Sequence[codec.Frame]) -> None:
        """Drops what a peer does not read, and the peer."""
        now_s = self._clock.now_s()
        if not self._doorman.answers(now_s, connection, sum(map(len, frames))):
            return
        self._readiness.used(self._robots_fd)
        if not self._answers.send(connection, frames):
            self._doorman.overflows(now_s, connection)

    def _count(self) -> None:
        """What metrics say of now."""
        self._metrics.state(self._core.health(), self._core.warm_workers())
        self._metrics.order(*self._core.order_state())
        if self._post is not None:
            self._metrics.robots(self._post.hub.margins(), self._post.hub.alerts)
        known = self._doorman.connections
        self._metrics.connections(
            len(known), known.strangers, known.held_bytes, known.unread_bytes, self._intake.since_last()
        )
