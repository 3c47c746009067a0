"""Plays a recording in its own time. Pure: time is an argument, and the recording is anything that yields records."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rosa_server.bags.records import Record, Track

MIN_SPEED, MAX_SPEED = 0.01, 100.0
MAX_IN_ONE_STEP = 500  # messages; what is left is due at once in the next step


class RecordingPlayer:
    """One recording from `start_ns` to `end_ns`, both since 1970. It plays from the start, and again after a seek."""

    def __init__(
        self, open_at_start: Callable[[], Iterator[Record]], start_ns: int, end_ns: int, now_s: float
    ) -> None:
        self._open, self.start_ns, self.end_ns = open_at_start, start_ns, end_ns
        self._records = open_at_start()
        self._next: Record | None = next(self._records, None)
        self.speed, self.playing = 1.0, True
        self._from_ns, self._since_s = start_ns, now_s

    def at_ns(self, now_s: float) -> int:
        """Where it is in the recording."""
        gone_ns = int((now_s - self._since_s) * self.speed * 1e9) if self.playing else 0
        return min(self.end_ns, self._from_ns + gone_ns)

    def ended(self, now_s: float) -> bool:
        return self.at_ns(now_s) >= self.end_ns and self._next is None

    def play(self, now_s: float) -> None:
        if self.ended(now_s):
            self.seek(now_s, self.start_ns)
        self._hold_here(now_s)
        self.playing = True

    def pause(self, now_s: float) -> None:
        self._hold_here(now_s)
        self.playing = False

    def set_speed(self, now_s: float, speed: float) -> None:
        """How much faster than it was recorded; what is beyond the bounds becomes the bound."""
        self._hold_here(now_s)
        self.speed = min(MAX_SPEED, max(MIN_SPEED, speed))

    def seek(self, now_s: float, to_ns: int) -> list[Record]:
        """Go on from there. Returns the newest message of each topic before it: what a viewer shows at that time."""
        to_ns = min(self.end_ns, max(self.start_ns, to_ns))
        if to_ns < self.at_ns(now_s) or self._next is None:
            self._records = self._open()
            self._next = next(self._records, None)
        newest: dict[Track, Record] = {}
        while self._next is not None and self._next.time_ns < to_ns:
            newest[self._next.track] = self._next
            self._next = next(self._records, None)
        self._from_ns, self._since_s = to_ns, now_s
        return list(newest.values())

    def due(self, now_s: float) -> list[Record]:
        """What has to be shown by now."""
        at_ns = self.at_ns(now_s)
        found: list[Record] = []
        while self._next is not None and self._next.time_ns <= at_ns and len(found) < MAX_IN_ONE_STEP:
            found.append(self._next)
            self._next = next(self._records, None)
        return found

    def _hold_here(self, now_s: float) -> None:
        self._from_ns, self._since_s = self.at_ns(now_s), now_s
