"""Words on standard output or standard error: nobody ends because what it says cannot be written."""

from __future__ import annotations

import os
import sys
from typing import TextIO


def say(text: str, stream: TextIO | None = None, end: str = "\n") -> bool:
    """Print `text` at once; false when it could not be written, as on a full disk or to a reader that has left.

    Nothing stays in a buffer, which Python would try to write again at its end, and then exit with 120.
    """
    stream = stream if stream is not None else sys.stdout
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError, AttributeError):  # not a file: a test, a notebook
        print(text, end=end, file=stream, flush=True)
        return True
    rest = (text + end).encode(errors="replace")
    try:
        stream.flush()  # what others have printed comes first
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        return False
    return True
