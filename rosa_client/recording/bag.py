"""MCAP bags of ROS 2 messages without rosbag2: schemas, a writer that survives being killed, and a reader.

Messages are stored as they came over the wire (CDR bytes). A schema is the text of the installed .msg file together
with those of the messages it contains, so that Foxglove and `ros2 bag` open the bag on any machine.

    python -m rosa_client.recording.bag CUT_OFF.mcap WHOLE.mcap    # repairs a bag without an index
"""

from __future__ import annotations

import importlib
import os
import re
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, cast

from mcap.exceptions import EndOfFile
from mcap.opcode import Opcode
from mcap.records import Channel, Message, Schema
from mcap.stream_reader import MAGIC_SIZE, StreamReader
from mcap.writer import MCAP0_MAGIC, Writer
from rclpy.serialization import deserialize_message

SEPARATOR = "\n" + "=" * 80 + "\nMSG: {}\n"
BUILT_IN = re.compile(r"^(bool|byte|char|float(32|64)|u?int(8|16|32|64)|w?string)$")


class BagError(Exception):
    """A bag cannot be read; the text says why."""


class BagWriter:
    """One bag. After a `flush`, messages survive a SIGKILL; `close` adds the index."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.count = 0
        self._file = path.open("wb")
        self._writer = Writer(self._file)
        self._writer.start(profile="ros2", library="rosa")
        self._schemas: dict[str, int] = {}
        self.flush()

    def channel(self, topic: str, kind: str, offered: str = "") -> int:
        """Register `topic` with messages of `kind`, "package/msg/Name"; `FileNotFoundError` when not installed.

        `offered`: the QoS of its publishers (`offered.py`); empty: not known.
        """
        if kind not in self._schemas:
            text = schema_text(kind).encode()
            self._schemas[kind] = self._writer.register_schema(kind, "ros2msg", text)
        metadata = {"offered_qos_profiles": offered}
        return self._writer.register_channel(topic, "cdr", self._schemas[kind], metadata=metadata)

    def add(self, channel: int, time_ns: int, data: bytes) -> None:
        """A serialised message that arrived at `time_ns` since 1970."""
        self._writer.add_message(channel, time_ns, data, time_ns)
        self.count += 1

    def flush(self) -> None:
        """Give everything so far to the operating system."""
        # The library itself writes a chunk only when it is full, which takes a quiet robot a minute.
        self._writer.flush()

    def close(self) -> None:
        """Finish the bag with its summary and index."""
        self._writer.finish()
        self._file.close()

    def abandon(self) -> None:
        """Let go of the file as it is; `finish` gives it its index when there is room again."""
        with suppress(OSError):  # it tries to write once more
            self._file.close()


@dataclass(frozen=True)
class Recorded:
    """One message of a bag. `time_s`: when the recorder got it, s since 1970."""

    topic: str
    time_s: float
    message: Any


def read(path: Path, wanted: Callable[[str], bool] = lambda topic: True) -> Iterator[Recorded]:
    """The messages of the wanted topics in the order of the bag; of a truncated bag, all complete ones.

    Raises `BagError`, also for a bag that is damaged, after what came before the damage.
    """
    schemas: dict[int, Schema] = {}
    channels: dict[int, Channel] = {}
    with path.open("rb") as file:
        for record in _named(path, _whole_records(file)):
            if isinstance(record, Schema):
                schemas[record.id] = record
            elif isinstance(record, Channel):
                channels[record.id] = record
            elif isinstance(record, Message) and wanted(channels[record.channel_id].topic):
                channel = channels[record.channel_id]
                message = _message(record.data, schemas[channel.schema_id], path)
                yield Recorded(channel.topic, record.log_time / 1e9, message)


def mend(path: Path, to: Path) -> int:
    """Copy the complete messages of a bag without its end to a new one with an index; returns how many."""
    schemas: dict[int, int] = {0: 0}
    channels: dict[int, int] = {}
    count = 0
    with path.open("rb") as file, to.open("wb") as out:
        writer = Writer(out)
        writer.start(profile="ros2", library="rosa")
        for record in _until_damaged(_whole_records(file)):
            if isinstance(record, Schema) and record.id not in schemas:
                schemas[record.id] = writer.register_schema(record.name, record.encoding, record.data)
            elif isinstance(record, Channel) and record.id not in channels:
                schema = schemas[record.schema_id]
                channels[record.id] = writer.register_channel(
                    record.topic, record.message_encoding, schema, record.metadata
                )
            elif isinstance(record, Message):
                channel = channels[record.channel_id]
                writer.add_message(
                    channel, record.log_time, record.data, record.publish_time, record.sequence
                )
                count += 1
        writer.finish()
    return count


def finish(path: Path) -> bool:
    """Repair a bag whose recorder was killed before it wrote the index; returns whether that was necessary."""
    with path.open("rb") as file:
        file.seek(-min(path.stat().st_size, MAGIC_SIZE), os.SEEK_END)
        if file.read() == MCAP0_MAGIC and path.stat().st_size > MAGIC_SIZE:
            return False
    whole = path.with_suffix(".whole")
    try:
        mend(path, whole)
        whole.replace(path)
    finally:
        whole.unlink(missing_ok=True)  # when it was no bag
    return True


def _message(data: bytes, schema: Schema, path: Path) -> Any:
    try:
        return deserialize_message(data, message_class(schema.name))
    except Exception as error:
        if schema.data.decode() == schema_text(schema.name):
            raise
        raise BagError(
            f"{path}: recorded with another version of {schema.name} than the installed one; Foxglove still opens it"
        ) from error


def _whole_records(file: BinaryIO) -> Iterator[Any]:
    """The complete records of an MCAP file."""
    if file.read(MAGIC_SIZE) != MCAP0_MAGIC:
        raise BagError(f"{file.name}: not an MCAP bag")
    with suppress(EndOfFile):
        whole = cast(BinaryIO, _Until(file, _end(file)))  # a StreamReader only reads
        yield from StreamReader(whole).records


def _named(path: Path, records: Iterator[Any]) -> Iterator[Any]:
    """The records; damaged bytes become a `BagError` that says what helps."""
    try:
        yield from records
    except (BagError, OSError):
        raise
    except Exception as error:  # see `_until_damaged`
        helps = f"python -m rosa_client.recording.bag {path} WHOLE.mcap"
        raise BagError(f"{path}: damaged ({error}); what came before that: {helps}") from error


def _until_damaged(records: Iterator[Any]) -> Iterator[Any]:
    """The records before the first one that cannot be read: a loss of power may leave zeros in the last chunk."""
    try:
        yield from records
    except (BagError, OSError):
        raise
    except Exception:  # mcap and what it decompresses with raise a dozen types on damaged bytes
        return


def _end(file: BinaryIO) -> int:
    """The offset at which the last complete record ends. A record is its kind (1 byte), length (8 bytes) and data."""
    size = file.seek(0, os.SEEK_END)
    end = file.seek(MAGIC_SIZE)
    while len(head := file.read(9)) == 9:
        kind, length = struct.unpack("<BQ", head)
        after = end + 9 + length
        if kind == Opcode.FOOTER and after + MAGIC_SIZE <= size:
            return size
        if kind == Opcode.FOOTER or after > size:
            break
        end = file.seek(after)
    return end


class _Until:
    """A file that ends at `end`."""

    def __init__(self, file: BinaryIO, end: int) -> None:
        file.seek(0)
        self._file = file
        self._left = end

    def read(self, length: int) -> bytes:
        data = self._file.read(min(length, self._left))
        self._left -= len(data)
        return data


def message_class(name: str) -> Any:
    """The class of "package/msg/Name"."""
    package, folder, kind = name.split("/")
    return getattr(importlib.import_module(f"{package}.{folder}"), kind)


def schema_text(name: str) -> str:
    """The definition of "package/msg/Name" followed by those of all messages in it, as ros2msg schemas are written."""
    text, seen, waiting = definition(name), {name}, contained(name)
    while waiting:
        inner = waiting.pop(0)
        if inner not in seen:
            seen.add(inner)
            package, _, kind = inner.split("/")
            text += SEPARATOR.format(f"{package}/{kind}") + definition(inner)
            waiting += contained(inner)
    return text


@cache
def definition(name: str) -> str:
    """The installed .msg file of "package/msg/Name"."""
    package, folder, kind = name.split("/")
    # A sourced ROS 2 says where it is; the wheels are where Python is.
    prefixes = [*os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep), sys.prefix]
    for prefix in filter(None, prefixes):
        path = Path(prefix, "share", package, folder, f"{kind}.msg")
        if path.is_file():
            return path.read_text()
    raise FileNotFoundError(f"no {package}/{folder}/{kind}.msg below {', '.join(filter(None, prefixes))}")


def contained(name: str) -> list[str]:
    """The messages that fields of "package/msg/Name" are made of, as "package/msg/Name"."""
    package = name.split("/")[0]
    found = []
    for line in definition(name).splitlines():
        words = line.split("#")[0].split()
        if len(words) < 2 or "=" in line.split("#")[0].split('"')[0]:
            continue
        kind = re.sub(r"(<=\d+)|(\[.*\])", "", words[0])
        if BUILT_IN.match(kind):
            continue
        parts = kind.split("/")
        found.append(f"{parts[0] if len(parts) > 1 else package}/msg/{parts[-1]}")
    return found


def main() -> int:
    if len(sys.argv) != 3:
        print("expected two files: the truncated bag, and the one to write", file=sys.stderr)
        return 2
    try:
        print(f"{mend(Path(sys.argv[1]), Path(sys.argv[2]))} messages")
    except (BagError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
