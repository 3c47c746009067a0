"""What a gateway knows of another one of its schedule: whether it is there, and how far away. Pure.

A peer is there while its beats come. It counts as lost when it has been silent for `SILENT_AFTER_S`, when its
connection ends; then its workers count as lost, too. A pause of our own, in which nothing was read, counts for nobody's
silence. One that runs another schedule is there: of its workers those count whose replica is the same in both.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rosa_server.plan.peering import Beat

BEAT_EVERY_S = 0.1
SILENT_AFTER_S = 0.5
MAX_PAST_LIVES = 64
RTT_RATE = 0.2  # by which each beat corrects the time there and back
MAX_RTT_S = 1.0

ABSENT, HERE = "absent", "here"
BEATS, NEW_LIFE, FALLS_SILENT, ENDS = "beats", "new_life", "falls_silent", "ends"

# (state, what happens) -> the next state. What is not here cannot happen.
TABLE = {
    (ABSENT, BEATS): HERE,
    (ABSENT, NEW_LIFE): ABSENT,
    (ABSENT, ENDS): ABSENT,
    (HERE, BEATS): HERE,
    (HERE, NEW_LIFE): ABSENT,  # it was started again; its beat follows
    (HERE, FALLS_SILENT): ABSENT,
    (HERE, ENDS): ABSENT,
}


@dataclass(slots=True)
class PeerGateway:
    """One other gateway."""

    node: str
    state: str = ABSENT
    life: str = ""
    epoch: int = 0
    heard_s: float = 0.0
    heard_number: int = 0
    rtt_s: float = 0.0  # there and back
    beat: Beat | None = None  # the last one of this life
    said_number: int = 0
    knows: int = 0  # the version of our slots that it has certainly heard
    _told: dict[int, int] = field(default_factory=dict)  # beat -> the version that is told with it
    _paused_s: float = 0.0  # of our own, since its last beat
    _said_s: dict[int, float] = field(default_factory=dict)  # beats that may still be answered
    _past: dict[str, None] = field(default_factory=dict)  # its earlier lives, which come back no more

    def happens(self, event: str) -> bool:
        """Returns whether it was there until now, and is no more. Raises `ValueError` for what cannot happen."""
        after = TABLE.get((self.state, event))
        if after is None:
            raise ValueError(f"{self.node}: {event} cannot happen to a gateway that is {self.state}")
        before, self.state = self.state, after
        return before == HERE and after != HERE

    def hears(self, now_s: float, beat: Beat) -> tuple[bool, bool]:
        """A beat has come. Returns whether it counts, and whether the peer was lost with it."""
        if beat.life in self._past or (beat.life == self.life and beat.number <= self.heard_number):
            return False, False
        lost = False
        if beat.life != self.life:
            if self.life:
                lost = self.happens(NEW_LIFE)
                self._past[self.life] = None
                if len(self._past) > MAX_PAST_LIVES:
                    del self._past[next(iter(self._past))]
            self.life, self.rtt_s = beat.life, 0.0
            self.knows = 0
            self._told.clear()  # another process has heard these
        self.heard_s, self.heard_number, self.beat, self.epoch = now_s, beat.number, beat, beat.epoch
        self._paused_s = 0.0
        self.knows = max(self.knows, self._told.pop(beat.answers, 0))
        said_s = self._said_s.pop(beat.answers, None)
        if said_s is not None:
            self._measured(now_s - said_s - beat.held_ms / 1000)
        self.happens(BEATS)
        return True, lost

    def _measured(self, rtt_s: float) -> None:
        rtt_s = min(max(0.0, rtt_s), MAX_RTT_S)
        self.rtt_s = rtt_s if not self.rtt_s else self.rtt_s + RTT_RATE * (rtt_s - self.rtt_s)

    def silent_at_s(self) -> float:
        """When it counts as lost if nothing is heard before."""
        return self.heard_s + SILENT_AFTER_S + self._paused_s

    def we_paused(self, seconds: float) -> None:
        """This gateway did nothing for so long; what the peer has said meanwhile is not read yet."""
        self._paused_s += seconds

    def says(self, now_s: float, version: int = 0) -> tuple[int, int, float]:
        """The next beat to it: its number, which one of the peer's it answers, and how long that was kept, in ms.
        `version`: of our slots that is told with it."""
        self.said_number += 1
        self._said_s[self.said_number], self._told[self.said_number] = now_s, version
        for book in (self._said_s, self._told):
            if len(book) > MAX_PAST_LIVES:
                del book[next(iter(book))]
        held_ms = (now_s - self.heard_s) * 1000 if self.heard_number else 0.0
        return self.said_number, self.heard_number, held_ms
