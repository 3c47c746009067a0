"""Findings 2.1 and 2.2: a peer that brings its own name for its connection.

Before, libzmq ended the process when its number of a new connection was a name that a peer had brought, and a
connection under the name of another one was in that one's session.
"""

from __future__ import annotations

import contextlib
import ctypes
import random
import socket
import struct
import time

import zmq

from rosa_contract.errors import CodecError
from rosa_contract.keyfile import load_robot_keys
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_sim.fuzz.wire import COMMAND, GREETING, MORE, RawPeer, frame, message, ready
from rosa_sim.hostile.attempt import STRANGER, THIEF, VICTIM, Attempt, Place
from rosa_sim.hostile.robots import FRONT, STATE, hello_of

GUESSED, ORDINARY = 60, 25
NAMED, QUICK = 200, 3000
NUMBERS = 1 << 32  # names that libzmq gives before one comes again


def guesses(first: int) -> list[bytes]:
    """What the connections from the `first` one on are called in an unseeded process, as far as one can guess."""
    libc = ctypes.CDLL(None)
    libc.srand(1)  # what a process has that never called it
    names = []
    for _ in range(4):  # which of its sockets the robots' one is
        start = libc.rand() | (libc.rand() << 31)
        names += [b"\0" + struct.pack(">I", (start + first + i) & 0xFFFFFFFF) for i in range(GUESSED // 4)]
    return names


def alive_after(place: Place, words: str) -> tuple[str, str]:
    time.sleep(1.0)
    if place.alive():
        return f"{words}; the server runs", ""
    return f"{words}; {place.log.read_text().splitlines()[-1]}", "the server was ended"


def _guessed(place: Place) -> tuple[str, str]:
    peers = []
    for name in guesses(first=8):
        with contextlib.suppress(OSError):
            peers.append(RawPeer(place.endpoint, STRANGER, name=name, timeout_s=2.0))
    for _ in range(ORDINARY):
        with contextlib.suppress(OSError):
            peers.append(RawPeer(place.endpoint, STRANGER, timeout_s=2.0))
    for peer in peers:
        with contextlib.suppress(OSError):
            peer.send(message(codec.encode(m.HealthQuery())))
    happened = alive_after(place, f"{len(peers)} connections")
    for peer in peers:
        peer.close()
    return happened


def _swept(place: Place) -> tuple[str, str]:
    """As many names as may stand, spread over all numbers, while connections make libzmq count on."""
    standing = [
        RawPeer(place.endpoint, STRANGER, name=b"\0" + struct.pack(">I", index * (NUMBERS // NAMED)))
        for index in range(NAMED)
    ]
    began_s, made = time.monotonic(), 0
    for _ in range(QUICK):
        with contextlib.suppress(OSError):
            RawPeer(place.endpoint, "127.0.0.3", timeout_s=2.0).close()
            made += 1
    rate = made / (time.monotonic() - began_s)
    for peer in standing:
        with contextlib.suppress(OSError):
            peer.send(message(codec.encode(m.HealthQuery())))
    words, broken = alive_after(place, f"{NAMED} names stand, {made} connections, {rate:.0f} per second")
    for peer in standing:
        peer.close()
    return words, broken


def keyed(
    place: Place, context: zmq.Context[zmq.Socket[bytes]], name: bytes, owner: str = THIEF
) -> zmq.Socket[bytes]:
    """A connection with the key of `owner`, under this name."""
    assert place.keys is not None
    one = context.socket(zmq.DEALER)
    one.linger = 0
    own = load_robot_keys(str(place.keys), owner)
    one.curve_publickey, one.curve_secretkey, one.curve_serverkey = own.public, own.secret, own.server
    if name:
        one.setsockopt(zmq.IDENTITY, name)
    one.connect(place.endpoint)
    return one


def _guessed_with_a_key(place: Place) -> tuple[str, str]:
    with zmq.Context() as context:
        sockets = [keyed(place, context, name) for name in guesses(first=8)]
        time.sleep(1.0)
        sockets += [keyed(place, context, b"") for _ in range(ORDINARY)]
        for one in sockets:
            with contextlib.suppress(zmq.Again):
                one.send_multipart(codec.encode(m.HealthQuery()), zmq.NOBLOCK)
        happened = alive_after(place, f"{len(sockets)} connections")
        for one in sockets:
            one.close()
    return happened


def _without_hello(place: Place) -> tuple[str, str]:
    """Request, cancel and bye under the name of a connection that has dropped, by somebody else with a key."""
    request = codec.encode(m.Request(1, "system1", 5000.0, "", STATE, {"front": FRONT}))
    answers: list[m.Message | None] = []
    with zmq.Context() as context:
        victim = keyed(place, context, b"", VICTIM)
        victim.send_multipart(codec.encode(hello_of(VICTIM)))
        if not isinstance(read(victim, 10.0), m.Welcome):
            return "the victim was not welcomed", "the victim was not welcomed"
        victim.close()  # no bye, as after a crash
        time.sleep(0.5)
        thieves = [keyed(place, context, name) for name in guesses(first=0)]
        time.sleep(1.0)
        for one in thieves:
            with contextlib.suppress(zmq.Again):
                one.send_multipart(request, zmq.NOBLOCK)
        answers = [read(one) for one in thieves]
        for one in thieves:
            one.close()
    served = sum(isinstance(answer, m.Response) for answer in answers)
    refused = sum(isinstance(answer, m.Refused) for answer in answers)
    words = f"{served} of {len(answers)} were answered as a robot, {refused} refused"
    return words, "answered without a hello" if served else ""


def _taken_over(place: Place) -> tuple[str, str]:
    """A robot's link drops; somebody without its token says hello as that robot, under each likely name."""
    robot = RawPeer(place.endpoint)
    robot.send(message(codec.encode(hello_of("r1"))))
    codec.decode(robot.receive())
    robot.close()
    time.sleep(0.5)
    welcomed = refused = 0
    for name in guesses(first=0):
        with contextlib.suppress(OSError):
            thief = RawPeer(place.endpoint, STRANGER, name=name, timeout_s=2.0)
            thief.send(message(codec.encode(hello_of("r1"))))
            answer = codec.decode(thief.receive())
            welcomed += isinstance(answer, m.Welcome)
            refused += isinstance(answer, m.Refused)
            thief.close()
    words = f"{welcomed} of {GUESSED} were welcomed as that robot, {refused} were told that they are not"
    return words, "its session was taken over" if welcomed else ""


def read(one: zmq.Socket[bytes], timeout_s: float = 0.5) -> m.Message | None:
    if not one.poll(int(timeout_s * 1000)):
        return None
    with contextlib.suppress(CodecError):
        return codec.decode(one.recv_multipart())
    return None


def odd_handshakes(chance: random.Random) -> bytes:
    """What comes instead of a handshake: other versions of ZMTP, names in parts, commands out of order, noise."""
    other = chance.choice((b"\0\0", b"\1\0", b"\2\5", b"\3\0", b"\3\1", b"\4\0", b"\xff\xff"))
    greeting = GREETING[:10] + other + GREETING[12:] if chance.random() < 0.7 else GREETING
    parts = [greeting[: chance.choice((1, 10, 11, 12, 64, 64, 64, 64))]]
    name = chance.choice((b"", b"\0\0\0\0\1", b"\0", chance.randbytes(255), chance.randbytes(300)))
    said = [
        ready(name),
        ready(
            name, **{"User-Id": b"honest0", "Peer-Address": b"1.2.3.4", "__fd": b"3", "x" * 255: bytes(9000)}
        ),
        frame(name, MORE) + frame(b"x"),
        frame(name, MORE),
        frame(name) + frame(b"", MORE) + frame(b""),
        frame(b"\x05READY\x08Identity\xff\xff\xff\xff", COMMAND),
        frame(b"\x05READY\xff", COMMAND),
        frame(b"\x05ERROR\xff", COMMAND),
        frame(b"\x04PING\0\0" + chance.randbytes(30), COMMAND) * 50,
        frame(b"\x09SUBSCRIBEx", COMMAND),
        frame(b"\x06CANCELx", COMMAND),
        frame(b"", COMMAND),
        frame(b"\x05HELLO" + bytes(194), COMMAND),
        bytes((chance.randrange(256),)) + chance.randbytes(chance.randrange(64)),
        message(codec.encode(m.HealthQuery())),
    ]
    parts += chance.choices(said, k=chance.randint(1, 4))
    return b"".join(parts)


def _odd(place: Place) -> tuple[str, str]:
    chance, made = random.Random(5), 0
    for index in range(1500):
        one = socket.socket()
        try:
            one.bind((f"127.0.1.{1 + index % 200}", 0))
            one.settimeout(2.0)
            one.connect(("127.0.0.1", place.port))
            one.sendall(odd_handshakes(chance))
            if chance.random() < 0.3:
                time.sleep(0.01)
            made += 1
        except OSError:
            pass
        finally:
            one.close()
    return alive_after(place, f"{made} of them")


NAMES = (
    Attempt(
        "guessed_names",
        "2.1",
        f"{GUESSED} connections with the names that libzmq gives next, then {ORDINARY} ordinary ones",
        "the server runs: the names are dropped unread",
        _guessed,
    ),
    Attempt(
        "guessed_names_with_a_key",
        "2.1",
        "the same by a holder of a key",
        "the server runs: the names are dropped unread",
        _guessed_with_a_key,
        keys=True,
    ),
    Attempt(
        "swept_names",
        "2.1",
        f"{NAMED} names spread over all that libzmq gives, and {QUICK} quick connections",
        "the server runs, whatever their number is",
        _swept,
    ),
    Attempt(
        "odd_handshakes",
        "2.1",
        "1500 handshakes of other versions, in the wrong order, with names in parts, or of noise",
        "the server runs",
        _odd,
        ("no_handshake",),
    ),
    Attempt(
        "request_without_hello",
        "2.2",
        "a key holder requests under the name of connections that dropped",
        "no answer without a hello",
        _without_hello,
        ("hello_required",),
        keys=True,
    ),
    Attempt(
        "session_taken_over",
        "2.2",
        "hello without a token under the name of the dropped connection of that robot",
        "refused",
        _taken_over,
        ("robot_id_taken",),
    ),
)
