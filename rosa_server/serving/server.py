"""The headless server: wires core, gateway, workers and metrics together, and takes them down in order."""

from __future__ import annotations

import gc
import shutil
import signal
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, ClassVar

import zmq

from rosa_contract.clock import MonotonicClock
from rosa_contract.config.factory import Factory
from rosa_contract.errors import CausedError
from rosa_contract.say import say
from rosa_server.frontends.spec import clients_of
from rosa_server.frontends.supervisor import Frontends, frontend_specs
from rosa_server.plan.admission import AdmissionControl, NoAdmission
from rosa_server.plan.change import Planner
from rosa_server.plan.placement import Placement
from rosa_server.serving.base import log
from rosa_server.serving.base.compiled import check_compiled, compiled
from rosa_server.serving.base.descriptors import more_descriptors
from rosa_server.serving.base.malloc import keep_freed_memory
from rosa_server.serving.base.worker_keys import WorkerKeys
from rosa_server.serving.core.dispatch.core import ServingCore
from rosa_server.serving.core.forwarding.node import NodeCore
from rosa_server.serving.core.guard.limits import limits_for
from rosa_server.serving.edge.access import KeyRing
from rosa_server.serving.edge.cluster import ClusterMaker
from rosa_server.serving.edge.lengths_file import LengthsFile
from rosa_server.serving.edge.metrics import Metrics, MetricsServer
from rosa_server.serving.edge.peer_desk import PeerDesk
from rosa_server.serving.edge.rundir import SOCKET, make_rundir
from rosa_server.serving.gateway import Gateway
from rosa_server.serving.inline.start import inline_desk
from rosa_server.serving.joining import SharedSchedule
from rosa_server.serving.operations.live_state import LiveState
from rosa_server.serving.operations.operations import Operations
from rosa_server.serving.operations.order import Site
from rosa_server.serving.operations.relay import OrderRelay
from rosa_server.serving.operations.restoring import restore
from rosa_server.serving.served import check_served
from rosa_server.serving.watching.hub import Hub
from rosa_server.serving.watching.place import AUTO, WatchError, watch_endpoint
from rosa_server.serving.watching.post import WatchPost

DRAIN_S = 5.0  # accepted requests get this long after SIGTERM
STOP_S = 5.0  # and then the workers this long
FRONTENDS_STOP_S = 3.0
LOOK_EVERY_S = 0.01  # at what no robot waits for: each look costs a request as much as its header
Plan = tuple[Placement, AdmissionControl]


class ServeError(CausedError):
    """The server cannot start; the text says what to change."""

    CAUSES: ClassVar = {
        "cannot_bind": "it cannot listen on its endpoint for robots",
        "cannot_bind_metrics": "it cannot listen on its port for metrics",
        "cannot_bind_watch": "it cannot listen where the factory file says that it may be watched",
        "frontend_misconfigured": "a frontend cannot run with this configuration, or its port is taken",
        "worker_misconfigured": "a worker cannot run with this configuration, however often it is started",
    }


class HeadlessServer:
    """One gateway with its workers, which a cluster starts."""

    def __init__(
        self,
        factory: Factory,
        source: str,
        make_cluster: ClusterMaker,
        bind: str = "",
        insecure: bool = False,
        plan: Plan | None = None,
        about: Mapping[str, Any] | None = None,
        planner: Planner | None = None,
        state: LiveState | None = None,
        joined: SharedSchedule | None = None,
    ) -> None:
        """`about`: what those who watch are told of the schedule. `planner`: plans the way to another one. `state`:
        what people did to an earlier server that was killed, and where it is kept from now on. `joined`: this is one of
        several gateways of the schedule."""
        check_served(factory, source, bind, insecure, plan is not None)
        settings = factory.gateway
        bind = bind or settings.bind
        self._clock = MonotonicClock()
        self._stop = False
        self._stack = ExitStack()
        with ExitStack() as undo:
            folder = make_rundir()
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
            context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
            undo.callback(context.term)
            if joined is not None:
                undo.callback(joined.slots.close)
            keys = KeyRing(settings.curve_keys) if settings.curve_keys else None
            metrics = Metrics()
            self.core, own, peers = _core_of(factory, plan, joined, context, metrics)
            self._lengths = LengthsFile(settings.task_lengths, self.core.lengths)
            self._cluster = make_cluster(factory, own)
            worker_keys = WorkerKeys() if self._cluster.workers_bind else None
            self._state = state or LiveState()
            inline = inline_desk(factory, own, {*self._state.weights, *self._state.drained})
            try:
                self.gateway = Gateway(
                    self.core,
                    context,
                    bind,
                    self._cluster.workers_bind or f"ipc://{folder / SOCKET}",
                    self._clock,
                    self._cluster,
                    metrics,
                    settings.max_message_mb,
                    keys,
                    limits_for(more_descriptors()),
                    worker_keys,
                    peers,
                    inline,
                    settings.busy_poll_us / 1e6,
                )
            except zmq.ZMQError as error:
                self._cluster.stop(0.0)
                others = f" and {joined.endpoints[joined.nodes.here]}" if joined is not None else ""
                raise ServeError(
                    "cannot_bind",
                    f"gateway.bind: cannot listen on {bind}{others}: {error}; is another server running?"
                    " --bind names another address",
                ) from None
            undo.callback(self.gateway.close)
            undo.callback(self._cluster.stop, STOP_S)
            robots = self.gateway.robots_endpoint
            told = {"source": source, "endpoint": robots, "keys": keys is not None, **(about or {})}
            self._post = _watch_post(settings.watch, Hub(factory, told), context, robots)
            self.gateway.watched_through(self._post)
            self._peers = peers
            self._relay = _relay_of(peers, self._post, self.core)
            tells = self._relay or self._post
            operated = (self.core, self._cluster, self.gateway.workers.drain, metrics.operated, tells)
            site = Site(*operated, planner, self._state)
            restore(site, self._clock.now_s())
            node = self.core if isinstance(self.core, NodeCore) else None
            self._operations = Operations(site, node, self._relay.stop if self._relay is not None else None)
            self._post.hub.at_work = self._operations.at_work
            if settings.metrics_port:
                try:
                    undo.callback(MetricsServer(metrics, settings.metrics_port).close)
                except OSError as error:
                    port = settings.metrics_port
                    raise ServeError(
                        "cannot_bind_metrics",
                        f"gateway.metrics_port: cannot listen on 127.0.0.1:{port}: {error}",
                    ) from None
            self._frontends = Frontends(
                frontend_specs(factory, robots, joined.nodes.here if joined is not None else ""), metrics
            )
            undo.callback(self._frontends.stop, FRONTENDS_STOP_S)
            self._cluster.start(self.gateway.workers.endpoint, worker_keys)
            self._stack = undo.pop_all()

    def stop(self, *_: object) -> None:
        """Begin to drain; safe to call from a signal handler."""
        self._stop = True

    def run(self) -> None:
        """Serve until `stop()`, then drain: what was accepted is answered, and no process stays behind."""
        with self._stack:
            gc.freeze()  # what lives as long as the server is not worth looking at again in every collection
            self._serve()
            self._operations.close()
            self._drain()
            self._state.discard()
        log.event("server_stopped")

    def _serve(self) -> None:
        announced = False
        replicas = {replica.id: replica.model for replica in self.core.router.placement.replicas.values()}
        log.event(
            "server_started", robots=self.gateway.robots_endpoint, replicas=replicas, compiled=compiled()
        )
        next_s = 0.0
        while not self._stop:
            self.gateway.step()
            now_s = self._clock.now_s()
            if now_s < next_s:
                continue
            next_s = now_s + LOOK_EVERY_S
            self._lengths.step(now_s)
            self._frontends.step(now_s)
            orders, self._post.orders = self._post.orders, []
            if self._relay is not None and self._peers is not None:
                orders = self._relay.step(orders, self._peers.heard_orders())
            self._operations.step(now_s, orders, self.gateway.workers.ended())
            self.gateway.stir()
            if self._cluster.misconfigured and not announced:
                raise ServeError("worker_misconfigured", self._cluster.misconfigured)
            if self._frontends.misconfigured and not announced:
                raise ServeError("frontend_misconfigured", self._frontends.misconfigured)
            if not announced and self._frontends.listening and self.core.health().ready:
                announced = True
                if not say(f"ROSA is ready on {self.gateway.robots_endpoint}"):
                    log.warning("output_lost", what="the ready line", robots=self.gateway.robots_endpoint)

    def _drain(self) -> None:
        open_calls = len(self.core.ledger)
        log.event("server_draining", open_requests=open_calls)
        self._frontends.terminate()
        self.core.drain(self._clock.now_s())
        self.gateway.stir()
        end_s = self._clock.now_s() + DRAIN_S
        while len(self.core.ledger) and self._clock.now_s() < end_s:
            self.gateway.step()
        self.core.give_up(self._clock.now_s(), "the server is shutting down")
        self.gateway.stir()
        self.gateway.step(0.0)
        self._lengths.save()
        self.gateway.workers.drain_all()


def _core_of(
    factory: Factory,
    plan: Plan | None,
    joined: SharedSchedule | None,
    context: zmq.Context[zmq.Socket[bytes]],
    metrics: Metrics,
) -> tuple[ServingCore, Placement, PeerDesk | None]:
    """What decides, which workers this server starts, and how the other gateways of its schedule are reached."""
    if joined is None:
        core = ServingCore(factory, *plan) if plan is not None else ServingCore(factory)
        return core, core.router.placement, None
    node = joined.core(factory, [f"{clients_of(name, joined.nodes.here)}-" for name in factory.frontends])
    max_bytes = int(factory.gateway.max_message_mb * 1e6)
    return node, joined.own_workers(node), joined.desk(node, context, max_bytes, metrics.cut_off)


def _relay_of(peers: PeerDesk | None, post: WatchPost, core: ServingCore) -> OrderRelay | None:
    """Carries orders to the other gateways; none where this one is alone."""
    if peers is None or not isinstance(core, NodeCore):
        return None
    return OrderRelay(lambda: core.nodes, peers, post, lambda: core.router.placement)


def _watch_post(setting: str, hub: Hub, context: zmq.Context[zmq.Socket[bytes]], robots: str) -> WatchPost:
    """Where the factory file leaves the place to the server, a server without one still serves."""
    try:
        endpoint = watch_endpoint(setting, robots)
        return WatchPost(hub, context, endpoint)
    except (WatchError, zmq.ZMQError) as error:
        if setting != AUTO:
            raise ServeError("cannot_bind_watch", f"gateway.watch: {error}") from None
        log.warning("watch_off", reason=str(error))
        return WatchPost(hub, context, "")


def serve(
    factory: Factory,
    source: str,
    make_cluster: ClusterMaker,
    bind: str = "",
    insecure: bool = False,
    plan: Plan | None = None,
    about: Mapping[str, Any] | None = None,
    planner: Planner | None = None,
    state: LiveState | None = None,
    joined: SharedSchedule | None = None,
) -> int:
    """Run a server until SIGTERM or SIGINT. Raises `ContractError` where it cannot start.

    `plan`: what a schedule places where, and what decides about further robots. `about`: what those who watch are told
    of the schedule. `planner`: plans the way to another schedule. `state`: what an earlier server has left.
    `joined`: this is one of several gateways of the schedule.
    """
    log.to_stderr()
    check_compiled()
    keep_freed_memory()
    stop_early: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda n, _: stop_early.append(n))
    if plan is not None and isinstance(plan[1], NoAdmission):
        log.warning("admission_off", reason=plan[1].why)
    server = HeadlessServer(
        factory, source, make_cluster, bind, insecure, plan, about, planner, state, joined
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.stop)
    if stop_early:
        server.stop()
    server.run()
    return 0
