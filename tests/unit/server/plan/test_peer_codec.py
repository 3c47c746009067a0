"""What gateways say to each other arrives as it was said, and nothing else is understood."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgpack
import pytest

from rosa_contract.errors import CodecError, VersionError
from rosa_contract.wire import codec
from rosa_contract.wire.messages import WorkerReady
from rosa_contract.wire.packing import SUM, pack
from rosa_server.plan.peer_codec import MAX_PEER_FRAMES, MAX_PEER_HEADER_BYTES, decode_peer, encode_peer
from rosa_server.plan.peering import (
    Beat,
    Forward,
    ForwardCancel,
    Forwarded,
    PeerHello,
    PeerOrder,
    PeerOrderTold,
    ToDesk,
    ToPeer,
)
from tests.unit.server.serving.core.stage import request

READY = WorkerReady("gpu1/0.1", "policy", 4, {"front": (8, 8)}, {"joint_position": 7}, epoch=1)
FRAMES = tuple(bytes(frame) for frame in codec.encode(request(7, "system1", 300.0)))
FORWARD = Forward(
    3, "a1", 1, 12, 7, "r1", "system1", "pick", "gpu1", 250.5, 1.25, True, "a/a1/12:5", FRAMES, "b1"
)
MESSAGES: tuple[PeerHello | ToPeer | ToDesk, ...] = (
    PeerHello("a", "a1", "f" * 64),
    Beat("a", "a1", 1, 5, 4, 12.5, [READY], {"pick/0": (2, "r1"), "pick/1": (1, "")}, {"pick/2": (1, "r2")}),
    Beat("a", "a1", 0, 1, 0),
    FORWARD,
    Forwarded(3, "a1", 1, 12, 7, "", "", "", 20.5, 4, b"output"),
    Forwarded(3, "a1", 1, 12, 7, "", "model_error", "it raised", 20.5, 4),
    Forwarded(3, "a1", 2, 12, 7, "old_epoch"),
    ForwardCancel("a1", [1, 2, 3]),
    PeerOrder(4, "rollout", "policy", "/weights/new", "jan"),
    PeerOrderTold(4, False, "", "policy/0.2 starts"),
    PeerOrderTold(4, True, "worse", "the old weights serve on"),
)


def changed(message: PeerHello | ToPeer | ToDesk, **values: Any) -> list[bytes]:
    """The frames of a message with other values in its header, which None takes out."""
    frames = encode_peer(message)
    header = {**msgpack.unpackb(frames[0]), **values}
    del header[SUM]
    return [pack({key: value for key, value in header.items() if value is not None}), *frames[1:]]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda one: type(one).__name__)
def test_each_message_arrives_as_it_was_said(message: PeerHello | ToPeer | ToDesk) -> None:
    arrived: Any = decode_peer(encode_peer(message))
    assert type(arrived) is type(message)
    if isinstance(message, Forward):
        assert tuple(arrived.frames) == FRAMES
        arrived = replace(arrived, frames=FRAMES)
    if isinstance(message, Beat):
        arrived = replace(arrived, warm=list(arrived.warm))
        message = replace(message, warm=list(message.warm))
    assert arrived == message


@pytest.mark.parametrize(
    ("message", "values"),
    [
        (MESSAGES[0], {"schedule": ""}),
        (MESSAGES[0], {"life": "x" * 129}),
        (MESSAGES[1], {"epoch": -1}),
        (MESSAGES[1], {"grants": {"pick/0": [1]}}),
        (MESSAGES[1], {"grants": {"pick/0": [1, "r" * 129]}}),
        (MESSAGES[1], {"warm": [{"worker_id": "w"}]}),
        (MESSAGES[1], {"held_ms": float("nan")}),
        (FORWARD, {"budget_ms": -1.0}),
        (FORWARD, {"budget_ms": 1e9}),
        (FORWARD, {"over_rate": 1}),
        (FORWARD, {"robot_id": "two\nlines"}),
        (FORWARD, {"number": None}),
        (FORWARD, {"stranger": 1}),
        (MESSAGES[4], {"not_taken": "not_warm", "cause": "model_error"}),
        (MESSAGES[6], {"not_taken": "no_such_word"}),
        (MESSAGES[5], {"cause": "no_such_cause"}),
        (MESSAGES[4], {"batch_size": 1 << 20}),
        (MESSAGES[7], {"numbers": [1, "2"]}),
        (MESSAGES[7], {"type": "welcome"}),
        (MESSAGES[7], {"type": ["beat"]}),
    ],
)
def test_a_value_out_of_its_bounds_is_refused(
    message: PeerHello | ToPeer | ToDesk, values: dict[str, Any]
) -> None:
    with pytest.raises(CodecError):
        decode_peer(changed(message, **values))


def test_frames_that_do_not_belong_to_their_message_are_refused() -> None:
    header = encode_peer(FORWARD)[:1]
    answered = encode_peer(MESSAGES[4])
    for frames in (
        [],
        header,
        [*header, *[b""] * MAX_PEER_FRAMES],
        answered[:1],
        [*answered, b""],
        [*encode_peer(MESSAGES[6]), b"output"],
        [*encode_peer(MESSAGES[0]), b""],
    ):
        with pytest.raises(CodecError) as error:
            decode_peer(frames)
        assert error.value.cause == "wrong_frame_count"


def test_another_version_damage_and_a_header_without_end_are_refused() -> None:
    with pytest.raises(VersionError):
        decode_peer(changed(MESSAGES[0], v=999))
    frames = encode_peer(FORWARD)
    damaged = bytearray(frames[0])
    damaged[-8] ^= 1
    for frame, cause in (
        (bytes(damaged), "checksum_mismatch"),
        (bytes(MAX_PEER_HEADER_BYTES + 1), "too_large"),
        (b"\xc1", "not_msgpack"),
    ):
        with pytest.raises(CodecError) as error:
            decode_peer([frame, *frames[1:]])
        assert error.value.cause == cause
    with pytest.raises(CodecError):
        encode_peer(replace(FORWARD, budget_ms=float("inf")))
