"""The complete messages of an MCAP recording, in their order; one that was cut off is read as far as it goes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from rosa_contract.errors import CausedError

ROS = "ros2msg"  # how ROS 2 writes the definition of a message; its bytes are CDR


class RecordingError(CausedError):
    """A recording cannot be used."""

    CAUSES: ClassVar = {
        "not_a_recording": "the file is not a recording of a known kind, or cannot be read",
        "needs_package": "a package needed to read it is not installed",
        "nothing_recorded": "it contains no joint states, no pictures, or no motion",
        "several_robots": "it contains several robots; choose one with --namespace",
        "unknown_camera": "it contains no camera of that name",
        "wrong_units": "its values cannot be in the given unit",
    }


@dataclass(frozen=True)
class Track:
    """One topic of a recording."""

    topic: str
    kind: str  # such as sensor_msgs/msg/JointState
    definition: bytes
    definition_encoding: str  # `ROS`, or another one of MCAP's
    encoding: str  # of the messages


class Record(NamedTuple):
    """One message as it was recorded. `time_ns`: since 1970."""

    track: Track
    time_ns: int
    data: bytes


def records(path: Path) -> Iterator[Record]:
    """Every complete message. Raises `RecordingError`."""
    try:
        from mcap.exceptions import EndOfFile
        from mcap.records import Channel, Message, Schema
        from mcap.stream_reader import StreamReader
    except ImportError:
        raise RecordingError(
            "needs_package", f"{path}: recordings need the package mcap: pip install mcap"
        ) from None
    schemas: dict[int, Schema] = {}
    tracks: dict[int, Track] = {}
    try:
        with path.open("rb") as file, suppress(EndOfFile, struct.error):  # it may be cut off
            for record in StreamReader(file).records:
                if isinstance(record, Schema):
                    schemas[record.id] = record
                elif isinstance(record, Channel) and record.schema_id in schemas:
                    schema = schemas[record.schema_id]
                    named = (record.topic, schema.name, schema.data, schema.encoding)
                    tracks[record.id] = Track(*named, record.message_encoding)
                elif isinstance(record, Message) and (track := tracks.get(record.channel_id)) is not None:
                    yield Record(track, record.log_time, record.data)
    except Exception as error:  # mcap and what it decompresses with raise a dozen types on damaged bytes
        words = str(error) or type(error).__name__
        raise RecordingError("not_a_recording", f"{path}: {words}") from None


def span(path: Path) -> tuple[int, int]:
    """When the first and the last message came, ns since 1970. Raises `RecordingError`."""
    if (known := _indexed_span(path)) is not None:
        return known
    times = [record.time_ns for record in records(path)]
    if not times:
        raise RecordingError("not_a_recording", f"{path}: it holds no message")
    return min(times), max(times)


def _indexed_span(path: Path) -> tuple[int, int] | None:
    """As the index at the end of a whole recording says; None where there is none."""
    with suppress(ImportError, OSError, Exception):  # `records` says what is wrong
        from mcap.reader import make_reader

        with path.open("rb") as file:
            summary = make_reader(file).get_summary()
        counted = None if summary is None else summary.statistics
        if counted is not None and counted.message_count:
            return counted.message_start_time, counted.message_end_time
    return None
