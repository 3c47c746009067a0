"""The gateway's side of its workers: what they are given and answer, and which of them are ready, away or over.

The core decides; here its decisions become messages of the links, and what happens to a link, a process or a model in
this thread becomes events of the core.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import zmq

from rosa_contract.clock import Clock
from rosa_contract.errors import CodecError
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_server.serving.base import log
from rosa_server.serving.core.dispatch.core import ServingCore
from rosa_server.serving.core.queueing.actions import Cancel, Dispatch, Kill
from rosa_server.serving.core.workers.absence import Absences
from rosa_server.serving.core.workers.overdue import overdue
from rosa_server.serving.core.workers.silence import passed_over
from rosa_server.serving.edge.cluster import Cluster
from rosa_server.serving.edge.metrics import Metrics
from rosa_server.serving.edge.workers.links import BURST, WorkerLinks
from rosa_server.serving.inline.desk import InlineDesk
from rosa_server.serving.inline.worker import InlineEnds
from rosa_server.serving.watching.post import WatchPost

CLUSTER_EVERY_S = 0.05  # how often to look for workers that have ended
GIVEN_UP = "it was away, or overdue with a batch, for too long"
MAX_ENDED = 4096  # ends of workers that nobody has asked for yet


class WorkerDesk:
    """All workers of one gateway. Models that run in its thread are workers like others, without a link."""

    def __init__(
        self,
        core: ServingCore,
        clock: Clock,
        cluster: Cluster,
        links: WorkerLinks,
        metrics: Metrics,
        inline: InlineDesk | None,
        elsewhere: bool,
        send: Callable[[], None],
    ) -> None:
        """`elsewhere`: workers are on other machines, so their calls go to others while nothing is heard of them.
        `send`: send what the core has decided, at once. `inline` is closed with the desk."""
        self._core, self._clock, self._cluster = core, clock, cluster
        self._links, self._metrics, self._inlined = links, metrics, inline
        self._elsewhere, self._send = elsewhere, send
        self._absences = Absences()
        self._ready: dict[str, m.WorkerReady] = {}  # what each worker has announced
        self._ended: deque[tuple[str, str]] = deque(maxlen=MAX_ENDED)
        self._drained: set[str] = set()  # workers that were told to end, and have not yet
        self._next_poll_s = 0.0
        self._seldom = log.Seldom()  # a worker says again and again that it is ready
        self._post: WatchPost | None = None

    def listen(self, endpoint: str) -> None:
        """Raises `zmq.ZMQError` where it cannot."""
        self._links.listen(endpoint)

    def begin(self) -> None:
        """The models of this thread are ready from the start."""
        for ready in self._inlined.ready if self._inlined is not None else ():
            self._core.on_ready(self._clock.now_s(), ready)
            _log_ready(ready)

    def close(self) -> None:
        self._links.close()
        if self._inlined is not None:
            self._inlined.close()

    @property
    def endpoint(self) -> str:
        """Where workers connect; the real port where a wildcard was bound."""
        return self._links.endpoint

    @property
    def socket(self) -> zmq.Socket[bytes]:
        """Readable when `read` has something to do."""
        return self._links.socket

    @property
    def monitor(self) -> zmq.Socket[bytes] | None:
        """Readable when `watch_links` has something to do."""
        return self._links.monitor

    def watched_through(self, post: WatchPost) -> None:
        """Tell `post` what runs from now on."""
        self._post = post

    # -- what people order -----------------------------------------------------------------------------------------

    def drain_all(self) -> None:
        """Tell every warm worker to finish and exit."""
        for worker in list(self._core.pool):
            self.drain(worker.worker_id)

    def drain(self, worker_id: str) -> None:
        """Tell a worker to finish and exit; with a model that runs here, the one that stands ready beside it."""
        if self._inlined is not None and self._inlined.has(worker_id):
            spare = self._inlined.end(worker_id)
            self._core.on_lost(self._clock.now_s(), worker_id, InlineEnds.CAUSES["drained"])
            if spare is None:
                return
            worker_id = spare.worker_id
        self._drained.add(worker_id)
        self._links.send_over_socket(worker_id, codec.encode(m.Drain()))

    def ended(self) -> dict[str, str]:
        """The workers that have ended since this was asked last, and why."""
        ended = dict(self._ended)
        self._ended.clear()
        return ended

    # -- what the core decided -------------------------------------------------------------------------------------

    def dispatch(self, batch: Dispatch) -> None:
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
        self._links.send(batch.worker_id, codec.encode(execute), batch.buffer, batch.buffers)

    def cancel(self, order: Cancel) -> None:
        self._links.send(order.worker_id, codec.encode(m.CancelTickets(order.tickets)))

    def kill(self, order: Kill) -> None:
        log.error("worker_killed", worker=order.worker_id, reason=order.reason)
        self._cluster.kill(order.worker_id, order.reason)
        if self._inlined is not None:
            self._inlined.stop(order.worker_id, InlineEnds("killed", order.reason))

    # -- what workers say ------------------------------------------------------------------------------------------

    def read(self) -> None:
        """What has come over the socket, which the poller has found readable."""
        for worker_id, frames in self._links.received(self._clock.now_s()):
            self._take(self._clock.now_s(), worker_id, frames)

    def read_shared(self, fd: int) -> bool:
        """What has come over the memory that a worker shares. False: the worker has ended, which `look_around` is to
        notice at once."""
        worker_id = self._links.owner(fd)
        for _ in range(BURST):
            try:
                frames = self._links.shared(worker_id)
            except EOFError:
                self._links.close_shared(worker_id)
                self._next_poll_s = 0.0
                return False
            except CodecError as error:
                self._core.on_protocol_error(self._clock.now_s(), worker_id, str(error))
                return True
            if frames is None:
                return True
            self._take(self._clock.now_s(), worker_id, frames)
            worker = self._core.pool.get(worker_id)
            if worker is not None and not worker.batches:
                return True  # nothing left to answer; asking it in vain takes as long as reading its answer
        return True

    def _take(self, now_s: float, worker_id: str, frames: Sequence[codec.Frame]) -> None:
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
            again, self._ready[worker_id] = worker_id in self._ready, message
            if self._inlined is None or not self._inlined.keeps(message):
                self._announced(now_s, message)
            self._links.open_shared(worker_id)
            if not again or self._seldom.due(worker_id, now_s):
                _log_ready(message)
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

    def look_back(self, now_s: float) -> bool:
        """Once the answers have left: end the models of this thread that run no more. Whether one of them has run, and
        may run the next batch at once."""
        if self._inlined is None or not self._inlined.waits:
            return False
        for over in self._inlined.look_back():
            self._metrics.noted("inline_ended")
            if over.spare is not None:
                self._announced(now_s, over.spare)  # first, so that no stream is without a worker
            self._core.on_lost(now_s, over.worker_id, str(over.why))
        return True

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

    # -- what happens to them --------------------------------------------------------------------------------------

    def look_around(self, now_s: float) -> None:
        """Every so often: which links and workers have ended, are silent or slow."""
        if now_s >= self._next_poll_s:
            self._next_poll_s = now_s + CLUSTER_EVERY_S
            self._look_at_processes(now_s)
        self.watch_links(now_s)

    def watch_links(self, now_s: float) -> None:
        """Calls of workers that cannot be reached run elsewhere at once; a worker that stays away is ended."""
        for worker_id in self._links.step(now_s):
            self._metrics.noted("worker_link_ended")
            log.warning("worker_link_ended", worker=worker_id)
            self._absences.link_ended(worker_id, now_s)
            self._core.on_lost(now_s, worker_id, "its link ended")
        if self._elsewhere:
            self._pass_over_silent(now_s)

    def _pass_over_silent(self, now_s: float) -> None:
        """Calls of workers on other machines of which nothing is heard run elsewhere until something is."""
        silent = self._links.silent(now_s)
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

    def _look_at_processes(self, now_s: float) -> None:
        if self._elsewhere:
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
            self._links.close_shared(worker_id)
            self._core.on_lost(now_s, worker_id, why)


def _log_ready(ready: m.WorkerReady) -> None:
    log.event("worker_ready", worker=ready.worker_id, model=ready.model, max_batch=ready.max_batch)
