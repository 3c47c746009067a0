"""Metrics for Prometheus and /health for load balancers, over HTTP on loopback."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from rosa_contract.wire.messages import OK, HealthReport
from rosa_server.serving.core.queueing.actions import Reply
from rosa_server.serving.edge.tallies import Spreads, Tallies

MAX_READERS = 8  # of the metrics page at once
READ_S = 2.0  # for a request of it
LATENCY_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128)
# Of a worker's engine: its name for a count, the metric, what it is.
ENGINE = (
    ("prefills", "prefills", "Observations encoded since the worker started"),
    ("prefills_saved", "prefills_saved", "Calls that found their observation's prefix already encoded"),
    ("held_bytes", "kv_held_bytes", "Bytes of keys and values held in the KV cache"),
    ("evictions", "kv_evictions", "Prefixes evicted to make room for others"),
    ("passes", "passes", "Passes over the weights since the worker started"),
    ("frames", "frames", "Frames decoded to the end"),
    ("frames_late", "frames_late", "Frames dropped from the engine because of their deadline"),
    (
        "frames_cancelled",
        "frames_cancelled",
        "Frames dropped from the engine because they were cancelled or a pass failed",
    ),
)


class Metrics:
    """Counters of one gateway. The gateway's thread writes; the HTTP thread reads."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own = self.registry
        self._requests = Tallies(
            "rosa_requests", "Requests that got their final answer", ["component", "status"]
        )
        self._latency = Spreads(
            "rosa_server_latency_seconds", "Time from arrival to answer", "component", LATENCY_BUCKETS_S
        )
        self._queued = Spreads(
            "rosa_queue_seconds", "Time from arrival to dispatch to a worker", "component", LATENCY_BUCKETS_S
        )
        self._inference = Spreads("rosa_inference_seconds", "Run time of a batch", "model", LATENCY_BUCKETS_S)
        self._batch = Spreads("rosa_batch_size", "Requests per batch", "model", BATCH_BUCKETS)
        for each in (self._requests, self._latency, self._queued, self._inference, self._batch):
            own.register(each)
        # A replica is a server of the schedule; without a schedule, a model.
        self._replicas: set[str] = set()
        self._workers = Gauge("rosa_workers", "Warm workers", ["replica"], registry=own)
        self._waiting = Gauge("rosa_queue_depth", "Waiting requests", ["replica"], registry=own)
        self._notes = Counter(
            "rosa_schedule_changes",
            "Changes under a schedule, such as moved streams and admitted robots",
            ["event"],
            registry=own,
        )
        self._operations = Counter(
            "rosa_operations", "Steps of operations on the running server", ["step"], registry=own
        )
        self._robots = Gauge("rosa_robots", "Connected robots", registry=own)
        self._restarts = Counter(
            "rosa_worker_losses", "Workers that exited without being told to", registry=own
        )
        self._refused = Counter("rosa_refused", "Messages that were refused", ["cause"], registry=own)
        self._cut_off = Counter(
            "rosa_connections_cut_off", "Connections cut off for exceeding a limit", ["cause"], registry=own
        )
        self._messages = Counter(
            "rosa_messages", "Messages read from the robots' socket, valid or not", registry=own
        )
        self._connections = Gauge("rosa_connections", "Open connections on the robots' socket", registry=own)
        self._strangers = Gauge("rosa_strangers", "Open connections without an accepted robot", registry=own)
        self._unread = Gauge("rosa_unread_bytes", "Bytes of answers not yet read by peers", registry=own)
        self._held = Gauge("rosa_held_bytes", "Bytes received of incomplete messages", registry=own)
        self._order = Gauge("rosa_queue_order", "1 for the queue order in use", ["order"], registry=own)
        self._closed = Gauge(
            "rosa_fleet_closed", "Share of ended tasks whose robot started another one at once", registry=own
        )
        self._age_weight = Gauge(
            "rosa_age_weight",
            "Seconds of server work that one second of a task's age counts for",
            registry=own,
        )
        self._margin = Gauge(
            "rosa_deadline_margin_ratio",
            "Share of the deadline left when the robot's last answer left the server",
            ["robot", "component"],
            registry=own,
        )
        self._waits = Gauge(
            "rosa_robot_waits_for_person", "1 while the robot waits for a person", ["robot"], registry=own
        )
        self._learned = Gauge(
            "rosa_tasks_learned", "Ended tasks whose length the server remembers", registry=own
        )
        self._engine = {
            name: Gauge(f"rosa_{metric}", words, ["worker"], registry=own) for name, metric, words in ENGINE
        }
        self._clients = Gauge(
            "rosa_frontend_clients", "Connected clients of a frontend", ["frontend"], registry=own
        )
        self._clients_refused = Counter(
            "rosa_frontend_refused",
            "Messages and connections refused by a frontend",
            ["frontend", "cause"],
            registry=own,
        )
        self._refused_before: dict[tuple[str, str], int] = {}
        self._report = HealthReport(False, {}, {}, [])

    def answered(self, answer: Reply) -> None:
        """Count one final answer."""
        call = answer.call
        component = (
            call.component if call.model else "unknown"
        )  # robots must not be able to make up label values
        self._requests.inc((component, answer.status))
        if answer.status == OK:
            self._latency.observe(component, answer.ended_s - call.arrived_s)
            self._queued.observe(component, call.dispatched_s - call.arrived_s)

    def batch_done(self, model: str, size: int, inference_ms: float) -> None:
        self._inference.observe(model, inference_ms / 1000)
        self._batch.observe(model, size)

    def refused(self, cause: str) -> None:
        self._refused.labels(cause).inc()

    def cut_off(self, cause: str) -> None:
        self._cut_off.labels(cause).inc()

    def connections(
        self, count: int, strangers: int, held_bytes: int, unread_bytes: int, messages: int
    ) -> None:
        """`messages`: how many were read since the last call."""
        self._messages.inc(messages)
        self._connections.set(count)
        self._strangers.set(strangers)
        self._unread.set(unread_bytes)
        self._held.set(held_bytes)

    def engine(self, worker_id: str, counts: Mapping[str, int]) -> None:
        """What a worker's engine has done since it started; of names that are not known nothing is kept."""
        for name in self._engine.keys() & counts.keys():
            self._engine[name].labels(worker_id).set(counts[name])

    def worker_ended(self, worker_id: str, asked: bool) -> None:
        """`asked`: it was told to end."""
        if not asked:
            self._restarts.inc()
        for gauge in self._engine.values():
            with suppress(KeyError):  # it has no such engine
                gauge.remove(worker_id)

    def frontend(self, name: str, clients: int, refused: Mapping[str, int]) -> None:
        """What a frontend has counted. `refused`: by cause, since its process was started."""
        self._clients.labels(name).set(clients)
        for (frontend, cause), _ in list(self._refused_before.items()):
            if frontend == name and cause not in refused:  # another process counts from zero
                del self._refused_before[frontend, cause]
        for cause, count in refused.items():
            before = self._refused_before.get((name, cause), 0)
            self._clients_refused.labels(name, cause).inc(count - before if count >= before else count)
            self._refused_before[name, cause] = count

    def operated(self, step: str) -> None:
        self._operations.labels(step).inc()

    def noted(self, event: str) -> None:
        self._notes.labels(event).inc()

    def order(self, name: str, closed: float, age_weight: float, learned: int) -> None:
        """What the order of the queue goes by."""
        self._order.labels(name).set(1)
        self._closed.set(closed)
        self._age_weight.set(age_weight)
        self._learned.set(learned)

    def state(self, report: HealthReport, workers: Mapping[str, int]) -> None:
        """Set the gauges; the gateway calls it about once a second. `workers`: warm ones by replica."""
        self._report = report
        for queue, count in report.queues.items():
            self._waiting.labels(queue).set(count)
        for gone in self._replicas - workers.keys():  # of an earlier schedule
            self._workers.remove(gone)
        self._replicas = set(workers)
        for replica, count in workers.items():
            self._workers.labels(replica).set(count)
        self._robots.set(report.connected)

    def robots(self, margins: Iterable[tuple[str, str, float]], waiting: Iterable[str]) -> None:
        """How near its deadlines each robot is, and which wait for a person; those that have left are gone here too."""
        self._margin.clear()
        for robot, component, ratio in margins:
            self._margin.labels(robot, component).set(ratio)
        self._waits.clear()
        for robot in waiting:
            self._waits.labels(robot).set(1)

    def health_json(self) -> tuple[int, bytes]:
        """HTTP status (200 when every stream has a warm worker, else 503) and body of /health."""
        report = self._report
        body = {
            "ready": report.ready,
            "workers": dict(report.workers),
            "queues": dict(report.queues),
            "robots": list(report.robots),
        }
        return (200 if report.ready else 503), json.dumps(body).encode()


class BoundedServer(ThreadingHTTPServer):
    """At most `MAX_READERS` threads, and each for at most `READ_S`, also where a peer sends a byte now and then."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self._places = threading.BoundedSemaphore(MAX_READERS)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._places.acquire()  # the others wait in the listener's queue
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        over = threading.Timer(READ_S, _end, [request])
        over.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            over.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever leaves before it has read its answer is not worth a line."""


def _end(connection: socket.socket) -> None:
    with suppress(OSError):  # it has ended by itself
        connection.shutdown(socket.SHUT_RDWR)


class MetricsServer:
    """Serves /metrics and /health on 127.0.0.1. Port 0 picks a free one."""

    def __init__(self, metrics: Metrics, port: int) -> None:
        self._http = BoundedServer(("127.0.0.1", port), _handler(metrics))
        self.port = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(timeout=5)


def _handler(metrics: Metrics) -> type[BaseHTTPRequestHandler]:
    pages: dict[str, Callable[[], tuple[int, bytes, str]]] = {
        "/metrics": lambda: (200, generate_latest(metrics.registry), "text/plain; version=0.0.4"),
        "/health": lambda: (*metrics.health_json(), "application/json"),
    }

    class Handler(BaseHTTPRequestHandler):
        timeout = READ_S

        def do_GET(self) -> None:
            page = pages.get(self.path.split("?")[0])
            status, body, kind = page() if page else (404, b"there is /metrics and /health\n", "text/plain")
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: scrapes are frequent."""

    return Handler
