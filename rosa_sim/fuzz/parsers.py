"""Every parser of bytes that a stranger, a robot or a file may bring: what it promises of any input, one by one.

A promise is a function of bytes that returns where it holds and raises where it does not. `coverage.py` looks for
inputs that break one; the inputs in `corpus/` are tried by the tests.
"""

from __future__ import annotations

import asyncio
import atexit
import base64
import os
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import cv2
import msgpack
import numpy as np

from rosa_contract.config.factory import factory_from
from rosa_contract.config.frontends import GR00T, OPENPI, ActionPart, Frontend, ImageSource, StatePart
from rosa_contract.config.robot import robot_from
from rosa_contract.config.strict import parse_yaml
from rosa_contract.errors import CodecError, ConfigError
from rosa_contract.keyfile import KeyFileError, read_keys
from rosa_contract.wire import codec
from rosa_contract.wire.images import EncodedImage, decode_image, written_size
from rosa_contract.wire.packing import SUM, image_sum
from rosa_contract.wire.watching import decode_ask
from rosa_server.frontends import gr00t_words
from rosa_server.frontends.mapping import ClientMapping, MappingError
from rosa_server.frontends.zmtp import Peer, ZmtpError
from rosa_server.models.remote.arrays import WireError, unpack
from rosa_server.plan.nodes_file import nodes_from
from rosa_server.plan.peer_codec import decode_peer, encode_peer
from rosa_server.scheduler.placement.schedule import parse_schedule
from rosa_server.scheduler.profiles.profile import profile_from
from rosa_server.serving.base.shared_memory import ShmReader, ShmWriter
from rosa_server.serving.core.sessions.router import ModelNeeds
from rosa_server.serving.core.sessions.session import misfit, observation_of, request_fields

CORPUS = Path(__file__).parent / "corpus"
MAX_PIXELS = 1 << 20  # larger pictures only make the search slow
NEEDS = ModelNeeds({"front": (8, 8)}, {"joint_position": 7})
MAX_ROBOTS = 16  # of one request of a client, as frontends bound it


def _summed(frame: bytes) -> bytes:
    """The same header with a right checksum; bytes that are none stay as they are."""
    with suppress(Exception):
        header = msgpack.unpackb(frame, strict_map_key=False)
        header.pop(SUM, None)
        packed = msgpack.packb({**header, SUM: 0xFFFFFFFF})[:-4]
        return bytes(packed) + struct.pack(">I", zlib.crc32(packed))
    return frame


def framed(data: bytes) -> list[bytes]:
    """Frames of a message, each behind its length in two bytes; the first one gets its checksum, as a peer sends it."""
    frames = []
    while len(data) > 2:
        length = struct.unpack(">H", data[:2])[0]
        frames.append(data[2 : 2 + length])
        data = data[2 + length :]
    return [_summed(frames[0]), *frames[1:]] if frames else []


def unframed(frames: list[bytes]) -> bytes:
    """The input that `framed` turns into these frames."""
    return b"".join(struct.pack(">H", len(frame)) + frame for frame in frames)


def message(data: bytes) -> None:
    """Decoding raises nothing but `CodecError`, and what was decoded can be sent."""
    with suppress(CodecError):
        codec.encode(codec.decode(framed(data)))


def robot_message(data: bytes) -> None:
    """What the gateway does with a message before a worker sees it."""
    frames = framed(data)
    with suppress(CodecError):
        header = codec.read_robot_header(frames)
        if header["type"] != "request":
            codec.decode_robot(header, frames)
            return
        request_fields(header)
        observation_of(header)
        assert isinstance(misfit(header, frames, NEEDS), tuple | None)
        images = header.get("images")
        if isinstance(images, list):  # as if its checksums were right
            for entry, frame in zip(images, frames[1:], strict=False):
                if isinstance(entry, dict):
                    entry["checksum"] = image_sum(str(entry.get("encoding")), frame)
            codec.decode([_summed(msgpack.packb(header)), *frames[1:]])


def watcher(data: bytes) -> None:
    """What somebody says to a gateway's watch socket is understood, or `CodecError`."""
    with suppress(CodecError):
        decode_ask(b"watcher", _summed(data))


def peer_gateway(data: bytes) -> None:
    """What another gateway says is understood as it was meant, or `CodecError`."""
    with suppress(CodecError):
        said = encode_peer(decode_peer(framed(data)))
        assert encode_peer(decode_peer(said)) == said


def output(data: bytes) -> None:
    """A model's output, as a robot reads it."""
    with suppress(CodecError):
        codec.decode_output(_summed(data))


def png(data: bytes) -> None:
    """Refused, or the picture that libpng sees; and libpng writes nothing either way."""
    chunks, at = [data[:8]], 8
    while at + 12 <= len(data):  # with right checksums, as a hostile encoder would write them
        (length,) = struct.unpack(">I", data[at : at + 4])
        body = data[at + 4 : at + 8 + length]
        chunks.append(data[at : at + 4] + body + struct.pack(">I", zlib.crc32(body)))
        at += 12 + length
    _picture("png", b"".join(chunks), silent=True)


def png_rows(data: bytes) -> None:
    """The same for rows that a hostile encoder has compressed well: three bytes of header, then rows."""
    if len(data) < 3:
        return
    height, width, colour = 1 + data[0] % 32, 1 + data[1] % 32, data[2] % 8
    parts = [b"\x89PNG\r\n\x1a\n"]
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    for kind, body in ((b"IHDR", header), (b"IDAT", zlib.compress(data[3:], 1)), (b"IEND", b"")):
        parts.append(struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)))
    _picture("png", b"".join(parts), silent=True)


def jpeg(data: bytes) -> None:
    """Refused, or the picture that libjpeg sees of the whole file."""
    _picture("jpeg", data)


def _picture(encoding: str, data: bytes, silent: bool = False) -> None:
    with suppress(CodecError):
        height, width = written_size(encoding, data)
        if height * width > MAX_PIXELS:
            return
        with _written() as written:
            ours = decode_image(EncodedImage(encoding, height, width, data))
        assert not (silent and written), f"a library has written {written[0][:200]!r}"
        assert ours.shape == (height, width, 3) and ours.dtype == np.uint8
        with _written():
            seen = cv2.imdecode(
                np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
            )
        assert seen is not None and np.array_equal(seen[:, :, ::-1], ours), "another picture than OpenCV's"


@contextmanager
def _written() -> Iterator[list[bytes]]:
    """What C libraries write to standard error meanwhile; nothing when the list stays empty."""
    written: list[bytes] = []
    before = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield written
        finally:
            os.dup2(before, 2)
            os.close(before)
            if file.seek(0, os.SEEK_END):
                file.seek(0)
                written.append(file.read())


def factory_file(data: bytes) -> None:
    """Any text is a factory, or a `ConfigError`."""
    with suppress(ConfigError):
        factory_from(parse_yaml(data), "<text>")


def robot_file(data: bytes) -> None:
    """Any text is a robot, or a `ConfigError`."""
    with suppress(ConfigError):
        robot_from(parse_yaml(data), "<text>")


def profile_file(data: bytes) -> None:
    """Any text is a profile, or a `ConfigError`."""
    with suppress(ConfigError):
        profile_from(parse_yaml(data), "<text>")


def schedule_file(data: bytes) -> None:
    """Any text is a schedule, or a `ConfigError`."""
    with suppress(ConfigError):
        parse_schedule(data, "<text>")


def nodes_file(data: bytes) -> None:
    """Any text says which gateways there are, or is a `ConfigError`."""
    with suppress(ConfigError):
        assert len(nodes_from(parse_yaml(data), "<text>").nodes) > 1


def key_file(data: bytes) -> None:
    """Any file is a pair of keys, or a `KeyFileError`."""
    with tempfile.NamedTemporaryFile(suffix=".key_secret") as file:
        Path(file.name).write_bytes(data)
        with suppress(KeyFileError):
            assert set(read_keys(Path(file.name))) == {"public", "secret"}


_WRITER = ShmWriter(1 << 16)
_READER = ShmReader(os.dup(_WRITER.fd), os.dup(_WRITER.theirs.fileno()))
for _end in (_WRITER.socket, _WRITER.theirs, _READER.socket):
    atexit.register(_end.close)  # else Python complains of it when it ends


def shared_memory(data: bytes) -> None:
    """Places in shared memory: inside it, or `CodecError`."""
    frames: list[Any] = framed(data) or [b""]
    with suppress(CodecError):
        assert all(len(frame) <= 1 << 16 for frame in _READER.read(frames))


def client_mapping(
    protocol: str, image: str, state: str, prompt: str, history: bool = False
) -> ClientMapping:
    """What a frontend makes of its clients' observations. `history`: the image comes with the frame of 5 steps ago."""
    frames = {"front": 0, **({"before": -5} if history else {})}
    images = {name: ImageSource(image, 8, 8, "pad", frame) for name, frame in frames.items()}
    parts = {
        "joint_position": (StatePart(state, count=7, unit="deg"),),
        "gripper_width": (StatePart("hand", gripper="closed_fraction", open_m=0.08),),
    }
    actions = {"actions": (ActionPart(tuple(range(8))),)}
    return ClientMapping(
        Frontend(
            protocol,
            "pick",
            images=images,
            state=parts,
            actions=actions,
            prompt_key=prompt,
            ignore=("other",),
        )
    )


OF_OPENPI = client_mapping(OPENPI, "image", "joints", "prompt")
OF_GR00T = client_mapping(GR00T, "video.ego", "state.arm", "annotation.task", history=True)


def _robot_sees(mapping: ClientMapping, sent: Mapping[Any, Any]) -> None:
    seen, prompt = mapping.observation(sent)
    assert isinstance(prompt, str) and seen["front"].shape == (8, 8, 3) and seen["front"].dtype == np.uint8
    assert all(np.isfinite(value).all() for value in seen.values())


def openpi_client(data: bytes) -> None:
    """A client's message is an observation of its robot, or a refusal."""
    with suppress(WireError, MappingError):
        sent, _ = unpack(data)
        if isinstance(sent, dict):
            _robot_sees(OF_OPENPI, sent)


def gr00t_client(data: bytes) -> None:
    """A request is some robots' observations, in one of three dialects, or a refusal."""
    with suppress(WireError, MappingError):
        request, arrays = unpack(data)
        if isinstance(request, dict):
            ask = gr00t_words.asked(request.get("data"), arrays, "")
            for number in range(min(ask.size, MAX_ROBOTS)):
                _robot_sees(OF_GR00T, ask.observation(number))


class _Writer:
    """A peer that takes whatever it is sent."""

    def write(self, data: bytes) -> None:
        assert len(data) < 1 << 16

    async def drain(self) -> None:
        pass


_LOOP = asyncio.new_event_loop()


def zmtp(data: bytes) -> None:
    """What a ZeroMQ peer sends, after its greeting or in place of it: messages, or `ZmtpError`."""

    async def read() -> None:
        reader = asyncio.StreamReader(limit=1 << 16)
        reader.feed_data(data)
        reader.feed_eof()
        writer: Any = _Writer()
        peer = Peer(reader, writer, 1 << 20)
        await peer.shake_hands()
        while True:
            envelope, body = await peer.receive()
            assert len(body) <= 1 << 20 and len(envelope) <= 4

    with suppress(ZmtpError, EOFError):
        _LOOP.run_until_complete(read())


PARSERS: Mapping[str, Callable[[bytes], None]] = {
    one.__name__: one
    for one in (
        message, robot_message, watcher, peer_gateway, output, png, png_rows, jpeg, factory_file, robot_file,
        profile_file, schedule_file, nodes_file, key_file, shared_memory, openpi_client, gr00t_client, zmtp,
    )
}  # fmt: skip


def corpus(parser: str) -> list[bytes]:
    """The inputs of a parser in the repository, one a line: they reach most of it, or once broke its promise."""
    lines = (CORPUS / f"{parser}.b64").read_text().split()
    return [base64.b64decode(line) for line in lines]


def save_corpus(parser: str, inputs: list[bytes]) -> None:
    """Replace them, each once, the shortest first."""
    CORPUS.mkdir(exist_ok=True)
    lines = [base64.b64encode(one).decode() for one in sorted(set(inputs), key=lambda one: (len(one), one))]
    (CORPUS / f"{parser}.b64").write_text("".join(f"{line}\n" for line in lines if line))
