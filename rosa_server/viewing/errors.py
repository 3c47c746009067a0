"""Why nothing can be viewed."""

from __future__ import annotations

from typing import ClassVar

from rosa_contract.errors import CausedError


class ViewError(CausedError):
    """A viewer cannot be fed; the text says what to do."""

    CAUSES: ClassVar = {
        "needs_package": "the library of the viewer is not installed",
        "cannot_listen": "viewers could not connect: the port is in use",
        "cannot_write": "the file for the viewer cannot be written",
        "needs_recording": "this viewer shows recordings only",
    }
