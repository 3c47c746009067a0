"""A managed node, and the bring-up, tell whoever started their process that they are up: systemd's `sd_notify(3)`.

The bring-up gives every process a socket of its own for that.
"""

from __future__ import annotations

import contextlib
import os
import socket

SOCKET = "NOTIFY_SOCKET"
READY = b"READY=1"


def tell_ready() -> None:
    """Say it to the socket that `NOTIFY_SOCKET` names, a path or `@` and an abstract name; to nobody without one."""
    address = os.environ.get(SOCKET, "")
    if not address:
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mine:
        mine.setblocking(False)  # nobody may be reading
        mine.sendto(READY, address)
