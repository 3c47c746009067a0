"""A robot's name is taken once per ROS domain: a second bring-up under the same namespace refuses, and names the first.

On one machine the kernel decides: a bring-up listens on an abstract Unix socket with the robot's name, which is free
again the moment its process ends, however that ends. On others the robot's own nodes tell (`nodes/base/identity.py`);
those of a bring-up that crashed are silent, so they do not stand in the way of the next.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Sequence

from std_msgs.msg import String

from rosa_client.bringup.supervisor import BringupError
from rosa_client.nodes.base.identity import TOPIC
from rosa_client.nodes.base.qos import LATEST
from rosa_client.ros.own_node import own_node

LISTEN_S = 1.5  # the nodes of a robot that is up answer within 0.3 s, on a busy machine within 1 s


class NameTakenError(BringupError):
    """Another bring-up, or a node without one, has this robot's name."""


class Names:
    """The names that this process holds."""

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def take(self, namespaces: Sequence[str], listen_s: float = LISTEN_S) -> None:
        """Hold these names until `release`. Raises `NameTakenError` naming host and process, and holds none then."""
        names = [namespace.strip("/") for namespace in namespaces]
        try:
            for name in names:
                self._held.append(_hold(name))
            for name, holder in _heard(names, listen_s).items():
                raise NameTakenError(_taken(name, holder))
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let others have them."""
        while self._held:
            self._held.pop().close()


def _taken(name: str, holder: str) -> str:
    domain = os.environ.get("ROS_DOMAIN_ID") or "0"
    return (
        f"namespace {name!r} is taken on ROS domain {domain} by {holder};"
        " give this robot another namespace or another ROS_DOMAIN_ID, or end the other one"
    )


def _hold(name: str) -> socket.socket:
    address = f"\0rosa/{os.environ.get('ROS_DOMAIN_ID') or '0'}/{name}"
    mine = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        mine.bind(address)
        mine.listen()
    except OSError as error:
        mine.close()
        raise NameTakenError(
            _taken(name, f"host {socket.gethostname()}, {_holder(address, error)}")
        ) from None
    return mine


def _holder(address: str, error: OSError) -> str:
    """The process that listens at `address`; the kernel knows it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.settimeout(1.0)
            probe.connect(address)
            pid, _, _ = struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        except OSError:
            return f"a process that cannot be asked ({error.strerror})"
    return f"process {pid}"


def _heard(names: Sequence[str], listen_s: float) -> dict[str, str]:
    """Name -> which bring-up has it, of those whose nodes are heard within `listen_s`."""
    holders: dict[str, str] = {}
    with own_node("names") as (node, executor):
        for name in names:

            def hear(message: String, name: str = name) -> None:
                holders[name] = message.data

            node.create_subscription(String, f"/{name}/{TOPIC}", hear, LATEST)
        until_s = time.monotonic() + listen_s
        while not holders and (left_s := until_s - time.monotonic()) > 0:
            executor.spin_once(timeout_sec=left_s)
    return holders
