"""One hostile connection: what it does follows from its number and the seed, so that it can be done again alone."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import time
from collections import deque
from collections.abc import Iterator
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event

from rosa_sim.fuzz.mutate import hello, mutated, request, valid
from rosa_sim.fuzz.wire import GREETING, MORE, RawPeer, frame, message, ready

Steps = Iterator[tuple[bytes, int]]
MAX_OPEN = 40  # connections that one process leaves open and idle
PATIENCE_S = 2.0
MANNERS = {  # how a connection behaves -> how many of a hundred do
    "messages": 88,
    "flood": 4,
    "large": 1,
    "endless": 1,
    "empty": 1,
    "half_open": 2,
    "slow": 1,
    "garbage": 2,
}


def address_of(chance: random.Random) -> str:
    """An address of this machine that is not the honest robot's. Each connection has its own: nothing waits."""
    return f"127.{chance.randint(1, 250)}.{chance.randint(0, 255)}.{chance.randint(1, 254)}"


class Attacker:
    """Connections one after the other; a few of them stay open."""

    def __init__(self, endpoint: str, seed: int) -> None:
        self._endpoint, self._seed = endpoint, seed
        self._open: deque[RawPeer] = deque()

    def connection(self, number: int) -> int:
        """Do what the connection of this number does. Returns how many whole messages it sent."""
        chance = random.Random(f"{self._seed} {number}")
        manner = chance.choices(list(MANNERS), list(MANNERS.values()))[0]
        source = address_of(chance)
        greet = manner not in ("half_open", "garbage")
        small = 4096 if chance.random() < 0.3 else 0  # a kernel buffer that is soon full of answers
        sent = 0
        try:
            peer = RawPeer(self._endpoint, source, greet, PATIENCE_S, small)
        except OSError:
            return 0
        try:
            for data, count in getattr(self, f"_{manner}")(chance):
                peer.send(data)
                sent += count
        except OSError:  # it was cut off, which is what it deserves
            pass
        self._leave(peer, chance)
        return sent

    def close(self) -> None:
        while self._open:
            self._open.popleft().close()

    def _leave(self, peer: RawPeer, chance: random.Random) -> None:
        """Close politely, or with a reset, or not yet."""
        how = chance.random()
        if how < 0.2:
            self._open.append(peer)
            if len(self._open) > MAX_OPEN:
                self._open.popleft().close()
            return
        if how < 0.5:
            with contextlib.suppress(OSError):
                peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif how < 0.8:
            peer.is_open()  # read what was answered
        peer.close()

    # -- manners: bytes to send, and how many whole messages end with them -----------------------------------------

    def _messages(self, chance: random.Random) -> Steps:
        if chance.random() < 0.5:
            yield message(hello(f"fuzz{chance.randrange(10**9)}")), 1
        for number in range(chance.randint(1, 60)):
            frames = request(number, chance) if chance.random() < 0.2 else mutated(chance)
            yield message(frames), 1

    def _flood(self, chance: random.Random) -> Steps:
        if chance.random() < 0.5:
            yield message(hello(f"fuzz{chance.randrange(10**9)}")), 1
        data = message(valid(chance))
        for _ in range(chance.randint(1, 40)):
            yield data * 50, 50

    def _large(self, chance: random.Random) -> Steps:
        if chance.random() < 0.5:
            yield message(hello(f"fuzz{chance.randrange(10**9)}")), 1
        sizes = [chance.choice((100_000, 1_000_000, 3_000_000)) for _ in range(chance.randint(1, 4))]
        yield message([*request(1, chance)[:1], *(bytes(size) for size in sizes)]), 1

    def _endless(self, chance: random.Random) -> Steps:
        data = frame(bytes(chance.choice((1, 300, 65_536))), MORE)
        for _ in range(1 + 8_000_000 // len(data) // 64):
            yield data * 64, 0

    def _empty(self, chance: random.Random) -> Steps:
        yield frame(b"", MORE) * chance.choice((20, 2000, 50_000, 1_000_000)) + frame(b""), 1

    def _half_open(self, chance: random.Random) -> Steps:
        whole = GREETING + ready()
        yield whole[: chance.randrange(len(whole))], 0

    def _slow(self, chance: random.Random) -> Steps:
        data = message(valid(chance))
        for at in range(0, len(data), 1 + len(data) // 20):
            time.sleep(0.005)
            yield data[at : at + 1 + len(data) // 20], 0

    def _garbage(self, chance: random.Random) -> Steps:
        yield GREETING + chance.choice((b"", ready())) + chance.randbytes(chance.randint(1, 5000)), 0


def attack(endpoint: str, seed: int, first: int, step: int, stop: Event, sent: Synchronized[int]) -> None:
    """A process of its own: connections `first`, `first + step`, ... until `stop`; `sent` counts whole messages.

    It yields to everybody else on this machine: hostile peers have machines of their own.
    """
    os.nice(10)
    attacker = Attacker(endpoint, seed)
    number = first
    while not stop.is_set():
        count = attacker.connection(number)
        with sent.get_lock():
            sent.value += count
        number += step
    attacker.close()
