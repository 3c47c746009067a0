"""(header, all frames) -> message. Raises `CodecError`, whatever the bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rosa_contract.errors import CodecError
from rosa_contract.wire import messages as m
from rosa_contract.wire.horizon import MAX_REASON_CHARS, MAX_STEPS, Horizon, contradictions
from rosa_contract.wire.images import EncodedImage
from rosa_contract.wire.overlap import MAX_ROWS, Overlap, overlap_problem
from rosa_contract.wire.packing import (
    MAX_ARRAY_BYTES,
    MAX_HEADER_BYTES,
    Frame,
    buffer,
    check_sum,
    image_sum,
    short,
    unpack,
    unpack_array,
)
from rosa_contract.wire.progress import OUTCOMES
from rosa_contract.wire.status import MAX_STATUS_HZ
from tests.unit.contract.version3 import fields, reports
from tests.unit.contract.version3.fields import (
    MAX_BATCH,
    MAX_ID,
    MAX_IMAGES,
    MAX_NAME_CHARS,
    Header,
    check_count,
)

MAX_RATE_HZ = 1e6
MAX_PACE = 1e3
MAX_CATCH_UP = 10.0
MAX_START_MS = 60_000.0
MAX_BUDGET_MS = 600_000.0
MAX_DURATION_MS = 1e9
MAX_ROBOTS = 1 << 16
MAX_T = 1000.0
MAX_COUNTS = 32
MAX_STEP_S = 10.0


def decode_output(frame: Frame) -> m.Output:
    """A model's output from its frame."""
    body = unpack(frame, "output", MAX_ARRAY_BYTES + MAX_HEADER_BYTES, MAX_HEADER_BYTES)
    check_sum(frame, body, "output")
    horizon = fields.sequence({"z": [0, ""], **body}, "z", 2)
    if len(horizon) != 2:
        raise CodecError("bad_field", f"output: horizon: expected [steps, reason], got {short(horizon)}")
    return m.Output(
        fields.arrays(body, "a"),
        fields.text(body, "w", MAX_NAME_CHARS),
        fields.text(body, "x"),
        fields.whole(horizon[0], "output: horizon", 0, MAX_STEPS),
        fields.text({"reason": horizon[1]}, "reason", MAX_REASON_CHARS),
    )


def _hello(header: Header, frames: Sequence[Frame]) -> m.Hello:
    check_count(frames, 1, "hello")
    cameras = {}
    for name, entry in fields.mapping(header, "c", MAX_IMAGES).items():
        if not isinstance(entry, list) or len(entry) != 3:
            words = f"expected [height, width, encoding], got {short(entry)}"
            raise CodecError("bad_field", f"hello: camera {name!r}: {words}")
        height, width = fields.size(entry[0], entry[1])
        cameras[name] = m.CameraInfo(height=height, width=width, encoding=fields.encoding(entry[2]))
    state = fields.lengths(header, "s", "hello: state")
    token = fields.text(header, "y", MAX_NAME_CHARS)
    return m.Hello(fields.name(header, "r"), fields.name(header, "k"), cameras, state, token)


def _welcome(header: Header, frames: Sequence[Frame]) -> m.Welcome:
    check_count(frames, 1, "welcome")
    entries = fields.mapping(header, "f", MAX_BATCH)
    rates = {name: fields.number(entries, name, 0.0, MAX_RATE_HZ, "welcome: rates") for name in entries}
    lists = fields.mapping(header, "g", MAX_BATCH)
    cameras = {component: tuple(fields.sequence(lists, component, MAX_IMAGES)) for component in lists}
    if not all(isinstance(camera, str) for listed in cameras.values() for camera in listed):
        raise CodecError("bad_field", "welcome: cameras: expected names")
    waits = fields.mapping(header, "s", MAX_BATCH)
    starts = {name: fields.number(waits, name, 0.0, MAX_START_MS, "welcome: starts") for name in waits}
    catch_up = fields.number({"t": "welcome", "k": 0.0, **header}, "k", 0.0, MAX_CATCH_UP)
    token = fields.text(header, "y", MAX_NAME_CHARS)
    permits = fields.sequence({"p": [], **header}, "p", MAX_BATCH)
    if not all(isinstance(component, str) for component in permits):
        raise CodecError("bad_field", "welcome: permits: expected names of components")
    cancels = fields.flag(header, "x", "welcome: cancels")
    tasks = fields.flag(header, "a", "welcome: tasks")
    status_hz = fields.number({"t": "welcome", "h": 0.0, **header}, "h", 0.0, MAX_STATUS_HZ)
    models, rules = fields.names(header, "m"), (catch_up, starts, tuple(permits), cancels, tasks, status_hz)
    return m.Welcome(models, rates, cameras, token, *rules)


def _refused(header: Header, frames: Sequence[Frame]) -> m.Refused:
    check_count(frames, 1, "refused")
    cause = fields.name(header, "c")
    if cause not in m.REFUSALS:
        words = f"refused: cause: expected one of {', '.join(m.REFUSALS)}, got {short(cause)}"
        raise CodecError("bad_field", words)
    return m.Refused(cause, fields.text(header, "r"))


def _request(header: Header, frames: Sequence[Frame]) -> m.Request:
    listed, sums = fields.sequence(header, "m", MAX_IMAGES), fields.sequence(header, "h", MAX_IMAGES)
    check_count(frames, 1 + len(listed), "request")
    if len(sums) != len(listed):
        words = f"request: expected {len(listed)} checksums of images, got {len(sums)}"
        raise CodecError("bad_field", words)
    images: dict[str, EncodedImage] = {}
    for entry, frame, expected in zip(listed, frames[1:], sums, strict=True):
        if not isinstance(entry, list) or len(entry) != 4 or not isinstance(entry[0], str):
            words = f"expected [camera, encoding, height, width], got {short(entry)}"
            raise CodecError("bad_field", f"request: image: {words}")
        name, encoding = entry[0], fields.encoding(entry[1])
        height, width = fields.size(entry[2], entry[3])
        if name in images or len(name) > MAX_NAME_CHARS:
            raise CodecError("bad_field", f"request: camera {short(name)}: duplicate or too long a name")
        images[name] = EncodedImage(encoding, height, width, buffer(frame))
        if image_sum(encoding, frame) != expected:
            raise CodecError("checksum_mismatch", f"request: camera {name!r}: checksum mismatch")
    return m.Request(
        request_id=fields.whole(header.get("i"), "request_id", 0, MAX_ID),
        component=fields.name(header, "c"),
        budget_ms=fields.number(header, "b", 0.0, MAX_BUDGET_MS),
        prompt=fields.text(header, "p"),
        state=fields.arrays(header, "s"),
        images=images,
        horizon=_horizon(header["z"]) if "z" in header else None,
        observation=fields.whole(header["o"], "observation", 0, MAX_ID) if "o" in header else None,
        overlap=_overlap(header["f"]) if "f" in header else None,
        progress=fields.progress(header["k"]) if "k" in header else None,
    )


def _cancel(header: Header, frames: Sequence[Frame]) -> m.Cancel:
    check_count(frames, 1, "cancel")
    return m.Cancel(fields.whole(header.get("i"), "request_id", 0, MAX_ID))


def _task_ends(header: Header, frames: Sequence[Frame]) -> m.TaskEnds:
    check_count(frames, 1, "task_ends")
    outcome = fields.name(header, "o")
    if outcome not in OUTCOMES:
        words = f"task_ends: outcome: expected one of {', '.join(OUTCOMES)}, got {short(outcome)}"
        raise CodecError("bad_field", words)
    return m.TaskEnds(fields.whole(header.get("k"), "task", 0, MAX_ID), outcome)


def _horizon(entry: Any) -> Horizon:
    """A horizon policy that the configuration of a task could hold."""
    what = "request: horizon"
    if not isinstance(entry, list) or len(entry) != 5:
        raise CodecError("bad_field", f"{what}: expected [policy, steps, t, min, max], got {short(entry)}")
    steps, least, most = (
        None if value is None else fields.whole(value, what, 1, MAX_STEPS)
        for value in (entry[1], entry[3], entry[4])
    )
    t = None if entry[2] is None else fields.number({"t": entry[2]}, "t", -1.0, MAX_T, what)
    spec = Horizon(fields.name({"t": "request", "policy": entry[0]}, "policy"), steps, t, least, most)
    for key, words, _ in contradictions(spec):
        raise CodecError("bad_field", f"{what}: {key}: {words}")
    return spec


def _overlap(entry: Any) -> Overlap:
    """What the robot plays meanwhile, bounded in size and finite."""
    what = "request: overlap"
    if not isinstance(entry, list) or len(entry) != 3:
        raise CodecError("bad_field", f"{what}: expected [frozen, step_s, actions], got {short(entry)}")
    frozen = fields.whole(entry[0], f"{what}: frozen", 1, MAX_ROWS)
    step_s = fields.number({"step_s": entry[1]}, "step_s", 0.0, MAX_STEP_S, what)
    overlap = Overlap(unpack_array("overlap", entry[2]), frozen, step_s)
    if problem := overlap_problem(overlap):
        raise CodecError("bad_field", f"{what}: {problem}")
    return overlap


def _response(header: Header, frames: Sequence[Frame]) -> m.Response:
    status, cause = fields.name(header, "s"), fields.text(header, "c", MAX_NAME_CHARS)
    if status not in m.STATUSES:
        words = f"response: status: expected one of {', '.join(m.STATUSES)}, got {short(status)}"
        raise CodecError("bad_field", words)
    if not m.fits(status, cause):
        raise CodecError("bad_field", f"response: {short(cause)} is no cause of status {status!r}")
    check_count(frames, 2 if status == m.OK else 1, f"response {status}")
    return m.Response(
        request_id=fields.whole(header.get("i"), "request_id", 0, MAX_ID),
        status=status,
        cause=cause,
        reason=fields.text(header, "r"),
        queue_ms=fields.number(header, "q", 0.0, MAX_DURATION_MS),
        inference_ms=fields.number(header, "n", 0.0, MAX_DURATION_MS),
        batch_size=fields.whole(header.get("z"), "batch_size", 0, MAX_BATCH),
        output=decode_output(frames[1]) if status == m.OK else None,
        pace=fields.number({"p": 0.0, **header}, "p", 0.0, MAX_PACE),
    )


def _health_report(header: Header, frames: Sequence[Frame]) -> m.HealthReport:
    check_count(frames, 1, "health_report")
    ready = header.get("o")
    if not isinstance(ready, bool):
        words = f"health_report: ready: expected true or false, got {short(ready)}"
        raise CodecError("bad_field", words)
    waiting = fields.mapping(header, "q", MAX_BATCH)
    queues = {name: fields.whole(n, f"queue {name!r}", 0, MAX_ID) for name, n in waiting.items()}
    robots = fields.sequence(header, "r", MAX_ROBOTS)
    if not all(isinstance(robot, str) for robot in robots):
        raise CodecError("bad_field", "health_report: robots: expected names")
    connected = fields.whole(header.get("n"), "health_report: connected", 0, MAX_ID)
    return m.HealthReport(ready, fields.names(header, "w"), queues, robots, connected)


def _worker_ready(header: Header, frames: Sequence[Frame]) -> m.WorkerReady:
    check_count(frames, 1, "worker_ready")
    images = {}
    for name, entry in fields.mapping(header, "i", MAX_IMAGES).items():
        if not isinstance(entry, list) or len(entry) != 2:
            words = f"worker_ready: image {name!r}: expected [height, width], got {short(entry)}"
            raise CodecError("bad_field", words)
        images[name] = fields.size(entry[0], entry[1])
    state = fields.lengths(header, "s", "worker_ready: state")
    max_batch = fields.whole(header.get("b"), "max_batch", 1, MAX_BATCH)
    at_once = fields.whole(header.get("o", 1), "at_once", 1, MAX_BATCH)
    shares = fields.flag(header, "k", "worker_ready: shares")
    resizes = fields.texts(header, "z") if "z" in header else ()
    unused = fields.texts(header, "u") if "u" in header else None
    names = fields.name(header, "w"), fields.name(header, "m")
    return m.WorkerReady(*names, max_batch, images, state, at_once, shares, resizes, unused)


def _execute(header: Header, frames: Sequence[Frame]) -> m.Execute:
    tickets = _tickets(header)
    listed = fields.sequence(header, "n", MAX_BATCH)
    counts = [fields.whole(count, "frame count", 1, MAX_IMAGES + 1) for count in listed]
    if len(tickets) != len(counts):
        words = f"execute: {len(tickets)} tickets but {len(counts)} frame counts"
        raise CodecError("bad_field", words)
    check_count(frames, 1 + sum(counts), "execute")
    split, start = [], 1
    for count in counts:
        split.append(frames[start : start + count])
        start += count
    senders = [_sender(one) for one in fields.sequence(header, "r", MAX_BATCH)] if "r" in header else []
    if senders and len(senders) != len(tickets):
        raise CodecError("bad_field", f"execute: {len(tickets)} tickets but {len(senders)} senders")
    return m.Execute(fields.whole(header.get("i"), "batch_id", 0, MAX_ID), tickets, split, senders)


def _sender(entry: Any) -> m.Sender:
    if not isinstance(entry, list) or len(entry) != 4:
        words = f"expected [robot, budget_ms, waited_ms, observation], got {short(entry)}"
        raise CodecError("bad_field", f"execute: sender: {words}")
    names = ("robot", "budget_ms", "waited_ms", "observation")
    told = {"t": "execute", **dict(zip(names, entry, strict=True))}
    budget_ms = fields.number(told, "budget_ms", -MAX_DURATION_MS, MAX_DURATION_MS)
    waited_ms = fields.number(told, "waited_ms", 0.0, MAX_DURATION_MS)
    observation = fields.text(told, "observation", MAX_NAME_CHARS)
    return m.Sender(fields.name(told, "robot"), budget_ms, waited_ms, observation)


def _executed(header: Header, frames: Sequence[Frame]) -> m.Executed:
    tickets = _tickets(header)
    errors = []
    for entry in fields.sequence(header, "e", MAX_BATCH):
        if not isinstance(entry, list) or len(entry) != 2 or not all(isinstance(part, str) for part in entry):
            raise CodecError("bad_field", f"executed: error: expected [cause, reason], got {short(entry)}")
        if entry[0] and entry[0] not in m.CAUSES:
            words = f"executed: cause: expected one of {', '.join(m.CAUSES)}, got {short(entry[0])}"
            raise CodecError("bad_field", words)
        errors.append((entry[0], entry[1]))
    if len(tickets) != len(errors):
        raise CodecError("bad_field", f"executed: {len(tickets)} tickets but {len(errors)} results")
    check_count(frames, 1 + len(tickets), "executed")
    batch_id = fields.whole(header.get("i"), "batch_id", 0, MAX_ID)
    inference_ms = fields.number(header, "n", 0.0, MAX_DURATION_MS)
    counted = fields.mapping(header, "u", MAX_COUNTS)
    counts = {name: fields.whole(count, f"counts: {name}", 0, MAX_ID) for name, count in counted.items()}
    times = fields.sequence({"d": [], **header}, "d", MAX_BATCH)
    if times and len(times) != len(tickets):
        raise CodecError("bad_field", f"executed: {len(tickets)} tickets but {len(times)} times of decoding")
    spent = [fields.number({"ms": ms}, "ms", 0.0, MAX_DURATION_MS, "executed: decode_ms") for ms in times]
    return m.Executed(batch_id, tickets, inference_ms, errors, list(frames[1:]), counts, spent)


def _cancel_tickets(header: Header, frames: Sequence[Frame]) -> m.CancelTickets:
    check_count(frames, 1, "cancel_tickets")
    return m.CancelTickets(_tickets(header))


def _tickets(header: Header) -> list[int]:
    return [fields.whole(ticket, "ticket", 0, MAX_ID) for ticket in fields.sequence(header, "k", MAX_BATCH)]


def _component(kind: type[Any]) -> Callable[[Header, Sequence[Frame]], Any]:
    def decoder(header: Header, frames: Sequence[Frame]) -> Any:
        check_count(frames, 1, str(header["t"]))
        return kind(fields.name(header, "c"))

    return decoder


def _bare(kind: type[Any]) -> Callable[[Header, Sequence[Frame]], Any]:
    def decoder(header: Header, frames: Sequence[Frame]) -> Any:
        check_count(frames, 1, str(header["t"]))
        return kind()

    return decoder


DECODERS: Mapping[str, Callable[[Header, Sequence[Frame]], Any]] = {
    "hello": _hello,
    "welcome": _welcome,
    "refused": _refused,
    "ready": _component(m.Ready),
    "permit": _component(m.Permit),
    "request": _request,
    "cancel": _cancel,
    "task_ends": _task_ends,
    "status": reports.status_from,
    "decide": reports.decide_from,
    "decided": reports.decided_from,
    "response": _response,
    "bye": _bare(m.Bye),
    "health_query": _bare(m.HealthQuery),
    "health_report": _health_report,
    "worker_ready": _worker_ready,
    "execute": _execute,
    "executed": _executed,
    "cancel_tickets": _cancel_tickets,
    "drain": _bare(m.Drain),
}
