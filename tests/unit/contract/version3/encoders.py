"""Message -> (header, further frames). Raises `CodecError` for whatever a peer would refuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rosa_contract.errors import CodecError
from rosa_contract.wire import messages as m
from rosa_contract.wire.horizon import MAX_REASON_CHARS, MAX_STEPS
from rosa_contract.wire.overlap import overlap_problem
from rosa_contract.wire.packing import Frame, image_sum, pack, pack_arrays, short
from rosa_contract.wire.progress import OUTCOMES
from tests.unit.contract.version3 import fields, reports
from tests.unit.contract.version3.fields import Header, finite

SCHEMA_VERSION = 3
Parts = tuple[Header, list[Frame]]


def encode_output(output: m.Output) -> bytes:
    """One frame. Raises `CodecError` for whatever `decode_output` refuses, so that no robot ever has to."""
    if not isinstance(output.arrays, Mapping):
        words = f"arrays: expected a mapping of names to arrays, got {short(output.arrays)}"
        raise CodecError("bad_field", words)
    body: dict[str, Any] = {
        "a": pack_arrays(fields.mapping({"arrays": dict(output.arrays)}, "arrays", fields.MAX_ARRAYS)),
        "w": fields.text({"verdict": output.verdict}, "verdict", fields.MAX_NAME_CHARS),
        "x": fields.text({"text": output.text}, "text"),
    }
    if output.horizon:
        steps = fields.whole(output.horizon, "horizon", 0, MAX_STEPS)
        reason = fields.text({"reason": output.horizon_reason}, "reason", MAX_REASON_CHARS)
        body["z"] = [steps, reason]
    return pack(body)


def response_header(
    request_id: int,
    status: str,
    cause: str,
    reason: str,
    queue_ms: float,
    inference_ms: float,
    batch_size: int,
    pace: float = 0.0,
) -> bytes:
    """Frame 0 of a response; frame 1, with status ok, is the worker's output frame, untouched."""
    return pack(
        {
            "v": SCHEMA_VERSION,
            "t": "response",
            "i": request_id,
            "s": status,
            "c": cause,
            "r": reason,
            "q": queue_ms,
            "n": inference_ms,
            "z": batch_size,
            "p": pace,
        }
    )


def _hello(message: m.Hello) -> Parts:
    cameras = {name: [c.height, c.width, c.encoding] for name, c in message.cameras.items()}
    state = dict(message.state)
    return {"r": message.robot_id, "k": message.task, "c": cameras, "s": state, "y": message.token}, []


def _welcome(message: m.Welcome) -> Parts:
    rates = {name: finite(f"rate of {name}", rate) for name, rate in message.rates_hz.items()}
    cameras = {component: list(names) for component, names in message.cameras.items()}
    starts = {name: finite(f"start of {name}", start) for name, start in message.starts_ms.items()}
    told = {"m": dict(message.models), "f": rates, "g": cameras, "y": message.token}
    header: Header = {**told, "k": message.catch_up, "s": starts, "p": list(message.permits)}
    if message.cancels:
        header["x"] = True
    if message.tasks:
        header["a"] = True
    if message.status_hz:
        header["h"] = finite("status_hz", message.status_hz)
    return header, []


def _component(message: m.Ready | m.Permit) -> Parts:
    return {"c": message.component}, []


def _refused(message: m.Refused) -> Parts:
    return {"c": message.cause, "r": message.reason}, []


def _request(message: m.Request) -> Parts:
    header: Header = {
        "i": message.request_id,
        "c": message.component,
        "b": finite("budget_ms", message.budget_ms),
        "p": message.prompt,
        "s": pack_arrays(message.state),
        "m": [[name, i.encoding, i.height, i.width] for name, i in message.images.items()],
        "h": [image_sum(image.encoding, image.data) for image in message.images.values()],
    }
    if message.horizon is not None:
        header["z"] = [
            message.horizon.policy,
            message.horizon.steps,
            message.horizon.t,
            message.horizon.min,
            message.horizon.max,
        ]
    if message.observation is not None:
        header["o"] = message.observation
    if message.overlap is not None:
        one = message.overlap
        if problem := overlap_problem(one):
            raise CodecError("bad_field", f"request: overlap: {problem}")
        header["f"] = [one.frozen, one.step_s, pack_arrays({"actions": one.actions})["actions"]]
    if message.progress is not None:
        header["k"] = [
            message.progress.task,
            message.progress.round,
            message.progress.acts_ms,
            message.progress.kind,
        ]
        fields.progress(header["k"])
    return header, [image.data for image in message.images.values()]


def _cancel(message: m.Cancel) -> Parts:
    return {"i": message.request_id}, []


def _task_ends(message: m.TaskEnds) -> Parts:
    if message.outcome not in OUTCOMES:
        words = f"task_ends: outcome: expected one of {', '.join(OUTCOMES)}, got {short(message.outcome)}"
        raise CodecError("bad_field", words)
    return {"k": message.task, "o": message.outcome}, []


def _response(message: m.Response) -> Parts:
    if not m.fits(message.status, message.cause):
        raise CodecError("bad_field", f"response: {message.cause!r} is no cause of status {message.status!r}")
    header = {
        "i": message.request_id,
        "s": message.status,
        "c": message.cause,
        "r": message.reason,
        "q": message.queue_ms,
        "n": message.inference_ms,
        "z": message.batch_size,
        "p": message.pace,
    }
    return header, [] if message.output is None else [encode_output(message.output)]


def _health_report(message: m.HealthReport) -> Parts:
    queues, workers = dict(message.queues), dict(message.workers)
    robots = {"r": list(message.robots), "n": message.connected}
    return {"o": message.ready, "w": workers, "q": queues, **robots}, []


def _worker_ready(message: m.WorkerReady) -> Parts:
    header: Header = {
        "w": message.worker_id,
        "m": message.model,
        "b": message.max_batch,
        "i": {name: list(size) for name, size in message.images.items()},
        "s": dict(message.state),
    }
    if message.at_once > 1:
        header["o"] = message.at_once
    if message.shares:
        header["k"] = True
    if message.resizes:
        header["z"] = list(message.resizes)
    if message.unused is not None:
        header["u"] = list(message.unused)
    return header, []


def _execute(message: m.Execute) -> Parts:
    counts = [len(frames) for frames in message.frames]
    header: dict[str, Any] = {"i": message.batch_id, "k": list(message.tickets), "n": counts}
    if message.senders:
        header["r"] = [
            [one.robot_id, one.budget_ms, one.waited_ms, one.observation] for one in message.senders
        ]
    return header, [frame for frames in message.frames for frame in frames]


def _executed(message: m.Executed) -> Parts:
    header: Header = {
        "i": message.batch_id,
        "k": list(message.tickets),
        "n": message.inference_ms,
        "e": [list(error) for error in message.errors],
    }
    if message.counts:
        header["u"] = dict(message.counts)
    if message.decode_ms:
        header["d"] = list(message.decode_ms)
    return header, list(message.outputs)


def _cancel_tickets(message: m.CancelTickets) -> Parts:
    return {"k": list(message.tickets)}, []


def _bare(message: object) -> Parts:
    return {}, []


ENCODERS: Mapping[type[Any], tuple[str, Callable[[Any], Parts]]] = {
    m.Hello: ("hello", _hello),
    m.Welcome: ("welcome", _welcome),
    m.Refused: ("refused", _refused),
    m.Ready: ("ready", _component),
    m.Permit: ("permit", _component),
    m.Request: ("request", _request),
    m.Cancel: ("cancel", _cancel),
    m.TaskEnds: ("task_ends", _task_ends),
    m.Status: ("status", reports.status_parts),
    m.Decide: ("decide", reports.decide_parts),
    m.Decided: ("decided", reports.decided_parts),
    m.Response: ("response", _response),
    m.Bye: ("bye", _bare),
    m.HealthQuery: ("health_query", _bare),
    m.HealthReport: ("health_report", _health_report),
    m.WorkerReady: ("worker_ready", _worker_ready),
    m.Execute: ("execute", _execute),
    m.Executed: ("executed", _executed),
    m.CancelTickets: ("cancel_tickets", _cancel_tickets),
    m.Drain: ("drain", _bare),
}
