"""What gateways say to each other <-> ZeroMQ frames, as `rosa_contract/wire/codec.py` has it for robots and workers.

Frame 0 is a msgpack header with version, type and checksum; the frames of a forwarded request follow as its robot sent
them, and that of an answer as its worker made it. Whatever the bytes, decoding raises nothing but `CodecError`. The
messages are declared in `peering.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rosa_contract.errors import CodecError, VersionError
from rosa_contract.wire.bounds import MAX_IMAGES, MAX_ROBOTS
from rosa_contract.wire.framed import check_count
from rosa_contract.wire.messages import SCHEMA_VERSION
from rosa_contract.wire.packing import SUM, Frame, buffer, check_sum, sealed, short, unpack
from rosa_contract.wire.schema import map_writer, rules_of, unknown_keys, values_reader
from rosa_server.plan.fleet_plan import plan_bytes, plan_from
from rosa_server.plan.peering import (
    Beat,
    Forward,
    ForwardCancel,
    Forwarded,
    PeerHello,
    PeerOrder,
    PeerOrderTold,
    PeerPlan,
    ToDesk,
    ToPeer,
)

MAX_PEER_HEADER_BYTES = 8 << 20  # a beat names every slot that its gateway gives out
MAX_PEER_FRAMES = MAX_IMAGES + 2  # the header, and the request that it forwards
VERSION, TYPE = "v", "type"

PEER_KINDS: Mapping[str, type[Any]] = {
    "peer_hello": PeerHello,
    "beat": Beat,
    "forward": Forward,
    "forwarded": Forwarded,
    "forward_cancel": ForwardCancel,
    "peer_plan": PeerPlan,
    "peer_order": PeerOrder,
    "peer_order_told": PeerOrderTold,
}
_NAMES = {kind: name for name, kind in PEER_KINDS.items()}
_WRITERS = {kind: map_writer(kind) for kind in PEER_KINDS.values()}
_READERS = {name: values_reader(kind) for name, kind in PEER_KINDS.items()}
_KEYS = {name: frozenset({VERSION, TYPE, SUM, *rules_of(kind)}) for name, kind in PEER_KINDS.items()}


def encode_peer(message: PeerHello | ToPeer | ToDesk) -> list[Frame]:
    """The frames of a message. Raises `CodecError` for non-finite numbers."""
    kind = type(message)
    header = sealed({VERSION: SCHEMA_VERSION, TYPE: _NAMES[kind], **_WRITERS[kind](message)})
    if isinstance(message, Forward):
        return [header, *message.frames]
    if isinstance(message, Forwarded) and message.output is not None:
        return [header, message.output]
    if isinstance(message, PeerPlan):
        return [header, plan_bytes(message.plan)]
    return [header]


def decode_peer(frames: Sequence[Frame]) -> PeerHello | ToPeer | ToDesk:
    """The message in `frames`. Raises `CodecError` (`VersionError` for another schema) and nothing else."""
    if not frames:
        raise CodecError("wrong_frame_count", "empty message: expected a header frame")
    header = unpack(frames[0], "gateway", MAX_PEER_HEADER_BYTES, MAX_ROBOTS)
    check_sum(frames[0], header, "gateway")
    version = header.get(VERSION)
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise VersionError(version, SCHEMA_VERSION)
    name = header.get(TYPE)
    known = _KEYS.get(name) if isinstance(name, str) else None
    if known is None or not isinstance(name, str):
        words = f"gateway: expected one of {', '.join(PEER_KINDS)}, got {short(name)}"
        raise CodecError("unexpected_message", words)
    if not header.keys() <= known:
        raise CodecError("bad_field", f"{name}: unknown key: {unknown_keys(header, known)}")
    values = _READERS[name](header)
    if name == "forward":
        if not 2 <= len(frames) <= MAX_PEER_FRAMES:
            words = f"forward: expected 2 to {MAX_PEER_FRAMES} frames, got {len(frames)}"
            raise CodecError("wrong_frame_count", words)
        return Forward(frames=frames[1:], **values)
    if name == "forwarded":
        return _forwarded(values, frames)
    if name == "peer_plan":
        check_count(frames, 2, name)
        return PeerPlan(plan_from(buffer(frames[1])))
    check_count(frames, 1, name)
    message: PeerHello | ToPeer | ToDesk = PEER_KINDS[name](**values)
    return message


def _forwarded(values: Mapping[str, Any], frames: Sequence[Frame]) -> Forwarded:
    """An answer has an output, a cause, or the reason why it was not taken: one of the three."""
    if values["not_taken"] and values["cause"]:
        raise CodecError("bad_field", "forwarded: what was not taken did not end, either")
    runs = not values["not_taken"] and not values["cause"]
    check_count(frames, 1 + runs, "forwarded")
    return Forwarded(output=frames[1] if runs else None, **values)
