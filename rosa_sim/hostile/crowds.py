"""Finding 2.5 and those of the first round: many connections."""

from __future__ import annotations

import contextlib
import itertools
import time

from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_sim.fuzz.wire import GREETING, RawPeer, idle_connections, message
from rosa_sim.hostile.attempt import STRANGER, Attempt, Place
from rosa_sim.hostile.robots import hello_of

IDLE, HALF_OPEN, HIT_AND_RUN, GREEDY = 3900, 40, 1500, 12
WATCHED_S = 4.0
CROWD = itertools.count()  # of greedy robots
MAX_SHARE = 0.15  # of a core, that idle connections may cost
HEALTH = message(codec.encode(m.HealthQuery()))


def _idle(place: Place) -> tuple[str, str]:
    """Each says one understandable thing every five seconds, so that it may stay."""
    began_s, before_s = time.monotonic(), place.cpu_s()
    time.sleep(3.0)
    quiet = (place.cpu_s() - before_s) / (time.monotonic() - began_s)
    peers: list[RawPeer] = []
    for index in range(IDLE):
        with contextlib.suppress(OSError):
            peers.append(RawPeer(place.endpoint, f"127.0.5.{1 + index % 4}", timeout_s=2.0))
        time.sleep(5e-4)  # `swept_names` is the one that hurries
    time.sleep(1.1)  # the metrics are set once a second
    counted = place.counted()
    began_s, before_s = time.monotonic(), place.cpu_s()
    for peer in peers:
        with contextlib.suppress(OSError):
            peer.send(HEALTH)
    for peer in peers:
        peer.is_open()
    time.sleep(WATCHED_S)
    share = (place.cpu_s() - before_s) / (time.monotonic() - began_s) - quiet
    for peer in peers:
        peer.close()
    words = f"{counted['rosa_strangers']:.0f} are kept; they cost {share:.2f} of a core"
    return words, f"more than {MAX_SHARE} of a core" if share > MAX_SHARE else ""


def _half_open(place: Place) -> tuple[str, str]:
    peers = [RawPeer(place.endpoint, STRANGER, greet=index % 2 == 0) for index in range(HALF_OPEN)]
    for index, peer in enumerate(peers[1::2]):
        peer.send(GREETING[:index])
    began_s, left = time.monotonic(), peers
    while left and time.monotonic() - began_s < 20.0:
        left = [peer for peer in left if peer.is_open()]
        time.sleep(0.2)
    words = f"{len(left)} of {HALF_OPEN} open after {time.monotonic() - began_s:.0f} s"
    for peer in peers:
        peer.close()
    return words, "some stayed" if left else ""


def _few_descriptors(place: Place) -> tuple[str, str]:
    idle = idle_connections("127.0.0.1", place.port, 1500)
    time.sleep(2.0)
    newcomer = RawPeer(place.endpoint, STRANGER)
    newcomer.send(HEALTH)
    served = isinstance(codec.decode(newcomer.receive()), m.HealthReport)
    for one in idle:
        one.close()
    newcomer.close()
    return "a newcomer is answered" if served else "a newcomer is not answered", "" if served else "no answer"


def _hit_and_run(place: Place) -> tuple[str, str]:
    """Each sends what nobody can read and is gone before it is read."""
    garbage = message([b"\xc1" + bytes(60_000)])
    began_s, made = time.monotonic(), 0
    for index in range(HIT_AND_RUN):
        with contextlib.suppress(OSError):
            peer = RawPeer(place.endpoint, f"127.0.6.{1 + index % 250}", timeout_s=2.0)
            peer.send(garbage)
            peer.close()
            made += 1
    return f"{made} of them, {made / (time.monotonic() - began_s):.0f} per second", ""


def _greedy(place: Place) -> tuple[str, str]:
    """Welcomed robots, each from another address, that say hello as fast as they may and read the answers."""
    again = next(CROWD)  # an address that was cut off has to wait, and its robot's name is reserved
    said = [message(codec.encode(hello_of(f"greedy{again}-{index}"))) for index in range(GREEDY)]
    peers: list[RawPeer] = []
    for index, hello in enumerate(said):
        peers.append(RawPeer(place.endpoint, f"127.2.{again % 250}.{1 + index}"))
        peers[-1].send(hello)
        if not isinstance(answer := codec.decode(peers[-1].receive()), m.Welcome):
            return "a robot was not welcomed", f"{answer}"
    left, made, end_s = dict(enumerate(peers)), 0, time.monotonic() + WATCHED_S
    while left and time.monotonic() < end_s:
        for index in list(left):
            peers[index].socket.settimeout(1.0)
            try:
                peers[index].send(said[index] * 4)
                made += 4
            except OSError:
                del left[index]
        for index in list(left):
            if not peers[index].is_open():
                del left[index]
    for peer in peers:
        peer.close()
    return f"{made} hellos, {GREEDY - len(left)} of {GREEDY} cut off", ""


CROWDS = (
    Attempt(
        "greedy_robots",
        "2.10",
        f"{GREEDY} welcomed robots say hello as fast as they may, and read the answers",
        "robots are served: connections take turns",
        _greedy,
    ),
    Attempt(
        "idle_connections",
        "2.5",
        f"{IDLE} connections that stay strangers and say one thing every five seconds",
        f"less than {MAX_SHARE} of a core",
        _idle,
        ("too_many_connections",),
    ),
    Attempt(
        "hit_and_run",
        "2.5",
        f"{HIT_AND_RUN} connections, each with 60 kB of noise and gone before it is read",
        "robots are served",
        _hit_and_run,
        ("not_msgpack", "no_handshake"),
    ),
    Attempt(
        "half_open",
        "1.2",
        f"{HALF_OPEN} connections that do not finish their handshake, or never say hello",
        "none is open after 20 s",
        _half_open,
        ("no_hello",),
    ),
    Attempt(
        "few_descriptors",
        "1.2",
        "1500 idle connections with `ulimit -n 1024`",
        "a newcomer is answered",
        _few_descriptors,
        ("too_many_connections",),
        descriptors=1024,
    ),
)
