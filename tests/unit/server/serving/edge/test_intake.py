"""What a message costs its sender: all CPU time from its first frame on until it is handled, and nothing of others."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import pytest

from rosa_server.serving.edge import intake
from rosa_server.serving.edge.intake import AT_ONCE, FLOOD, MAX_FRAMES, Intake

pytestmark = pytest.mark.plain  # a doorman and a socket of its own
FRAME_S = 0.001  # of CPU time for each frame that is read


class Frame(NamedTuple):
    """A frame as libzmq gives it."""

    bytes: bytes
    more: bool

    def __len__(self) -> int:
        return len(self.bytes)


class Socket:
    """Gives frames, each of which takes CPU time of the thread."""

    def __init__(self) -> None:
        self.cpu_s = 50.0
        self.waiting: deque[Frame] = deque()

    def send(self, sender: bytes, frames: int) -> None:
        self.waiting += [Frame(b"x" if at else sender, at < frames - 1) for at in range(frames)]

    def recv(self, flags: int, copy: bool) -> Frame:
        self.cpu_s += FRAME_S
        return self.waiting.popleft()


class Doorman:
    """Writes down what is charged."""

    def __init__(self) -> None:
        self.charged: list[tuple[bytes, float, float]] = []  # sender, CPU time in s, how bad
        self.ignored: set[bytes] = set()

    def ignores(self, now_s: float, frame: Any) -> bool:
        return frame.bytes in self.ignored

    def heard(self, now_s: float, frame: Any, size: int, frames: int, spent_s: float, bad: float) -> None:
        self.charged.append((frame.bytes, spent_s, bad))


class Bench:
    """An intake between the two."""

    def __init__(self) -> None:
        self.socket, self.doorman = Socket(), Doorman()
        made: Any = (self.socket, self.doorman)
        self.intake = Intake(*made)

    def read(self, sender: bytes, frames: int = 2) -> intake.Message:
        self.socket.send(sender, frames)
        message = self.intake.read(0.0)
        assert message is not None
        return message

    def handle(self, message: intake.Message, took_s: float) -> float:
        """What its sender is charged, in s."""
        self.socket.cpu_s += took_s
        self.intake.handled(0.0, message, 0.25, 0.0)
        return self.doorman.charged[-1][1]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench()
    monkeypatch.setattr(intake.time, "thread_time", lambda: made.socket.cpu_s)
    return made


def test_reading_handling_and_the_answer_are_charged(bench: Bench) -> None:
    assert bench.handle(bench.read(b"one", 3), 2.0) == pytest.approx(3 * FRAME_S + 2.0 + 0.25)


def test_what_others_take_while_a_message_is_put_off_is_not_its_own(bench: Bench) -> None:
    waits = bench.read(b"waits").put_off()
    assert bench.handle(bench.read(b"other"), 7.0) == pytest.approx(2 * FRAME_S + 7.25)
    assert bench.handle(waits.taken_up(), 2.0) == pytest.approx(2 * FRAME_S + 2.25)


def test_a_message_that_is_thrown_away_in_parts_is_charged_with_all_of_them(bench: Bench) -> None:
    """And with nothing of what happened between the parts. Whoever sends so many frames is cut off before the end."""
    frames = 2 * AT_ONCE + 100
    bench.socket.send(b"flood", frames)
    parts = 0
    while (message := bench.intake.read(0.0)) is None:
        parts += 1
        bench.socket.cpu_s += 100.0  # answers leave in between
    assert parts == 3, "the first frames, and what is thrown away at once, twice"
    assert bench.doorman.charged == [(b"flood", 0.0, FLOOD)]
    assert (message.frame_count, len(message.frames)) == (frames, MAX_FRAMES + 1)
    assert bench.handle(message, 2.0) == pytest.approx(frames * FRAME_S + 2.25)
    assert bench.handle(bench.read(b"next"), 0.0) == pytest.approx(2 * FRAME_S + 0.25), "the flood's is paid"


def test_the_next_sender_does_not_pay_for_one_that_is_ignored(bench: Bench) -> None:
    bench.doorman.ignored.add(b"cut")
    for frames in (2, AT_ONCE + 100):
        bench.socket.send(b"cut", frames)
        while bench.socket.waiting:
            assert bench.intake.read(0.0) is None
    assert bench.handle(bench.read(b"next"), 0.0) == pytest.approx(2 * FRAME_S + 0.25)
