"""The section `gateway` of a factory file: how robots and monitoring reach the server, and whose request runs first."""

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
        "Prometheus and /health over HTTP on loopback; 0 = off", 9570, at_least=0, at_most=65535
    )
    watch: str = setting(
        "where `rosa dashboard` reads what the gateway does, on this machine: 'auto' = a socket in this user's private"
        " folder, named after the port of `bind`; or ipc://PATH in a folder that only this user can enter; empty: off",
        "auto",
    )
    state: str = setting(
        "file with what people have done to the running server (docs/operations.md): one that is killed goes on from"
        " there; 'auto' = beside the watch socket of `auto`; or a path in a folder that only this user can enter;"
        " empty: none",
        "auto",
    )
    status_hz: float = setting(
        "how often a robot says how it is, besides at once when a person is needed; 0 = never",
        1.0,
        at_least=0,
        at_most=MAX_STATUS_HZ,
    )
    queue_per_model: int = setting(
        "most requests that may wait per model; a further one is answered 'overloaded'",
        1024,
        at_least=1,
        at_most=1_000_000,
    )
    order: str = setting(
        "which waiting request runs first: the one with the tightest deadline, that has waited longest, for whose robot"
        " the model has run least, whose robot has waited the largest share of its time, or whose task has least"
        " left to do (docs/scheduler.md)",
        REMAINING_WORK,
        choices=ORDERS,
    )
    order_buckets: int = setting(
        "kairos: steps of the share of time waited; within one the longest execution goes first; 0: no steps",
        10,
        at_least=0,
        at_most=1000,
    )
    order_ageing_s: float = setting(
        "kairos: how long a request waits before it rises by one step, and by another one",
        60.0,
        above=0,
        at_most=10_000,
    )
    order_age_weight: float = setting(
        "remaining_work: seconds of a server's work that one second of a task's age counts for, at least; 0: long tasks"
        " may starve",
        0.01,
        at_least=0,
        at_most=10,
    )
    task_lengths: str = setting(
        "remaining_work: file that keeps how long tasks of each kind are; empty: the server forgets it when it ends",
        "",
    )
    busy_poll_us: int = setting(
        "how long the gateway stays awake after each message instead of sleeping until the next one: a round trip takes"
        " up to a quarter of a millisecond less, and the gateway up to a whole core (docs/add_a_model.md)",
        0,
        at_least=0,
        at_most=5000,
    )
    max_message_mb: float = setting("largest message from a robot", 32.0, above=0, at_most=1024)
    curve_keys: str = setting("folder with server.key_secret and the robots' public keys (ZeroMQ CURVE)", "")
