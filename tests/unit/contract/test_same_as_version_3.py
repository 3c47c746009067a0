"""What version 3 took, version 4 takes; what version 3 refused, version 4 refuses for the same cause."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from rosa_contract.errors import CodecError
from rosa_contract.wire import codec as new
from rosa_contract.wire import messages as m
from rosa_contract.wire import rules, schema
from rosa_contract.wire.horizon import Horizon
from rosa_contract.wire.images import ENCODINGS, EncodedImage
from rosa_contract.wire.packing import pack
from rosa_contract.wire.status import Audit, ComponentStatus, EndedCall, TakenDecision
from tests.examples import examples
from tests.unit.contract.version3 import codec as old
from tests.unit.contract.wire import same

# -- messages, made of their declaration -------------------------------------------------------------------------------

NAMES = st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=1, max_size=6)
COUNTS = st.integers(0, 3)
DTYPES = st.sampled_from(["f4", "f8", "i4", "u1", "O"])


def arrays() -> st.SearchStrategy[Any]:
    return st.builds(
        lambda shape, dtype, odd: np.full(shape, odd if dtype != "O" and dtype[0] == "f" else 1, dtype),
        st.lists(st.integers(0, 3), max_size=5), DTYPES, st.sampled_from([0.5, 0.5, 0.5, math.nan]),
    )  # fmt: skip


def values(rule: rules.Rule) -> st.SearchStrategy[Any]:
    """What the rule takes, and now and then what it does not."""
    match rule:
        case rules.Name():
            return NAMES
        case rules.Text():
            return st.text(st.characters(codec="utf-8"), max_size=6)
        case rules.Choice(words):
            return st.sampled_from([*words, *([""] if rule.empty else []), "nothing"])
        case rules.Whole(low, high):
            return st.integers(low, min(high, low + 12)) | st.sampled_from([low, high, low - 1, high + 1])
        case rules.Number(low, high):
            return st.floats(low, high) | st.sampled_from([low, high, high * 2, math.nan, math.inf, 1])
        case rules.Flag():
            return st.booleans()
        case rules.Side():
            return st.sampled_from([1, 8, 4096, 4097, 0])
        case rules.Array():
            return st.builds(
                lambda r, c, odd: np.full((r, c), odd, np.float32),
                COUNTS,
                st.integers(1, 5),
                st.sampled_from([0.5, math.nan]),
            )
        case rules.Arrays():
            return st.dictionaries(NAMES, arrays(), max_size=2)
        case rules.Map():
            return st.dictionaries(NAMES, values(rule.rule), max_size=3)
        case rules.Several():
            return st.lists(values(rule.rule), max_size=3).map(tuple)
        case rules.Pair():
            return st.tuples(values(rule.first), values(rule.second))
        case schema.Object():
            return objects(rule.of)
    raise AssertionError(rule)


def objects(kind: type[Any]) -> st.SearchStrategy[Any]:
    fields = {}
    for name, rule in schema.rules_of(kind).items():
        default = kind.__dataclass_fields__[name].default
        if isinstance(rule, rules.InFrames):
            fields[name] = FRAMES[kind, name]
        else:
            fields[name] = st.none() | values(rule) if default is None else values(rule)
    if kind is m.Refused:
        fields["cause"] = st.sampled_from(list(m.REFUSALS))
    if kind is m.Request:
        fields["horizon"] = st.none() | HORIZONS
    if kind is m.Response:
        fields |= {
            "status": st.sampled_from([*[m.OK] * 4, *m.STATUSES]),
            "cause": st.sampled_from([*[""] * 4, *m.CAUSES]),
        }
    return st.builds(kind, **fields)


HORIZONS = st.builds(
    Horizon, st.sampled_from(["static", "threshold", "own", ""]), *[st.none() | st.sampled_from([0, 1, 5, 2000])],
    st.none() | st.sampled_from([0.4, math.nan, 2000.0]), *[st.none() | st.sampled_from([0, 1, 5, 2000])] * 2,
)  # fmt: skip
IMAGES = st.builds(
    EncodedImage,
    st.sampled_from([*ENCODINGS, "bmp"]),
    st.sampled_from([8, 0, 5000]),
    st.just(8),
    st.binary(max_size=9),
)
FRAMES: dict[tuple[type[Any], str], st.SearchStrategy[Any]] = {
    (m.Request, "images"): st.dictionaries(NAMES, IMAGES, max_size=3),
    (m.Response, "output"): st.none() | st.deferred(lambda: objects(m.Output)),
    (m.Execute, "frames"): st.lists(st.lists(st.binary(max_size=3), min_size=1, max_size=3), max_size=3),
    (m.Executed, "outputs"): st.lists(st.binary(max_size=3), max_size=3),
}
MESSAGES = st.one_of([st.deferred(lambda kind=kind: objects(kind)) for kind in new.KINDS.values()])


def outcome(work: Callable[[], Any]) -> tuple[str, Any]:
    try:
        return "", work()
    except CodecError as error:
        return error.cause, str(error)


# What version 4 refuses at the sender, and version 3 at the receiver alone.
def both_ways(codec: Any, message: m.Message) -> tuple[str, Any]:
    return outcome(lambda: codec.decode([bytes(frame) for frame in codec.encode(message)]))


@settings(max_examples=examples(1500, 10_000))
@given(MESSAGES)
def test_a_message_goes_the_same_way_in_both(message: m.Message) -> None:
    (cause3, was), (cause4, now) = both_ways(old, message), both_ways(new, message)
    event(f"{type(message).__name__}: {cause4 or 'taken'}")
    if isinstance(message, m.WorkerReady) and message.at_once < 1:
        assert cause4, "version 3 did not send it, so that its receiver took it for 1"
        return
    # With several faults, which one is named first may differ; the next test changes one thing at a time.
    assert bool(cause3) == bool(cause4), (message, was, now)
    if not cause3:
        assert same(was, now)


# -- headers of version 3, changed somewhere, and the same change in version 4 -----------------------------------------


def listed(*names: str) -> Callable[[Any], Any]:
    def change(value: Any) -> Any:
        if isinstance(value, list) and len(value) == len(names):
            return dict(zip(names, value, strict=True))
        return ["not", "a", "map"] if isinstance(value, dict) else value

    return change


def fields_of(kind: type[Any]) -> Callable[[Any], Any]:
    return listed(*kind.__dataclass_fields__)


def by_name(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: (
        {key: change(one) for key, one in value.items()} if isinstance(value, dict) else value
    )


def each(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: [change(one) for one in value] if isinstance(value, list) else value


def horizon(value: Any) -> Any:
    found = listed("policy", "steps", "t", "min", "max")(value)
    return (
        {key: one for key, one in found.items() if one is not None or key == "policy"}
        if isinstance(found, dict)
        else found
    )


def alert(value: Any) -> Any:
    return listed("alert_id", "cause", "reason", "choices")(value)


Keys = dict[str, str | tuple[str, Callable[[Any], Any]]]
TABLE: dict[str, Keys] = {
    "hello": {
        "r": "robot_id", "k": "task", "s": "state", "y": "token",
        "c": ("cameras", by_name(listed("height", "width", "encoding"))),
    },
    "welcome": {
        "m": "models", "f": "rates_hz", "g": "cameras", "y": "token", "k": "catch_up", "s": "starts_ms", "p": "permits",
        "x": "cancels", "a": "tasks", "h": "status_hz",
    },
    "refused": {"c": "cause", "r": "reason"},
    "ready": {"c": "component"},
    "permit": {"c": "component"},
    "request": {
        "i": "request_id", "c": "component", "b": "budget_ms", "p": "prompt", "s": "state", "z": ("horizon", horizon),
        "o": "observation", "f": ("overlap", listed("frozen", "step_s", "actions")),
        "k": ("progress", listed("task", "round", "acts_ms", "kind")),
    },
    "cancel": {"i": "request_id"},
    "task_ends": {"k": "task", "o": "outcome"},
    "status": {
        "s": "state", "r": "reason", "b": "running", "n": "round", "p": "attempt", "e": "stopped",
        "c": ("components", each(fields_of(ComponentStatus))), "a": ("alert", alert),
        "l": ("calls", each(fields_of(EndedCall))), "d": ("decisions", each(fields_of(TakenDecision))),
        "u": ("audits", each(fields_of(Audit))),
    },
    "decide": {"i": "number", "a": "alert_id", "c": "choice", "b": "decided_by", "w": "why"},
    "decided": {"i": "number", "o": "accepted", "c": "cause", "r": "reason"},
    "response": {
        "i": "request_id", "s": "status", "c": "cause", "r": "reason", "q": "queue_ms", "n": "inference_ms",
        "z": "batch_size", "p": "pace",
    },
    "bye": {}, "health_query": {}, "drain": {},
    "health_report": {"o": "ready", "w": "workers", "q": "queues", "r": "robots", "n": "connected"},
    "worker_ready": {
        "w": "worker_id", "m": "model", "b": "max_batch", "i": "images", "s": "state", "o": "at_once", "k": "shares",
        "z": "resizes", "u": "unused",
    },
    "execute": {
        "i": "batch_id", "k": "tickets", "n": "frame_counts",
        "r": ("senders", each(listed("robot_id", "budget_ms", "waited_ms", "observation"))),
    },
    "executed": {
        "i": "batch_id", "k": "tickets", "n": "inference_ms", "e": "errors", "u": "counts", "d": "decode_ms",
    },
    "cancel_tickets": {"k": "tickets"},
}  # fmt: skip


def images(header: dict[str, Any]) -> Any:
    """Version 3 had the checksums in a list of their own."""
    heads, sums = header.get("m"), header.get("h")
    if not isinstance(heads, list):
        return heads
    known = isinstance(sums, list) and len(sums) == len(heads)
    found = [listed("camera", "encoding", "height", "width")(one) for one in heads]
    if known:
        return [
            {**one, "checksum": s} if isinstance(one, dict) else one
            for one, s in zip(found, sums, strict=True)
        ]
    return found


def in_version_4(header: dict[str, Any]) -> dict[str, Any]:
    kind = header["t"]
    found: dict[str, Any] = {"v": 4, "type": kind}
    for key, value in header.items():
        if key in TABLE[kind]:
            to = TABLE[kind][key]
            name, change = (to, None) if isinstance(to, str) else to
            found[name] = value if change is None else change(value)
        elif key not in ("v", "t", "#", *("m", "h") * (kind == "request")):
            found[key] = value
    if kind == "request" and "m" in header:
        found["images"] = images(header)
    return found


ODD = st.sampled_from(
    [None, True, False, -1, 0, 1, 2, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0.0, 0.5, 1e308, math.nan, math.inf,
     -math.inf, "", "x" * 129, "x" * 241, "x" * 66_000, "\u202e", "r1", "ok", "static", "jpeg", "done", b"", b"x" * 9,
     [],
     [[]], [1], [None] * 2000, ["<f4", [1], b"1234"], {}, {"": 1}, {"a": 1}, {"a": "b"},
     {"a": ["<f4", [1], b"1234"]},
     {"x" * 129: 1}, {str(n): n for n in range(100)}, {str(n): n for n in range(5000)}]
)  # fmt: skip


def places(value: Any, parts: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        if parts or key not in ("v", "t", "#"):
            found += [(*parts, key), *places(one, (*parts, key))]
    return found


def changed(header: dict[str, Any], place: tuple[Any, ...], odd: Any, removes: bool) -> None:
    owner: Any = header
    for key in place[:-1]:
        owner = owner[key]
    if removes:
        del owner[place[-1]]
    else:
        owner[place[-1]] = odd


def fine(message: m.Message) -> bool:
    return not both_ways(old, message)[0]


@settings(max_examples=examples(3000, 15_000))
@given(MESSAGES.filter(fine), st.data(), ODD, st.sampled_from([False, False, False, True]))
def test_a_header_that_is_changed_goes_the_same_way_in_both(
    message: m.Message, data: st.DataObject, odd: Any, removes: bool
) -> None:
    first, *rest = [bytes(frame) for frame in old.encode(message)]
    header = msgpack.unpackb(first)
    found = places(header)
    assume(found)
    place = data.draw(st.sampled_from(found))
    changed(header, place, odd, removes)
    header.pop("#", None)
    assume("t" in header)
    three, four = [pack(header), *rest], [pack(in_version_4(header)), *map(bytes, new.encode(message)[1:])]
    was, now = outcome(lambda: old.decode(three)), outcome(lambda: new.decode(four))
    event(f"{header['t']}: {now[0] or 'taken'}")
    check(was, now, message, place, odd)
    if header["t"] not in ("request",):

        def as_robot(codec: Any, frames: list[Any]) -> Any:
            return codec.decode_robot(codec.read_robot_header(frames), frames)

        check(
            outcome(lambda: as_robot(old, three)), outcome(lambda: as_robot(new, four)), message, place, odd
        )


def check(was: tuple[str, Any], now: tuple[str, Any], *what: Any) -> None:
    if was[0] != now[0]:
        # A checksum of a picture that is no whole number was a wrong checksum, and is a wrong field.
        assert (was[0], now[0]) == ("checksum_mismatch", "bad_field") and "checksum" in now[1], (
            was,
            now,
            what,
        )
    elif not was[0]:
        assert same(was[1], now[1]), (was, now, what)


@pytest.mark.parametrize("kind", sorted(new.KINDS))
def test_every_kind_is_translated(kind: str) -> None:
    names = {to if isinstance(to, str) else to[0] for to in TABLE[kind].values()}
    declared = {
        name
        for name, rule in schema.rules_of(new.KINDS[kind]).items()
        if not isinstance(rule, rules.InFrames)
    }
    assert names - {"frame_counts"} == declared
