"""Why nothing can be viewed."""

from __future__ import annotations

from typing import ClassVar

from rosa_contract.errors import CausedError


class ViewError(CausedError):
    """A viewer cannot be fed; the text says what to do."""

    CAUSES: ClassVar = {
        "needs_package": "the viewer's library is not installed",
        "cannot_listen": "the port for viewers is in use",
        "cannot_write": "the output file cannot be written",
        "needs_recording": "this viewer can only show recordings",
    }
