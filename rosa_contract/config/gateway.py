"""The section `gateway` of a factory file: how robots and monitoring reach the server, and the order of requests."""

from __future__ import annotations

from dataclasses import dataclass

from rosa_contract.setting import setting
from rosa_contract.wire.status import MAX_STATUS_HZ

EARLIEST_DEADLINE = "earliest_deadline"
FIRST_COME = "first_come"
MIN_ATTAINED_SERVICE = "least_attained_service"
KAIROS = "kairos"
REMAINING_WORK = "remaining_work"
ORDERS = (EARLIEST_DEADLINE, FIRST_COME, MIN_ATTAINED_SERVICE, KAIROS, REMAINING_WORK)


@dataclass(frozen=True)
class Gateway:
    """The server's interface to robots and to monitoring."""

    bind: str = setting(
        "ZeroMQ endpoint for robots; beyond loopback needs curve_keys", "tcp://127.0.0.1:5570"
    )
    metrics_port: int = setting(
        "HTTP port on loopback for Prometheus metrics and /health; 0: off", 9570, at_least=0, at_most=65535
    )
    watch: str = setting(
        "local socket for `rosa dashboard` and other commands on the same machine: auto: in this user's private"
        " folder, named after the port of `bind`; or ipc://PATH in a folder that only this user can access;"
        " empty: off",
        "auto",
    )
    state: str = setting(
        "file that keeps operators' changes to the running server, so that it continues with them after a crash"
        " (docs/operations.md): auto: beside the socket of `watch: auto`; or a path in a folder that only this"
        " user can access; empty: none",
        "auto",
    )
    status_hz: float = setting(
        "rate of robots' status reports (when a person is needed, a report is also sent at once); 0: never",
        1.0,
        at_least=0,
        at_most=MAX_STATUS_HZ,
    )
    queue_per_model: int = setting(
        "maximum number of waiting requests per model; more are answered 'overloaded'",
        1024,
        at_least=1,
        at_most=1_000_000,
    )
    order: str = setting(
        "which waiting request runs first: earliest_deadline: the tightest deadline; first_come: the longest"
        " wait; least_attained_service: the robot for which the model has run least; kairos: the robot that has"
        " waited for the largest fraction of its time; remaining_work: the task with the least work left"
        " (docs/scheduler.md)",
        REMAINING_WORK,
        choices=ORDERS,
    )
    order_buckets: int = setting(
        "kairos: number of levels for the fraction of time waited; within a level the longest execution goes"
        " first; 0: no levels",
        10,
        at_least=0,
        at_most=1000,
    )
    order_ageing_s: float = setting(
        "kairos: a waiting request rises by one level every time this has passed",
        60.0,
        above=0,
        at_most=10_000,
    )
    order_age_weight: float = setting(
        "remaining_work: minimum weight of a task's age: seconds of server work per second of age; 0: long tasks"
        " may starve",
        0.01,
        at_least=0,
        at_most=10,
    )
    task_lengths: str = setting(
        "remaining_work: file that keeps the learned task lengths, by kind of task; empty: forgotten when the"
        " server stops",
        "",
    )
    busy_poll_us: int = setting(
        "how long the gateway polls after each message before it sleeps; saves up to 0.25 ms per round trip and"
        " uses up to one CPU core (docs/add_a_model.md)",
        0,
        at_least=0,
        at_most=5000,
    )
    max_message_mb: float = setting("maximum size of a message from a robot", 32.0, above=0, at_most=1024)
    curve_keys: str = setting("folder with server.key_secret and the robots' public keys (ZeroMQ CURVE)", "")
