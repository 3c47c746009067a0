"""The codec that was not chosen: msgspec structs made of the same declarations, for `wire.py` to measure.

Bounds of numbers, texts and lists are msgspec's own; names, arrays, pictures and checksums are checked as in the codec.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from types import GenericAlias
from typing import Annotated, Any

import msgspec

from rosa_contract.errors import CodecError, VersionError
from rosa_contract.wire import codec, containers, rules, schema
from rosa_contract.wire import messages as m
from rosa_contract.wire.bounds import MAX_NAME_CHARS
from rosa_contract.wire.messages import ImageHead
from rosa_contract.wire.packing import SUM_BYTES, image_sum, pack_arrays, unpack_array

PACKED = tuple[str, list[Annotated[int, msgspec.Meta(ge=0)]], bytes]


def type_of(rule: rules.Rule) -> Any:
    """What msgspec checks by itself of what a rule says."""
    match rule:
        case rules.Name():
            return Annotated[
                str, msgspec.Meta(min_length=1, max_length=MAX_NAME_CHARS, pattern=r"^[^\x00-\x1f\x7f]*$")
            ]
        case rules.Text():
            limit = {} if rule.max_chars is None else {"max_length": rule.max_chars}
            return Annotated[str, msgspec.Meta(min_length=rule.min_chars, **limit)]
        case rules.Choice():
            return Annotated[
                str, msgspec.Meta(pattern=f"^({'|'.join(rule.words)}{'|' if rule.empty else ''})$")
            ]
        case rules.Whole(low, high):
            return Annotated[int, msgspec.Meta(ge=low, le=high)]
        case rules.Side():
            return Annotated[int, msgspec.Meta(ge=1, le=4096)]
        case rules.Number(low, high):
            return Annotated[float, msgspec.Meta(ge=low, le=high)]
        case rules.Flag():
            return bool
        case containers.Array():
            return PACKED
        case containers.Arrays():
            return dict[str, PACKED]
        case containers.Map():
            return Annotated[
                GenericAlias(dict, (str, type_of(rule.rule))), msgspec.Meta(max_length=rule.max_entries)
            ]
        case containers.Several():
            return Annotated[
                GenericAlias(list, type_of(rule.rule)), msgspec.Meta(max_length=rule.max_entries)
            ]
        case containers.Pair():
            return GenericAlias(tuple, (type_of(rule.first), type_of(rule.second)))
        case schema.Object():
            return struct(rule.of)
    raise TypeError(rule)


def struct(kind: type[Any], head: Sequence[Any] = (), tail: Sequence[Any] = ()) -> type[msgspec.Struct]:
    fields: list[Any] = []
    for name, rule in schema.rules_of(kind).items():
        if isinstance(rule, rules.InFrames):
            continue
        field = kind.__dataclass_fields__[name]
        wanted = type_of(rule)
        if field.metadata["always"] or (field.default is field.default_factory):
            fields.append((name, wanted))
        elif field.default is None:
            fields.append((name, wanted | None, None))
        elif isinstance(rule, containers.Map | containers.Arrays | containers.Several):
            made = list if isinstance(rule, containers.Several) else dict
            fields.append((name, wanted, msgspec.field(default_factory=made)))
        else:
            fields.append((name, wanted, field.default))
    made_of = [*head, *fields, *tail]
    defined: type[msgspec.Struct] = msgspec.defstruct(
        kind.__name__, made_of, frozen=True, omit_defaults=True, kw_only=True
    )
    return defined


class Head(msgspec.Struct):  # type: ignore[misc,unused-ignore]  # it has types where it is installed
    v: Any
    type: str


FRAMED: dict[type[Any], list[Any]] = {
    m.Request: [("images", Annotated[GenericAlias(list, struct(ImageHead)), msgspec.Meta(max_length=16)])],
    m.Execute: [("frame_counts", list[Annotated[int, msgspec.Meta(ge=1, le=17)]])],
}
HEAD, TAIL = [("v", int), ("type", str)], [("checksum_", int, msgspec.field(name="#"))]
NAMES = {kind: name for name, kind in codec.KINDS.items()}
STRUCTS = {kind: struct(kind, [*HEAD, *FRAMED.get(kind, ())], TAIL) for kind in NAMES}
DECODERS = {name: (kind, msgspec.msgpack.Decoder(STRUCTS[kind])) for name, kind in codec.KINDS.items()}
HEADS, PACKER = msgspec.msgpack.Decoder(Head), msgspec.msgpack.Encoder()
IMAGE, OUTPUT = struct(ImageHead), struct(m.Output, (), TAIL)
OUTPUTS = msgspec.msgpack.Decoder(OUTPUT)


def encode(message: m.Message) -> list[Any]:
    """The frames of a message: as the codec's, but for the order of what is in the header."""
    kind = type(message)
    names = [name for name, rule in schema.rules_of(kind).items() if not isinstance(rule, rules.InFrames)]
    values = {name: getattr(message, name) for name in names}
    frames: list[Any] = []
    if isinstance(message, m.Request):
        values["state"] = pack_arrays(message.state)
        values["images"] = [
            IMAGE(
                camera=name,
                encoding=one.encoding,
                height=one.height,
                width=one.width,
                checksum=image_sum(one.encoding, one.data),
            )
            for name, one in message.images.items()
        ]
        frames = [image.data for image in message.images.values()]
    elif isinstance(message, m.Execute):
        values["frame_counts"] = [len(one) for one in message.frames]
        frames = [frame for one in message.frames for frame in one]
    elif isinstance(message, m.Executed):
        frames = list(message.outputs)
    elif isinstance(message, m.Response) and message.output is not None:
        output = message.output
        told = {name: getattr(output, name) for name in ("verdict", "text", "horizon", "horizon_reason")}
        frames = [_summed(OUTPUT(arrays=pack_arrays(output.arrays), checksum_=0xFFFFFFFF, **told))]
    whole = STRUCTS[kind](v=m.SCHEMA_VERSION, type=NAMES[kind], checksum_=0xFFFFFFFF, **values)
    return [_summed(whole), *frames]


def _summed(value: msgspec.Struct) -> bytes:
    packed: bytes = PACKER.encode(value)[:-SUM_BYTES]
    return packed + zlib.crc32(packed).to_bytes(SUM_BYTES, "big")


def decode(frames: list[Any]) -> Any:
    """The message as a struct. Raises `CodecError` and msgspec's own errors."""
    head = HEADS.decode(frames[0])
    if head.v != m.SCHEMA_VERSION:
        raise VersionError(head.v, m.SCHEMA_VERSION)
    kind, decoder = DECODERS[head.type]
    found: Any = decoder.decode(frames[0])
    _check(frames[0], found.checksum_)
    if kind is m.Request:
        for name, entry in found.state.items():
            found.state[name] = unpack_array(name, list(entry))
        for one, frame in zip(found.images, frames[1:], strict=True):
            if image_sum(one.encoding, frame) != one.checksum:
                raise CodecError("checksum_mismatch", "image")
    elif kind is m.Response and found.status == m.OK:
        output: Any = OUTPUTS.decode(frames[1])
        _check(frames[1], output.checksum_)
        return found, {name: unpack_array(name, list(entry)) for name, entry in output.arrays.items()}
    return found


def _check(frame: Any, told: int) -> None:
    if zlib.crc32(memoryview(frame)[:-SUM_BYTES]) != told:
        raise CodecError("checksum_mismatch", "header")
