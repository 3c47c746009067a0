"""What Linux knows of a TCP connection: its bytes in both directions, and when something came last."""

from __future__ import annotations

import fcntl
import socket
import struct
import sys
import termios

TCP_INFO_BYTES = 136
LAST_DATA_RECV_AT = 52  # tcpi_last_data_recv of struct tcp_info, in milliseconds
BYTES_ACKED_AT = 120  # tcpi_bytes_acked of struct tcp_info, Linux 4.1 and later; tcpi_bytes_received is next


def counts(end: socket.socket) -> tuple[int, int] | None:
    """Bytes that the peer has taken and that were read of what it sent; None where the kernel does not count them.

    Raises `OSError` where the connection has ended.
    """
    # What waits in the kernel first: more may come in between, and then it counts as held, not as negative.
    (waiting,) = struct.unpack("i", fcntl.ioctl(end, termios.FIONREAD, b"\0\0\0\0"))
    info = _info(end)
    if len(info) < TCP_INFO_BYTES:
        return None
    acked, received = struct.unpack_from("QQ", info, BYTES_ACKED_AT)
    return acked, received - waiting


def quiet_ms(end: socket.socket) -> int:
    """For how long nothing has come, read or not; 0 where the kernel does not say it, or the connection has ended."""
    if sys.platform != "linux":
        return 0
    try:
        info = _info(end)
    except OSError:
        return 0
    return int(struct.unpack_from("I", info, LAST_DATA_RECV_AT)[0]) if len(info) == TCP_INFO_BYTES else 0


def _info(end: socket.socket) -> bytes:
    return end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
