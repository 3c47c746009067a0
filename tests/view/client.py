"""A small viewer of Foxglove's protocol: topics, subscriptions, messages, and the buttons of a player."""

from __future__ import annotations

import json
import struct
import time
from types import TracebackType
from typing import Any

from websockets.sync.client import connect
from websockets.typing import Subprotocol

PATIENCE_S = 60.0
PROTOCOL = Subprotocol("foxglove.sdk.v1")
MESSAGE, TIME, PLAYBACK_STATE = 1, 2, 5  # what a server's binary frame begins with
PLAYBACK_REQUEST = 3  # what a viewer's does
PLAY, PAUSE = 0, 1


class Viewer:
    """Connected to one server. `topics`: by name; `heard`: (topic, log time ns, bytes) of what came."""

    def __init__(self, address: str) -> None:
        self._opening = connect(address, subprotocols=[PROTOCOL], max_size=1 << 26, open_timeout=PATIENCE_S)
        self.info: dict[str, Any] = {}
        self.topics: dict[str, dict[str, Any]] = {}
        self.heard: list[tuple[str, int, bytes]] = []
        self.states: list[dict[str, Any]] = []  # of the player
        self._topic_of: dict[int, str] = {}
        self._subscriptions = 0

    def __enter__(self) -> Viewer:
        self._socket = self._opening.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opening.__exit__(kind, error, trace)

    def until(self, holds: Any, what: str) -> None:
        """Read until it holds."""
        end_s = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < end_s, (
                f"{what}; topics {sorted(self.topics)}, {len(self.heard)} messages"
            )
            try:
                self._take(self._socket.recv(timeout=0.2))
            except TimeoutError:
                continue

    def subscribe(self, topic: str) -> None:
        self.until(lambda: topic in self.topics, f"no topic {topic}")
        self._subscriptions += 1
        self._topic_of[self._subscriptions] = topic
        wanted = [{"id": self._subscriptions, "channelId": self.topics[topic]["id"]}]
        self._socket.send(json.dumps({"op": "subscribe", "subscriptions": wanted}))

    def control(
        self, command: int, speed: float = 1.0, seek_ns: int | None = None, request: str = "r"
    ) -> None:
        seek = struct.pack("<BQ", 1, seek_ns) if seek_ns is not None else struct.pack("<BQ", 0, 0)
        name = request.encode()
        self._socket.send(
            struct.pack("<BBf", PLAYBACK_REQUEST, command, speed) + seek + struct.pack("<I", len(name)) + name
        )

    def of(self, topic: str) -> list[tuple[int, bytes]]:
        return [(at_ns, data) for name, at_ns, data in self.heard if name == topic]

    def _take(self, message: str | bytes) -> None:
        if isinstance(message, bytes):
            if message[0] == MESSAGE:
                subscription, at_ns = struct.unpack_from("<IQ", message, 1)
                self.heard.append((self._topic_of[subscription], at_ns, message[13:]))
            elif message[0] == PLAYBACK_STATE:
                status, now_ns, speed, did_seek = struct.unpack_from("<BQf?", message, 1)
                self.states.append({"status": status, "at_ns": now_ns, "speed": speed, "did_seek": did_seek})
            return
        told = json.loads(message)
        if told["op"] == "serverInfo":
            self.info = told
        elif told["op"] == "advertise":
            self.topics |= {channel["topic"]: channel for channel in told["channels"]}
