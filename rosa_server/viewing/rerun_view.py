"""A recording in Rerun: into its viewer, or into a file that it opens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rosa_contract.say import say
from rosa_server.bags.cdr import CdrError
from rosa_server.bags.records import Record, records
from rosa_server.viewing.errors import ViewError
from rosa_server.viewing.shown import Figure, ShownWords, Still, Teller, finite

TIMELINE = "time"
PACKAGE = "--rerun: rerun-sdk is not installed here: pip install rerun-sdk"


def view_in_rerun(path: Path, save: Path | None) -> int:
    """Hand the whole recording over. `save`: write this file instead of opening the viewer. Raises `ViewError`."""
    try:
        import rerun
    except ImportError:
        raise ViewError("needs_package", PACKAGE) from None
    stream = rerun.RecordingStream("rosa", recording_id=None)
    if save is not None:
        try:
            stream.save(str(save))
        except (OSError, RuntimeError) as error:
            raise ViewError("cannot_write", f"--save {save}: {error}") from None
    else:
        try:
            stream.spawn()
        except RuntimeError as error:
            raise ViewError("needs_package", f"--rerun: the viewer did not start: {error}") from None
    count, unread = hand_over(rerun, stream, records(path))
    stream.flush()
    stream.disconnect()
    where = f"in {save}" if save is not None else "in the viewer"
    say(f"{count} values, words and pictures of {path} are {where}")
    if unread:
        say(f"{unread} messages could not be read and are left out")
    return 0


def hand_over(rerun: Any, stream: Any, found: Iterator[Record]) -> tuple[int, int]:
    """How many things were shown, and how many messages could not be read."""
    teller, count, unread = Teller(), 0, 0
    for record in found:
        try:
            told = list(finite(teller.shown(record)))
        except CdrError:
            unread += 1
            continue
        if told:
            stream.set_time(TIMELINE, timestamp=record.time_ns / 1e9)
        for one in told:
            match one:
                case Figure(name, value):
                    stream.log(name, rerun.Scalars([value]))
                case ShownWords(name, text, level):
                    stream.log(name, rerun.TextLog(text, level=level))
                case Still(name, data, media_type):
                    stream.log(name, rerun.EncodedImage(contents=data, media_type=media_type))
        count += len(told)
    return count, unread
