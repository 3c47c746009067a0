"""When a request passes which step of gateway and worker: hooks around their methods, installed by the benchmark alone.

A server that does not import this file runs the same code without a single stamp. All processes of one machine read the
same monotonic clock, so times of client, gateway and worker can be compared.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rosa_server.models.emulated import NullBackend

# A stage ends with its stamp and begins with the one before; the first stamp is where the client begins to encode.
STAGES = {
    "encode": "client: arrays to frames",
    "send": "ZeroMQ, TCP, waking the gateway, waiting behind what it does",
    "read": "gateway: takes the frames",
    "decide": "gateway: checks, queues",
    "wait": "gateway: until a worker has credit and a batch is chosen",
    "hand over": "gateway and worker: shared memory, waking the worker",
    "decode": "worker: pictures to arrays, of the whole batch; ahead of its turn, and then waiting for it, or not",
    "infer": "worker: the model, encoding its outputs",
    "back": "worker and gateway: the answer to the gateway, waking it",
    "answer": "gateway: reads, decides, sends this answer and those before it",
    "receive": "ZeroMQ, TCP, waking the client",
    "open": "client: frames to arrays",
}
GATEWAYS = (
    "read",
    "decide",
    "answer",
)  # stages in which the gateway works on this request and on nothing else
Stamps = tuple[float, ...]  # one more than stages, in seconds


class Notes:
    """What one process has noted."""

    def __init__(self) -> None:
        self.of_request: dict[int, dict[str, float]] = {}
        self.of_ticket: dict[int, dict[str, float]] = {}
        self.tickets: dict[int, int] = {}  # ticket -> request
        self.read = (0.0, 0.0)
        self.shared_s = 0.0

    def write(self, folder: Path, name: str) -> None:
        told = {"requests": self.of_request, "tickets": self.of_ticket, "request_of": self.tickets}
        (folder / f"{name}-{os.getpid()}.json").write_text(json.dumps(told))


def around(owner: type, name: str, note: Callable[[float, float, Sequence[Any], Any], None]) -> None:
    """Have `note(began_s, ended_s, arguments, result)` called after each call of a method."""
    plain = getattr(owner, name)

    def stamped(*arguments: Any, **named: Any) -> Any:
        began_s = time.monotonic()
        result = plain(*arguments, **named)
        note(began_s, time.monotonic(), (*arguments, *named.values()), result)
        return result

    setattr(owner, name, stamped)


def stamp_gateway(notes: Notes) -> None:
    """Install the hooks of a gateway in this process."""
    from rosa_server.serving.core.dispatch.core import ServingCore
    from rosa_server.serving.edge.intake import Intake
    from rosa_server.serving.edge.workers.desk import WorkerDesk
    from rosa_server.serving.edge.workers.links import WorkerLinks
    from rosa_server.serving.gateway import Gateway

    def read(began_s: float, ended_s: float, _: Sequence[Any], message: Any) -> None:
        if message is not None:
            notes.read = began_s, ended_s

    def decided(_: float, ended_s: float, given: Sequence[Any], __: Any) -> None:
        arrived_s, read_s = notes.read
        notes.of_request[given[3]["request_id"]] = {"send": arrived_s, "read": read_s, "decide": ended_s}

    def dispatched(began_s: float, _: float, given: Sequence[Any], __: Any) -> None:
        for call in given[1].calls:
            notes.of_request[call.request_id]["wait"] = began_s
            notes.tickets[call.ticket] = call.request_id

    def shared(began_s: float, _: float, __: Sequence[Any], frames: Any) -> None:
        if frames is not None:
            notes.shared_s = began_s

    def executed(_: float, __: float, given: Sequence[Any], ___: Any) -> None:
        for ticket in given[3].tickets:
            notes.of_ticket[ticket] = {"back": notes.shared_s}

    def answered(_: float, ended_s: float, given: Sequence[Any], __: Any) -> None:
        notes.of_request[given[1].call.request_id]["answer"] = ended_s

    around(Intake, "read", read)
    around(ServingCore, "on_request", decided)
    around(WorkerDesk, "dispatch", dispatched)
    around(WorkerLinks, "shared", shared)
    around(ServingCore, "on_executed", executed)
    around(Gateway, "_answer", answered)


def stamp_worker(notes: Notes) -> None:
    """Install the hooks of a worker in this process."""
    from rosa_contract.wire import messages as m
    from rosa_server.serving.worker.batch_worker import BatchWorker
    from rosa_server.serving.worker.gateway_end import GatewayEnd

    def took(_: float, ended_s: float, __: Sequence[Any], message: Any) -> None:
        if isinstance(message, m.Execute):
            for ticket in message.tickets:
                notes.of_ticket[ticket] = {"hand over": ended_s}

    def executed(began_s: float, ended_s: float, given: Sequence[Any], __: Any) -> None:
        for ticket in given[1].batch.tickets:
            notes.of_ticket[ticket].update({"decode": began_s, "infer": ended_s})

    # Not `_take`: where decoding is worth it, a thread reads the next batch while the model runs this one.
    around(GatewayEnd, "read", took)
    around(BatchWorker, "_execute", executed)


class StampedNull(NullBackend):
    """The null model of a worker that notes when it does what."""

    def __init__(self, folder: str, **options: Any) -> None:
        super().__init__(**options)
        self._folder, self._notes = Path(folder), Notes()

    def load(self) -> None:
        stamp_worker(self._notes)

    def close(self) -> None:
        self._notes.write(self._folder, "worker")


def paths(client: Mapping[int, Sequence[float]], folder: Path) -> Iterator[tuple[int, Stamps]]:
    """Request -> its stamps in the order of `STAGES`, for each that every process has noted.

    `client`: request -> when its client began, had encoded, had received and had opened it.
    """
    requests: dict[int, dict[str, float]] = {}
    tickets: dict[int, dict[str, float]] = {}
    request_of: dict[int, int] = {}
    for path in folder.glob("*.json"):
        told = json.loads(path.read_text())
        for number, times in told["requests"].items():
            requests.setdefault(int(number), {}).update(times)
        for number, times in told["tickets"].items():
            tickets.setdefault(int(number), {}).update(times)
        request_of.update({int(ticket): number for ticket, number in told["request_of"].items()})
    for ticket, number in request_of.items():
        if number not in client:
            continue
        began_s, encoded_s, received_s, opened_s = client[number]
        known = {**requests[number], **tickets.get(ticket, {})}
        known.update({"encode": encoded_s, "receive": received_s, "open": opened_s})
        if known.keys() >= STAGES.keys():
            yield number, (began_s, *(known[stage] for stage in STAGES))
