"""The wire: what goes in comes out, and no bytes whatever raise anything but the contract's own error."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_contract import codec
from rosa_contract import messages as m
from rosa_contract.errors import CODEC_CAUSES, CodecError, VersionError
from rosa_contract.horizon import Horizon
from rosa_contract.images import EncodedImage, decode_image, encode_image
from rosa_contract.overlap import Overlap
from rosa_contract.wire.decoders import DECODERS
from rosa_contract.wire.packing import pack
from tests.examples import examples

RNG = np.random.default_rng(0)
PICTURE = RNG.integers(0, 255, (96, 128, 3), dtype=np.uint8)


def request(encoding: str = "jpeg") -> m.Request:
    return m.Request(
        request_id=7,
        component="system1",
        budget_ms=200.0,
        prompt="pick the cube",
        state={
            "joint_position": np.arange(7, dtype=np.float32),
            "gripper_width": np.array([0.08], np.float32),
        },
        images={"front": encode_image(PICTURE, encoding), "wrist": encode_image(PICTURE, encoding)},
    )


MESSAGES: list[m.Message] = [
    m.Hello("panda0", "pick", {"front": m.CameraInfo(96, 128, "jpeg")}, {"joint_position": 7}),
    m.Welcome({"system1": "rosa/policy"}),
    m.Refused("unknown_task", "no task 'pik'"),
    m.Welcome({"system1": "policy"}, {"system1": 2.0}, {"system1": ("front",)}, "token"),
    m.Welcome({"system1": "policy"}, {"system1": 2.0}, {}, "token", 1.0, {"system1": 250.0}),
    m.Hello("r1", "pick", {}, {}, "token"),
    m.Bye(),
    request(),
    replace(request(), horizon=Horizon("threshold", t=0.4, min=2, max=12)),
    replace(request(), horizon=Horizon("static", steps=8)),
    replace(request(), observation=(1 << 63) - 1),
    replace(request(), overlap=Overlap(np.arange(24, dtype=np.float32).reshape(3, 8), 2, 0.05)),
    m.Response(7, m.OK, "", "", 1.0, 2.0, 4, m.Output({"actions": np.ones((16, 8), np.float32)}, "", "")),
    m.Response(
        7,
        m.OK,
        output=m.Output({"actions": np.ones((16, 8), np.float32)}, horizon=4, horizon_reason="5: 1.6"),
    ),
    m.Response(7, m.EXPIRED, "budget_spent", "spent 3 ms too much"),
    m.Welcome({"system1": "policy"}, cancels=True),
    m.Cancel((1 << 63) - 1),
    m.Response(7, m.CANCELLED, "cancelled", "its robot cancelled it"),
    m.HealthQuery(),
    m.HealthReport(True, {"w0": "ready"}, {"rosa/policy": 3}, ["panda0"]),
    m.WorkerReady("w0", "rosa/policy", 8, {"front": (96, 128)}, {"joint_position": 7}),
    m.WorkerReady("w0", "rosa/policy", 8, {}, {}, at_once=8, shares=True),
    m.Execute(3, [1, 2], [codec.encode(request()), codec.encode(request())]),
    m.Execute(3, [1], [codec.encode(request())], [m.Sender("panda0", 120.5, 3.25, "4:17")]),
    m.Executed(3, [1, 2], 12.5, [("", ""), ("bad_output", "NaN")], [codec.encode_output(m.Output()), b""]),
    m.Executed(3, [1], 12.5, [("", "")], [b""], {"prefills": 3, "held_bytes": 1 << 40}),
    m.CancelTickets([3, 4]),
    m.Drain(),
]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, bytes | bytearray | memoryview):
        return bytes(a) == bytes(b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if hasattr(a, "__dataclass_fields__"):
        return type(a) is type(b) and all(same(getattr(a, n), getattr(b, n)) for n in a.__dataclass_fields__)
    return bool(a == b)


@contextlib.contextmanager
def refused(cause: str, words: str | None = None) -> Iterator[None]:
    """The contract's error for this cause."""
    with pytest.raises(CodecError, match=words) as error:
        yield
    assert error.value.cause == cause


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_message_survives_the_wire(message: m.Message) -> None:
    frames = [bytes(frame) for frame in codec.encode(message)]
    assert same(codec.decode(frames), message)


@pytest.mark.parametrize("encoding", ["png", "rgb8"])
def test_lossless_images_come_back_exactly(encoding: str) -> None:
    frames = codec.encode(request(encoding))
    received = codec.decode(frames)
    assert isinstance(received, m.Request)
    assert np.array_equal(decode_image(received.images["front"]), PICTURE)


def test_jpeg_images_come_back_nearly() -> None:
    smooth = np.linspace(0, 255, 96 * 128 * 3).reshape(96, 128, 3).astype(np.uint8)
    back = decode_image(encode_image(smooth, "jpeg", 95))
    assert np.abs(back.astype(int) - smooth).mean() < 4


def test_an_image_is_a_frame_of_its_own_and_never_in_the_header() -> None:
    frames = codec.encode(request("rgb8"))
    assert [len(frame) for frame in frames[1:]] == [PICTURE.nbytes, PICTURE.nbytes]
    assert len(frames[0]) < 500


@pytest.mark.parametrize("version", [0, 1, 3, "2", None, True])
def test_another_schema_version_is_named_on_both_sides(version: object) -> None:
    raw = msgpack.packb({"v": version, "t": "bye"})
    with pytest.raises(VersionError, match=r"the peer speaks .*, this side speaks 2") as error:
        codec.decode([raw])
    assert error.value.cause == "version_mismatch"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_non_finite_numbers_are_refused_at_both_ends(value: float) -> None:
    array = np.zeros(7, np.float32)
    array[3] = value
    with refused("not_finite"):
        codec.encode(m.Request(1, "system1", 1.0, state={"joint_position": array}))
    with refused("not_finite"):
        codec.encode_output(m.Output({"actions": array}))
    smuggled = pack({"a": {"actions": ["<f4", [7], array.tobytes()]}})
    with refused("not_finite"):
        codec.decode_output(smuggled)


def test_object_arrays_are_refused_at_both_ends() -> None:
    with refused("bad_array"):
        codec.encode_output(m.Output({"actions": np.array([object()])}))
    with refused("bad_array"):
        codec.decode_output(pack({"a": {"actions": ["|O", [1], b"12345678"]}}))


def test_an_image_that_is_larger_than_announced_is_refused_before_it_is_expanded() -> None:
    huge = bytearray(encode_image(PICTURE, "png").data)
    huge[16:24] = (60_000).to_bytes(4, "big") * 2
    with refused("bad_image", r"announced as .* its bytes say \(60000, 60000\)"):
        decode_image(EncodedImage("png", 96, 128, bytes(huge)))


def test_not_one_changed_bit_passes() -> None:
    """Whatever the bit does to the text of the message: in a header, an output, a compressed picture."""
    rng = random.Random(3)
    output = codec.encode_output(m.Output({"actions": np.zeros((16, 8), np.float32)}, "done", "a plan"))
    for _ in range(2000):
        frames = [bytes(frame) for frame in codec.encode(request("jpeg"))]
        index = rng.randrange(len(frames))
        at, bit = rng.randrange(len(frames[index])), 1 << rng.randrange(8)
        frames[index] = frames[index][:at] + bytes([frames[index][at] ^ bit]) + frames[index][at + 1 :]
        with pytest.raises(CodecError):
            codec.decode(frames)
        at = rng.randrange(len(output))
        with pytest.raises(CodecError):
            codec.decode_output(output[:at] + bytes([output[at] ^ bit]) + output[at + 1 :])


def test_damage_is_called_damage_and_not_another_version() -> None:
    header = bytes(codec.encode(m.Bye())[0])
    at = header.index(b"\xa1v") + 2  # the version itself
    with refused("checksum_mismatch"):
        codec.decode([header[:at] + b"\x03" + header[at + 1 :]])
    with refused("checksum_mismatch", "no checksum"):
        codec.decode([msgpack.packb({"v": m.SCHEMA_VERSION, "t": "bye"})])


@pytest.mark.parametrize(
    ("status", "cause"),
    [(m.OK, "no_worker"), (m.EXPIRED, ""), (m.EXPIRED, "no_worker"), (m.FAILED, "bad luck")],
)
def test_a_response_has_a_cause_of_its_status_or_is_refused_at_both_ends(status: str, cause: str) -> None:
    output = m.Output() if status == m.OK else None
    with refused("bad_field"):
        codec.encode(m.Response(7, status, cause, output=output))
    frames = [codec.response_header(7, status, cause, "", 0.0, 0.0, 0)]
    with refused("bad_field"):
        codec.decode(frames + [codec.encode_output(m.Output())] * (status == m.OK))


def test_every_cause_belongs_to_one_status_that_is_not_ok() -> None:
    assert set(m.CAUSES.values()) == set(m.STATUSES) - {m.OK}
    assert set(CODEC_CAUSES) <= set(m.CAUSES)
    assert set(CODEC_CAUSES) <= set(m.REFUSALS)


def test_a_cause_that_is_on_no_list_cannot_be_given() -> None:
    with pytest.raises(ValueError, match="expected one of"):
        m.Refused("because", "of this")
    with pytest.raises(ValueError, match="expected one of"):
        CodecError("because", "of this")
    with refused("bad_field"):
        codec.decode([pack({"v": m.SCHEMA_VERSION, "t": "refused", "c": "because", "r": ""})])
    with refused("bad_field"):
        fields = {"i": 3, "k": [1], "n": 1.0, "e": [["because", ""]]}
        codec.decode([pack({"v": m.SCHEMA_VERSION, "t": "executed", **fields}), b""])


def test_an_oversized_header_is_refused_by_its_length() -> None:
    with refused("too_large"):
        codec.decode([b"\x81" + b"\x00" * (codec.MAX_HEADER_BYTES + 1)])


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({"t": "health_query", "z": [{}] * 20_000}, "not msgpack"),
        ({"t": "health_query", "z": 1}, "unknown key"),
        ({"t": "request", "i": 1, "x": 1}, "unknown key"),
        ({"t": "welcome"}, "does not send"),
        ({"t": "execute", "k": []}, "does not send"),
        ({"t": "hello", "p": "x" * 70_000}, "at most 65536 bytes"),
        ({"t": "hello", "c": {f"c{n}": n for n in range(2000)}}, "not msgpack"),
    ],
)
def test_a_robots_header_is_bounded_in_every_way(header: dict[str, Any], words: str) -> None:
    with pytest.raises(CodecError, match=words):
        codec.read_robot_header([pack({"v": m.SCHEMA_VERSION, **header})])


def test_a_robots_header_of_a_thousand_levels_is_no_problem() -> None:
    deep = pack({"v": m.SCHEMA_VERSION, "t": "hello", "r": None})
    with pytest.raises(CodecError):
        codec.read_robot_header([deep.replace(b"\xa1r\xc0", b"\xa1r" + b"\x91" * 1000 + b"\xc0")])


def test_what_robots_send_is_read_with_every_key_of_it() -> None:
    hello = m.Hello("r1", "pick", {"front": m.CameraInfo(8, 8, "rgb8")}, {"joint_position": 7}, "token")
    for message in (hello, m.Bye(), m.HealthQuery()):
        frames = codec.encode(message)
        assert codec.decode_robot(codec.read_robot_header(frames), frames) == message
    assert codec.read_robot_header(codec.encode(request()))["t"] == "request"


def _only_codec_errors(frames: list[bytes]) -> None:
    try:
        message = codec.decode(frames)
    except CodecError as error:
        assert str(error)
        return
    if isinstance(message, m.Request):
        for image in message.images.values():
            with contextlib.suppress(CodecError):
                assert decode_image(image).shape == (image.height, image.width, 3)


def test_ten_thousand_damaged_messages_raise_nothing_but_codec_errors() -> None:
    """Real messages with bits flipped, bytes cut, frames dropped, doubled, swapped or replaced by noise."""
    rng = random.Random(1)
    originals = [[bytes(frame) for frame in codec.encode(message)] for message in MESSAGES]
    for _ in range(10_000):
        frames = list(rng.choice(originals))
        for _ in range(rng.randint(1, 3)):
            if not frames:
                break
            index = rng.randrange(len(frames))
            frame = bytearray(frames[index])
            kind = rng.randrange(6)
            if kind == 0 and frame:
                frame[rng.randrange(len(frame))] ^= 1 << rng.randrange(8)
                frames[index] = bytes(frame)
            elif kind == 1:
                frames[index] = bytes(frame[: rng.randrange(len(frame) + 1)])
            elif kind == 2:
                del frames[index]
            elif kind == 3:
                frames.insert(rng.randrange(len(frames) + 1), bytes(frame))
            elif kind == 4:
                frames[index] = rng.randbytes(rng.randrange(64))
            else:
                rng.shuffle(frames)
        _only_codec_errors(frames)


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats()
    | st.text(max_size=6)
    | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)
kinds = st.sampled_from(sorted(DECODERS))
keys = st.sampled_from(list("ribcpsmkntwoqexza"))


@pytest.mark.prove
@settings(max_examples=examples(500, 3000), deadline=None)
@given(kinds, st.dictionaries(keys, plain, max_size=8), st.lists(st.binary(max_size=20), max_size=3))
def test_well_formed_headers_with_absurd_fields_raise_nothing_else(
    kind: str, fields: dict[str, Any], rest: list[bytes]
) -> None:
    """500 headers; 3,000 in `make prove`."""
    try:
        header = pack({**fields, "v": m.SCHEMA_VERSION, "t": kind})
    except CodecError:
        return  # not encodable, so nobody can send it
    _only_codec_errors([header, *rest])


@settings(max_examples=2000, deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=4))
def test_noise_raises_nothing_else(frames: list[bytes]) -> None:
    _only_codec_errors(frames)


@settings(max_examples=1000, deadline=None)
@given(
    st.sampled_from(["jpeg", "png", "rgb8"]),
    st.binary(max_size=400),
    st.integers(-1, 5000),
    st.integers(-1, 5000),
)
def test_no_image_bytes_raise_anything_else(encoding: str, data: bytes, height: int, width: int) -> None:
    try:
        decode_image(EncodedImage(encoding, height, width, data))
    except CodecError as error:
        assert str(error)


@pytest.mark.parametrize(
    "entry",
    [
        "threshold",
        ["threshold", None, 0.4, 2],
        ["threshold", None, None, 2, None],
        ["threshold", None, float("nan"), 2, None],
        ["threshold", None, 0.4, 9, 4],
        ["static", 0, None, None, None],
        ["static", 10**6, None, None, None],
        ["static", True, None, None, None],
        ["x" * 65, None, None, None, None],
        [["static"], 8, None, None, None],
    ],
)
def test_a_request_with_an_impossible_horizon_policy_is_refused(entry: Any) -> None:
    frames = codec.encode(replace(request(), horizon=Horizon("static", steps=8)))
    header = {key: value for key, value in msgpack.unpackb(frames[0]).items() if key != "#"}
    with refused("bad_field", "^request: "):
        codec.decode([pack({**header, "z": entry}), *frames[1:]])


@pytest.mark.parametrize("entry", [8, [8], [-1, ""], [2000, ""], [8.0, ""], [8, 5], [8, "x" * 301]])
def test_an_output_with_an_impossible_horizon_is_refused(entry: Any) -> None:
    with refused("bad_field"):
        codec.decode_output(pack({"a": {}, "w": "", "x": "", "z": entry}))


ROWS = np.zeros((3, 8), np.float32)


def packed_rows(rows: np.ndarray) -> list[Any]:
    return [rows.dtype.str, list(rows.shape), rows.tobytes()]


@pytest.mark.parametrize(
    ("entry", "cause"),
    [
        ([2, 0.05], "bad_field"),
        ([0, 0.05, packed_rows(ROWS)], "bad_field"),
        ([4, 0.05, packed_rows(ROWS)], "bad_field"),
        ([2, 0.0, packed_rows(ROWS)], "bad_field"),
        ([2, float("inf"), packed_rows(ROWS)], "bad_field"),
        ([2, 0.05, packed_rows(ROWS[0])], "bad_field"),
        ([2, 0.05, packed_rows(ROWS.astype(np.int32))], "bad_field"),
        ([2, 0.05, packed_rows(np.zeros((257, 8), np.float32))], "bad_field"),
        ([2, 0.05, packed_rows(np.zeros((3, 65), np.float32))], "bad_field"),
        ([2, 0.05, packed_rows(np.zeros((129, 64), np.float32))], "bad_field"),
        ([2, 0.05, packed_rows(np.full((3, 8), np.nan, np.float32))], "not_finite"),
        ([2, 0.05, ["<f4", [3, 8], b"short"]], "bad_array"),
    ],
)
def test_a_request_with_an_impossible_overlap_is_refused(entry: Any, cause: str) -> None:
    frames = codec.encode(request())
    header = {key: value for key, value in msgpack.unpackb(frames[0]).items() if key != "#"}
    with refused(cause):
        codec.decode([pack({**header, "f": entry}), *frames[1:]])


def test_an_impossible_overlap_does_not_leave_the_robot() -> None:
    with refused("bad_field", "frozen rows"):
        codec.encode(replace(request(), overlap=Overlap(ROWS, 4, 0.05)))
