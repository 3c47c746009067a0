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
from rosa_server.serving.core.guard.bucket import Bucket
from rosa_server.serving.core.guard.limits import Limits
from rosa_server.serving.core.queueing.actions import Cancel, Dispatch, Kill, Note, Reply, Say
from rosa_server.serving.core.workers.absence import Absences
from rosa_server.serving.core.workers.overdue import overdue
from rosa_server.serving.core.workers.silence import passed_over
from rosa_server.serving.edge.access import ZAP_ENDPOINT, KeyRing, admit
from rosa_server.serving.edge.cluster import Cluster
from rosa_server.serving.edge.doorman import LOOK_EVERY_S, Doorman
from rosa_server.serving.edge.intake import MAX_FRAMES, Intake, Message
from rosa_server.serving.edge.metrics import Metrics
from rosa_server.serving.edge.peer_desk import PeerDesk
from rosa_server.serving.edge.remote_links import RemoteLinks
from rosa_server.serving.edge.robots_socket import RobotsSocket
from rosa_server.serving.edge.worker_links import BURST, WorkerLinks
from rosa_server.serving.inline.desk import InlineDesk
from rosa_server.serving.inline.worker import InlineEnds
from rosa_server.serving.watching.post import WatchPost

CLUSTER_EVERY_S = 0.05  # how often the gateway looks for workers that have ended
GIVEN_UP = "it was away, or overdue with a batch, for too long"
REPORT_EVERY_S = 1.0
KEYS_EVERY_S = 0.5  # how often the gateway looks for removed keys
POST_EVERY_S = (
    0.02  # how often watchers are read and told: each ZeroMQ socket that is polled costs every request
)
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
        self._core, self._clock, self._cluster, self._metrics, self._keys = (
            core,
            clock,
            cluster,
            metrics,
            keys,
        )
        self._max_bytes = int(max_message_mb * 1e6)
        self._next_glance_s = self._next_poll_s = self._next_report_s = 0.0
        self._next_keys_s = self._next_post_s = 0.0
        self._due_s = 0.0  # when the core decides again if nothing is heard; 0: at once
        self._health: tuple[m.HealthReport, list[codec.Frame]] | None = (
            None  # the last one, and as it is sent
        )
        self._post: WatchPost | None = None
        self._peers = peers
        self._inlined = inline
        self._notes = Bucket(log.LINES_PER_S, log.LINES_AT_ONCE)
        self._strangers: deque[Message] = deque()  # what was read of those that are not welcomed
        self._peaks = Peaks()
        self._readiness = Readiness(awake_s, clock.now_s)
        self._doorman = Doorman(limits or Limits(), core.on_gone, metrics.cut_off)
        self._zap = context.socket(zmq.REP)
        self._zap.setsockopt(zmq.LINGER, 0)
        self._answers = RobotsSocket(context, self._max_bytes, keys)
        self._robots = self._answers.socket
        self._worker_keys, self._absences = worker_keys, Absences()
        self._ready: dict[str, m.WorkerReady] = {}  # what each worker has announced
        self._ended: deque[tuple[str, str]] = deque(maxlen=MAX_WAITING)
        self._drained: set[str] = set()  # workers that were told to end, and have not yet
        self._workers = (
            WorkerLinks(context, self._readiness, cluster)
            if worker_keys is None
            else RemoteLinks(context, self._readiness, cluster, worker_keys, self._max_bytes, metrics.cut_off)
        )
        self._intake = Intake(self._robots, self._doorman)
        try:
            if keys is not None or worker_keys is not None or peers is not None:  # before anybody can connect
                self._zap.bind(ZAP_ENDPOINT)
            self._doorman.open(context, self._robots, keys is not None)
            self._answers.bind(robots_endpoint)
            self._workers.listen(workers_endpoint)
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
        for ready in inline.ready if inline is not None else ():
            core.on_ready(clock.now_s(), ready)
            log.event("worker_ready", worker=ready.worker_id, model=ready.model, max_batch=ready.max_batch)

    @property
    def robots_endpoint(self) -> str:
        """Where robots connect; the real port where a wildcard was bound."""
        return self._answers.endpoint

    @property
    def workers_endpoint(self) -> str:
        """Where workers connect; the real port where a wildcard was bound."""
        return self._workers.endpoint

    def watched_through(self, post: WatchPost) -> None:
        """Tell `post` what happens here from now on, and close it with the gateway."""
        self._post = post

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
            elif socket is self._workers.socket:
                self._read_workers()
            elif isinstance(socket, int):
                self._read_shared(self._workers.owner(socket))
            elif socket is self._workers.monitor:
                self._watch_links(self._clock.now_s())
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
        if self._inlined is not None and self._inlined.waits:
            for over in self._inlined.look_back():
                self._metrics.noted("inline_ended")
                if over.spare is not None:
                    self._announced(now_s, over.spare)  # first, so that no stream is without a worker
                self._core.on_lost(now_s, over.worker_id, str(over.why))
            return 0.0  # it may run the next batch, when what has come meanwhile is read
        return next_s

    def _look_around(self, now_s: float) -> None:
        """What is done every so often: workers, connections, keys, whoever watches."""
        if now_s >= self._next_poll_s:
            self._next_poll_s = now_s + CLUSTER_EVERY_S
            self._watch(now_s)
        self._doorman.step(now_s)
        self._watch_links(now_s)
        if self._peers is not None:
            self._peers.step(now_s)
        if self._keys is not None and now_s >= self._next_keys_s:
            self._next_keys_s = now_s + KEYS_EVERY_S
            self._revoke(now_s, self._keys.revoked())
        if self._post is not None and now_s >= self._next_post_s:
            self._next_post_s = now_s + POST_EVERY_S
            for connection, message in self._post.step(now_s, self._core):
                self._say(connection, message)

    def close(self) -> None:
        self._doorman.close()
        self._answers.close()
        self._workers.close()
        if self._post is not None:
            self._post.close()
        if self._peers is not None:
            self._peers.close()
        if self._inlined is not None:
            self._inlined.close()
        self._zap.close()

    def send_drain(self) -> None:
        """Tell every warm worker to finish and exit."""
        for worker in list(self._core.pool):
            self.drain_worker(worker.worker_id)

    def drain_worker(self, worker_id: str) -> None:
        """Tell a worker to finish and exit; with a model that runs here, the one that stands ready beside it."""
        if self._inlined is not None and self._inlined.has(worker_id):
            spare = self._inlined.end(worker_id)
            self._core.on_lost(self._clock.now_s(), worker_id, InlineEnds.CAUSES["drained"])
            if spare is None:
                return
            worker_id = spare.worker_id
        self._drained.add(worker_id)
        self._workers.send_over_socket(worker_id, codec.encode(m.Drain()))

    def ended_workers(self) -> dict[str, str]:
        """The workers that have ended since this was asked last, and why."""
        ended = dict(self._ended)
        self._ended.clear()
        return ended

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

    def _read_workers(self) -> None:
        for worker_id, frames in self._workers.received(self._clock.now_s()):
            self._take_from_worker(self._clock.now_s(), worker_id, frames)

    def _read_shared(self, worker_id: str) -> None:
        for _ in range(BURST):
            try:
                frames = self._workers.shared(worker_id)
            except EOFError:
                self._workers.close_shared(worker_id)
                self._next_glance_s = self._next_poll_s = (
                    0.0  # the worker has ended: notice it in the next step
                )
                return
            except CodecError as error:
                self._core.on_protocol_error(self._clock.now_s(), worker_id, str(error))
                return
            if frames is None:
                return
            self._take_from_worker(self._clock.now_s(), worker_id, frames)
            worker = self._core.pool.get(worker_id)
            if worker is not None and not worker.batches:
                return  # it has nothing left to answer; asking it in vain takes as long as reading its answer

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
            refusal = self._wrong_key(message, frames[0])
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

    def _wrong_key(self, message: m.FromRobot, frame: zmq.Frame) -> m.Refused | None:
        """With keys, a robot must have the name of its key: otherwise it could speak for another robot."""
        if self._keys is None or not isinstance(message, m.Hello):
            return None
        owner = frame.get("User-Id")
        if message.robot_id == owner and self._keys.knows(owner):
            return None
        words = f"robot_id: this connection's key belongs to {owner!r}, it said hello as {message.robot_id!r}"
        if message.robot_id == owner:
            words = f"robot_id: the key of {owner!r} was removed from the key folder"
        return m.Refused("wrong_key", words)

    def _take_from_worker(self, now_s: float, worker_id: str, frames: Sequence[codec.Frame]) -> None:
        try:
            message = codec.decode(frames)
        except CodecError as error:
            self._core.on_protocol_error(now_s, worker_id, str(error))
            return
        if isinstance(message, m.Executed):
            if self._absences.away(worker_id) or self._absences.stale(worker_id, message.batch_id):
                self._metrics.noted("late_batch")
                if self._absences.answered_late(worker_id) and self._may_serve(now_s, worker_id):
                    self._announced(now_s, self._ready[worker_id])
                return
            self._executed(now_s, worker_id, message)
        elif isinstance(message, m.WorkerReady) and message.worker_id == worker_id:
            if not self._may_serve(now_s, worker_id):
                return
            self._ready[worker_id] = message
            if self._inlined is None or not self._inlined.keeps(message):
                self._announced(now_s, message)
            self._workers.open_shared(worker_id)
            log.event("worker_ready", worker=worker_id, model=message.model, max_batch=message.max_batch)
        else:
            self._core.on_protocol_error(now_s, worker_id, f"a worker does not send {type(message).__name__}")

    def _executed(self, now_s: float, worker_id: str, done: m.Executed) -> None:
        """A batch came back."""
        self._core.on_executed(now_s, worker_id, done)
        self._send()  # robots wait for these answers; what is counted can wait
        worker = self._core.pool.get(worker_id)
        if worker is not None and not worker.shadows:
            self._metrics.batch_done(worker.model, len(done.tickets), done.inference_ms)
            if self._post is not None:
                self._post.hub.ran(worker, len(done.tickets), done.inference_ms)
            self._metrics.engine(worker_id, done.counts)

    def _may_serve(self, now_s: float, worker_id: str) -> bool:
        """Whether somebody still waits for this worker, which is ready; else it is ended."""
        try:
            self._cluster.ready(worker_id, now_s)
        except ValueError as error:
            log.event("worker_not_wanted", worker=worker_id, reason=str(error))
            self._cluster.kill(worker_id, str(error))
            return False
        return True

    def _announced(self, now_s: float, ready: m.WorkerReady) -> None:
        """A worker is here, or here again: what it was given before counts no more."""
        self._core.on_ready(now_s, ready)
        if away_s := self._absences.announced(ready.worker_id, now_s, self._core.pool.next_batch):
            log.event("worker_back", worker=ready.worker_id, away_s=round(away_s, 3))

    # -- sending ---------------------------------------------------------------------------------------------------

    def _send(self) -> None:
        for action in self._core.actions():
            if isinstance(action, Reply):
                self._answer(action)
            elif isinstance(action, Dispatch):
                self._dispatch(action)
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
                self._workers.send(action.worker_id, codec.encode(m.CancelTickets(action.tickets)))
            elif isinstance(action, Kill):
                log.error("worker_killed", worker=action.worker_id, reason=action.reason)
                self._cluster.kill(action.worker_id, action.reason)
                if self._inlined is not None:
                    self._inlined.stop(action.worker_id, InlineEnds("killed", action.reason))
            elif isinstance(action, Note):
                self._metrics.noted(action.event)
                if self._notes.take(1.0, self._clock.now_s()):
                    log.warning(action.event, **action.fields)
            elif self._peers is not None:
                self._peers.tell(self._clock.now_s(), action)

    def _dispatch(self, batch: Dispatch) -> None:
        calls = batch.calls
        senders = [
            m.Sender(
                c.robot_id,
                (c.deadline_s - c.dispatched_s) * 1000,
                max(0.0, c.dispatched_s - c.arrived_s) * 1000,
                c.observation,
            )
            for c in calls
        ]
        tickets = [c.ticket for c in calls]
        execute = m.Execute(batch.batch_id, tickets, [c.frames for c in calls], senders)
        if self._inlined is not None and self._inlined.has(batch.worker_id):
            done = self._inlined.run(batch.worker_id, execute)
            if done is not None:
                self._executed(self._clock.now_s(), batch.worker_id, done)
            return
        self._workers.send(batch.worker_id, codec.encode(execute), batch.buffer, batch.buffers)

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

    def _watch_links(self, now_s: float) -> None:
        """Calls of workers that cannot be reached run elsewhere at once; a worker that stays away is ended."""
        for worker_id in self._workers.step(now_s):
            self._metrics.noted("worker_link_ended")
            log.warning("worker_link_ended", worker=worker_id)
            self._absences.link_ended(worker_id, now_s)
            self._core.on_lost(now_s, worker_id, "its link ended")
        if self._worker_keys is not None:
            self._pass_over_silent(now_s)

    def _pass_over_silent(self, now_s: float) -> None:
        """Calls of workers on other machines of which nothing is heard run elsewhere until something is."""
        silent = self._workers.silent(now_s)
        for worker_id in [one for one in self._absences.quiet(silent, now_s) if self._may_serve(now_s, one)]:
            self._announced(now_s, self._ready[worker_id])
        for worker in passed_over(self._core.pool, silent, self._core.router.failover.covered):
            self._metrics.noted("worker_silent")
            log.warning("worker_silent", worker=worker.worker_id)
            self._absences.passed_over(worker.worker_id, now_s)
            self._core.on_lost(now_s, worker.worker_id, "nothing is heard of it")

    def _pass_over_slow(self, now_s: float) -> None:
        """Calls of workers on other machines that are alive and far too slow run elsewhere."""

        def covered(replica: str) -> bool:
            return self._core.router.failover.covered(replica, (replica,))

        for worker in overdue(self._core.pool, covered, now_s):
            self._metrics.noted("worker_slow")
            log.warning("worker_slow", worker=worker.worker_id, batches=len(worker.batches))
            self._absences.slow(worker.worker_id, now_s, len(worker.batches))
            self._core.on_lost(now_s, worker.worker_id, "its batch is overdue")

    def _watch(self, now_s: float) -> None:
        if self._worker_keys is not None:
            self._pass_over_slow(now_s)
        for worker_id in self._absences.given_up(now_s):
            log.error("worker_killed", worker=worker_id, reason=GIVEN_UP)
            self._cluster.kill(worker_id, GIVEN_UP)
        for worker_id, why in self._cluster.poll(now_s):
            self._absences.forget(worker_id)
            self._ready.pop(worker_id, None)
            if self._inlined is not None:
                self._inlined.lost(worker_id)
            self._ended.append((worker_id, why))
            self._metrics.worker_ended(worker_id, worker_id in self._drained)
            self._drained.discard(worker_id)
            log.warning("worker_lost", worker=worker_id, reason=why)
            self._workers.close_shared(worker_id)
            self._core.on_lost(now_s, worker_id, why)
        if now_s >= self._next_report_s:
            self._next_report_s = now_s + REPORT_EVERY_S
            self._metrics.state(self._core.health(), self._core.warm_workers())
            self._metrics.order(*self._core.order_state())
            if self._post is not None:
                self._metrics.robots(self._post.hub.margins(), self._post.hub.alerts)
            self._peaks.look(now_s)
            known = self._doorman.connections
            self._metrics.connections(
                len(known), known.strangers, known.held_bytes, known.unread_bytes, self._intake.since_last()
            )
