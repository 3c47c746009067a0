"""The wire: what goes in comes out, and what is damaged, oversized or of another version is refused."""

from __future__ import annotations

import random
from typing import Any

import msgpack
import numpy as np
import pytest

from rosa_contract.errors import CODEC_CAUSES, CodecError, VersionError
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.images import EncodedImage, decode_image, encode_image
from rosa_contract.wire.packing import pack
from tests.unit.contract.wire.samples import MESSAGES, PICTURE, refused, request, same


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


@pytest.mark.parametrize("version", [0, 1, 2, 3, 5, "4", None, True])
def test_another_schema_version_is_named_on_both_sides(version: object) -> None:
    raw = msgpack.packb({"v": version, "type": "bye"})
    with pytest.raises(VersionError, match=r"the peer speaks .*, this side speaks 4") as error:
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
    smuggled = pack({"arrays": {"actions": ["<f4", [7], array.tobytes()]}})
    with refused("not_finite"):
        codec.decode_output(smuggled)


def test_object_arrays_are_refused_at_both_ends() -> None:
    with refused("bad_array"):
        codec.encode_output(m.Output({"actions": np.array([object()])}))
    with refused("bad_array"):
        codec.decode_output(pack({"arrays": {"actions": ["|O", [1], b"12345678"]}}))


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


def test_a_message_of_two_frames_may_come_as_one() -> None:
    response = m.Response(7, m.OK, output=m.Output({"actions": np.ones((2, 7), np.float32)}))
    frames = codec.encode(response)
    joined = codec.joined(frames)
    read = codec.decode([joined])
    assert isinstance(read, m.Response) and read.output is not None
    assert read.output.arrays["actions"].tolist() == response.output.arrays["actions"].tolist()
    assert codec.joined(frames[:1]) is frames[0]
    for end in range(len(joined)):
        with pytest.raises(CodecError):
            codec.decode([joined[:end]])
    with refused("not_msgpack"):
        codec.read_robot_header([joined])


def test_damage_is_called_damage_and_not_another_version() -> None:
    header = bytes(codec.encode(m.Bye())[0])
    at = header.index(b"\xa1v") + 2  # the version itself
    with refused("checksum_mismatch"):
        codec.decode([header[:at] + b"\x02" + header[at + 1 :]])
    with refused("checksum_mismatch", "no checksum"):
        codec.decode([msgpack.packb({"v": m.SCHEMA_VERSION, "type": "bye"})])


@pytest.mark.parametrize(
    ("status", "cause"),
    [(m.OK, "no_worker"), (m.EXPIRED, ""), (m.EXPIRED, "no_worker"), (m.FAILED, "bad luck")],
)
def test_a_response_has_a_cause_of_its_status_or_is_refused_at_both_ends(status: str, cause: str) -> None:
    output = m.Output() if status == m.OK else None
    with refused("bad_field"):
        codec.encode(m.Response(7, status, cause, output=output))
    with refused("bad_field"):
        codec.response_header(m.Response(7, status, cause))
    fields = {
        "request_id": 7,
        "status": status,
        "cause": cause,
        "queue_ms": 0,
        "inference_ms": 0,
        "batch_size": 0,
    }
    frames = [pack({"v": m.SCHEMA_VERSION, "type": "response", **fields})]
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
        codec.decode([pack({"v": m.SCHEMA_VERSION, "type": "refused", "cause": "because", "reason": ""})])
    with refused("bad_field"):
        fields = {"batch_id": 3, "tickets": [1], "inference_ms": 1.0, "errors": [["because", ""]]}
        codec.decode([pack({"v": m.SCHEMA_VERSION, "type": "executed", **fields}), b""])


def test_an_oversized_header_is_refused_by_its_length() -> None:
    with refused("too_large"):
        codec.decode([b"\x81" + b"\x00" * (codec.MAX_HEADER_BYTES + 1)])


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({"type": "health_query", "z": [{}] * 20_000}, "not msgpack"),
        ({"type": "health_query", "z": 1}, "unknown key"),
        ({"type": "request", "request_id": 1, "x": 1}, "unknown key"),
        ({"type": "welcome"}, "does not send"),
        ({"type": "execute", "tickets": []}, "does not send"),
        ({"type": "hello", "prompt": "x" * 70_000}, "at most 65536 bytes"),
        ({"type": "hello", "cameras": {f"c{n}": n for n in range(2000)}}, "not msgpack"),
    ],
)
def test_a_robots_header_is_bounded_in_every_way(header: dict[str, Any], words: str) -> None:
    with pytest.raises(CodecError, match=words):
        codec.read_robot_header([pack({"v": m.SCHEMA_VERSION, **header})])


def test_a_robots_header_of_a_thousand_levels_is_no_problem() -> None:
    deep = pack({"v": m.SCHEMA_VERSION, "type": "hello", "robot_id": None})
    assert b"robot_id\xc0" in deep
    with pytest.raises(CodecError):
        codec.read_robot_header([deep.replace(b"robot_id\xc0", b"robot_id" + b"\x91" * 1000 + b"\xc0")])


def test_what_robots_send_is_read_with_every_key_of_it() -> None:
    hello = m.Hello(
        "r1",
        "pick",
        {"front": m.CameraInfo(height=8, width=8, encoding="rgb8")},
        {"joint_position": 7},
        "token",
    )
    for message in (hello, m.Bye(), m.HealthQuery()):
        frames = codec.encode(message)
        assert codec.decode_robot(codec.read_robot_header(frames), frames) == message
    assert codec.read_robot_header(codec.encode(request()))["type"] == "request"
