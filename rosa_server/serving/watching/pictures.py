"""Pictures of a robot's cameras for those who look at it: at most one a second, and only while somebody asks.

Pure. A watcher asks for each picture anew, so that one who looks no more, or does not read, gets none.
"""

from __future__ import annotations

from collections.abc import Mapping

from rosa_contract.wire.images import EncodedImage
from rosa_contract.wire.packing import pack

PICTURES = b"pictures"
EVERY_S = 1.0
ASKED_FOR_S = 3.0  # a robot that asks seldom is waited for so long
MAX_LOOKS = 16  # (watcher, robot) at a time
MAX_PICTURE_BYTES = 4 << 20  # of all cameras in one message


class Pictures:
    """Who has asked to see which robot."""

    def __init__(self) -> None:
        self._asked: dict[str, dict[bytes, float]] = {}  # robot -> watcher -> when it asked
        self._shown_s: dict[str, float] = {}

    def __bool__(self) -> bool:
        """Whether anybody looks: the one question on the path of every request."""
        return bool(self._asked)

    def ask(self, now_s: float, watcher: bytes, robot: str) -> None:
        """A watcher wants the next pictures of a robot."""
        self.forget(now_s)
        if sum(map(len, self._asked.values())) < MAX_LOOKS or watcher in self._asked.get(robot, ()):
            self._asked.setdefault(robot, {})[watcher] = now_s

    def wants(self, now_s: float, robot: str) -> bool:
        """Whether the pictures of this robot's request are for somebody."""
        return robot in self._asked and now_s - self._shown_s.get(robot, -EVERY_S) >= EVERY_S

    def shown(
        self, now_s: float, robot: str, images: Mapping[str, EncodedImage]
    ) -> tuple[list[bytes], list[bytes]]:
        """(watchers, message) for the pictures of a request: a header, then one frame for each camera."""
        watchers = list(self._asked.pop(robot, ()))
        self._shown_s[robot] = now_s
        kept, size = {}, 0
        for camera, image in images.items():
            size += len(image.data)
            if size <= MAX_PICTURE_BYTES:
                kept[camera] = image
        cameras = [[name, one.encoding, one.height, one.width] for name, one in kept.items()]
        told = {"robot": robot, "cameras": cameras}
        return watchers, [PICTURES, pack(told), *(bytes(image.data) for image in kept.values())]

    def forget(self, now_s: float) -> None:
        """Drop what was asked for too long ago. Call it some times a second."""
        if not self._asked and not self._shown_s:
            return
        for robot, watchers in list(self._asked.items()):
            for watcher, at_s in list(watchers.items()):
                if now_s - at_s > ASKED_FOR_S:
                    del watchers[watcher]
            if not watchers:
                del self._asked[robot]
        for robot in [one for one, at_s in self._shown_s.items() if now_s - at_s > ASKED_FOR_S]:
            del self._shown_s[robot]
