"""Finding 2.3: a client that asks and does not read."""

from __future__ import annotations

import contextlib
import itertools
import select
import time

from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_sim.fuzz.wire import RawPeer, message
from rosa_sim.hostile.attempt import STRANGER, Attempt, Place
from rosa_sim.hostile.robots import FRONT, STATE, hello_of

ROBOTS, NAME_CHARS = 600, 120
ASKING, EACH = 434, 200
CUT_WITHIN_S = 60.0  # where the machine is busy, what the gateway has to notice comes late
TRIES = itertools.count()
SMALL = 4096  # the kernel's buffer of a peer that reads nothing


def ask_and_read_nothing(place: Place, peers: list[RawPeer], asked: bytes, each: int) -> int:
    """Sends this number from each connection, a few at a time. Returns how many connections were cut off in the end."""
    for one in peers:
        one.socket.settimeout(0.2)
    left = list(peers)
    for _ in range(each // 10):
        for one in list(left):
            try:
                one.send(asked * 10)
            except OSError:
                left.remove(one)
    end_s = time.monotonic() + CUT_WITHIN_S
    while (cut := sum(map(hung_up, peers))) < len(peers) and time.monotonic() < end_s:
        time.sleep(0.2)
    return cut


def hung_up(peer: RawPeer) -> bool:
    """Whether the gateway has ended the connection; nothing is read."""
    watched = select.poll()
    watched.register(peer.socket, select.POLLRDHUP)
    return bool(watched.poll(0))


def _health(place: Place) -> tuple[str, str]:
    robots = []
    for index in range(ROBOTS):
        robots.append(RawPeer(place.endpoint, "127.0.0.3"))
        robots[-1].send(message(codec.encode(hello_of(f"{index:03d}".ljust(NAME_CHARS, "x")))))
        robots[-1].receive()
    peers = [RawPeer(place.endpoint, STRANGER, receive_bytes=SMALL) for _ in range(ASKING)]
    before_mb = place.resident_mb()
    cut = ask_and_read_nothing(place, peers, message(codec.encode(m.HealthQuery())), EACH)
    grown_mb = place.resident_mb() - before_mb
    for one in (*robots, *peers):
        one.close()
    words = f"{cut} of {ASKING} cut off; {grown_mb:+.0f} MB"
    return words, "some were kept" if cut < ASKING else ""


def _refusals(place: Place) -> tuple[str, str]:
    request = message(codec.encode(m.Request(1, "system1", 300.0, "", STATE, {"front": FRONT})))
    source = f"127.0.10.{1 + next(TRIES) % 250}"  # one that has offended before has to wait
    peers = [RawPeer(place.endpoint, source, receive_bytes=SMALL) for _ in range(100)]
    cut = ask_and_read_nothing(place, peers, request, 2000)
    for one in peers:
        one.close()
    return f"{cut} of {len(peers)} cut off", "some were kept" if cut < len(peers) else ""


def _welcomed(place: Place) -> tuple[str, str]:
    """Welcomed robots that say hello again and again, and read nothing."""
    peers = []
    for index in range(20):
        peers.append(RawPeer(place.endpoint, f"127.0.4.{index + 1}", receive_bytes=SMALL))
        peers[-1].send(message(codec.encode(hello_of(f"deaf{index}"))))
        peers[-1].receive()
    for one in peers:
        one.socket.settimeout(0.2)
    alive, end_s = dict(enumerate(peers)), time.monotonic() + CUT_WITHIN_S
    while alive and time.monotonic() < end_s:
        for index, one in list(alive.items()):
            with contextlib.suppress(TimeoutError):
                try:
                    one.send(message(codec.encode(hello_of(f"deaf{index}"))) * 5)
                except ConnectionError:
                    del alive[index]
        time.sleep(0.02)
    for one in peers:
        one.close()
    return f"{len(peers) - len(alive)} of {len(peers)} cut off", "some were kept" if alive else ""


ANSWERS = (
    Attempt(
        "unread_health",
        "2.3",
        f"{ROBOTS} robots with names of {NAME_CHARS} letters, {ASKING} connections ask {EACH} times for health and read"
        " nothing",
        "their answers are dropped, and they are cut off",
        _health,
        ("unread_answers", "not_reading", "handling_time"),
    ),
    Attempt(
        "unread_refusals",
        "2.3",
        "100 connections request 2000 times without a hello and read nothing",
        "cut off",
        _refusals,
        ("unread_answers", "not_reading", "handling_time"),
    ),
    Attempt(
        "unread_welcomes",
        "2.3",
        "20 welcomed robots say hello again and again and read nothing",
        "cut off",
        _welcomed,
        ("unread_answers", "not_reading"),
    ),
)
