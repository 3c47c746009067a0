"""Messages that are nearly right: what a robot sends, changed in one to three ways. One seed always makes the same."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np

from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.horizon import Horizon
from rosa_contract.wire.images import EncodedImage
from rosa_contract.wire.overlap import Overlap
from rosa_contract.wire.progress import OUTCOMES, Progress
from rosa_contract.wire.schema import rules_of
from rosa_contract.wire.status import ENDINGS, Audit, ComponentStatus, EndedCall, OpenAlert, TakenDecision

Frames = list[bytes]
ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    2**63 - 1,
    2**64 - 1,
    -(2**63),
    0.0,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x" * 200,
    "x" * 70_000,
    "\u0000\u202e\U0001f916",
    "r1",
    b"",
    b"\xff" * 100,
    [],
    [[]],
    [None] * 2000,
    {},
    {"": {}},
    {str(n): n for n in range(100)},
)
FRONT = EncodedImage("rgb8", 8, 8, bytes(8 * 8 * 3))
KEYS = ("v", "type", "#", "", *sorted({name for kind in codec.FROM_ROBOT for name in rules_of(kind)}))


def hello(robot: str) -> Frames:
    message = m.Hello(
        robot, "pick", {"front": m.CameraInfo(height=8, width=8, encoding="rgb8")}, {"joint_position": 7}
    )
    return [bytes(frame) for frame in codec.encode(message)]


def request(number: int, chance: random.Random) -> Frames:
    state = {"joint_position": np.zeros(7, np.float32)}
    call = m.Request(
        number,
        "system1",
        chance.choice((0.0, 5.0, 300.0)),
        "",
        state,
        {"front": FRONT},
        horizon=chance.choice((None, Horizon("static", steps=8), Horizon("threshold", t=0.4, min=2))),
        overlap=chance.choice((None, Overlap(np.zeros((3, 8), np.float32), 2, 0.05))),
        progress=chance.choice((None, Progress(chance.randrange(4), chance.randrange(9), 150.0, "pick"))),
    )
    return [bytes(frame) for frame in codec.encode(call)]


def status(chance: random.Random) -> m.Status:
    alert = OpenAlert(chance.randrange(99), "arm_fault", "the arm reports a fault", ("resume", "abort"))
    return m.Status(
        "waiting_for_human",
        "the arm reports a fault",
        components=[ComponentStatus("system1", 300.0, 80.0, 120.5, 9, 8, 1, 0, 0)],
        alert=chance.choice((None, alert)),
        calls=[EndedCall("system1", 7, chance.choice(ENDINGS), 80.0, 12.0)],
        decisions=[TakenDecision("stop_and_call_human", "arm_fault", "a fault", "", 30.0)],
        audits=[Audit(3, "resume", "anna", "it is clear", True, "", 5.0)],
    )


def valid(chance: random.Random) -> Frames:
    """Any message that a robot may send."""
    kind = chance.randrange(14)
    if kind < 5:
        return request(chance.randrange(1000), chance)
    if kind < 8:
        return hello(f"fuzz{chance.randrange(1000)}")
    ends = m.TaskEnds(chance.randrange(4), chance.choice(OUTCOMES))
    told = m.Decided(chance.randrange(9), chance.random() < 0.5, "alert_settled", "anna decided resume")
    small = (m.Bye(), m.HealthQuery(), m.Cancel(chance.randrange(1000)), ends, told, status(chance))
    return [bytes(frame) for frame in codec.encode(small[kind - 8])]


def mutated(chance: random.Random) -> Frames:
    """A message that is wrong somewhere, or happens to be right."""
    frames = valid(chance)
    for _ in range(chance.randint(1, 3)):
        frames = chance.choice(MUTATIONS)(frames, chance)
    return frames or [b""]


def summed(header: dict[str, Any]) -> bytes:
    """A header with a right checksum, whatever is in it."""
    header.pop("#", None)
    packed = msgpack.packb({**header, "#": 0xFFFFFFFF}, use_bin_type=True)[:-4]
    return bytes(packed) + zlib.crc32(packed).to_bytes(4, "big")


# -- mutations: (frames, chance) -> frames ----------------------------------------------------------------------------


def _flip(frames: Frames, chance: random.Random) -> Frames:
    index = chance.randrange(len(frames)) if frames else 0
    if not frames or not frames[index]:
        return frames
    data = bytearray(frames[index])
    for _ in range(chance.randint(1, 8)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return [*frames[:index], bytes(data), *frames[index + 1 :]]


def _cut(frames: Frames, chance: random.Random) -> Frames:
    index = chance.randrange(len(frames)) if frames else 0
    return [f[: chance.randrange(len(f) + 1)] if at == index else f for at, f in enumerate(frames)]


def _lengthen(frames: Frames, chance: random.Random) -> Frames:
    index = chance.randrange(len(frames)) if frames else 0
    more = chance.choice((1, 255, 256, 60_000, 200_000))
    return [f + bytes(more) if at == index else f for at, f in enumerate(frames)]


def _drop(frames: Frames, chance: random.Random) -> Frames:
    index = chance.randrange(len(frames)) if frames else 0
    return frames[:index] + frames[index + 1 :]


def _double(frames: Frames, chance: random.Random) -> Frames:
    return (frames * chance.choice((2, 3, 20, 200)))[:1000]


def _shuffle(frames: Frames, chance: random.Random) -> Frames:
    return chance.sample(frames, len(frames))


def _field(frames: Frames, chance: random.Random) -> Frames:
    """One value of the header is another one; the checksum is right."""
    header = _header(frames)
    header[chance.choice(KEYS)] = chance.choice(ODD)
    return [summed(header), *frames[1:]]


def _inner(frames: Frames, chance: random.Random) -> Frames:
    """A value deep in the header is another one; the checksum is right."""
    header = _header(frames)
    places: list[tuple[Any, Any]] = []

    def collect(value: Any) -> None:
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for key, entry in list(entries):
            places.append((value, key))
            if isinstance(entry, dict | list) and len(places) < 100:
                collect(entry)

    collect(header)
    if places:
        owner, key = chance.choice(places)
        owner[key] = chance.choice(ODD)
    return [summed(header), *frames[1:]]


def _remove(frames: Frames, chance: random.Random) -> Frames:
    header = _header(frames)
    if header:
        header.pop(chance.choice(list(header)))
    return [summed(header), *frames[1:]]


def _other_side(frames: Frames, chance: random.Random) -> Frames:
    """What only gateways and workers say."""
    kinds = (
        "welcome",
        "refuse",
        "response",
        "health_report",
        "worker_ready",
        "execute",
        "executed",
        "drain",
        "x",
    )
    return [summed({**_header(frames), "type": chance.choice(kinds)}), *frames[1:]]


def _nest(frames: Frames, chance: random.Random) -> Frames:
    depth = chance.choice((3, 100, 600, 5000))
    return [
        b"\x84\xa1v\x04\xa4type\xa5hello\xa8robot_id" + b"\x91" * depth + b"\xc0\xa1#\xce\x00\x00\x00\x00",
        *frames[1:],
    ]


def _header(frames: Frames) -> dict[str, Any]:
    try:
        header = msgpack.unpackb(frames[0], strict_map_key=False)
    except Exception:  # mutated before
        return {"v": m.SCHEMA_VERSION, "type": "request"}
    return header if isinstance(header, dict) else {"v": m.SCHEMA_VERSION, "type": "hello"}


Mutation = Callable[[Frames, random.Random], Frames]
MUTATIONS: tuple[Mutation, ...] = (
    _flip,
    _flip,
    _cut,
    _lengthen,
    _drop,
    _double,
    _shuffle,
    _field,
    _field,
    _inner,
    _inner,
    _remove,
    _other_side,
    _nest,
)
