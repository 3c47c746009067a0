"""Gateways over real sockets: who is heard, under which name, and who is not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from zmq.utils import z85

from rosa_contract.clock import MonotonicClock
from rosa_contract.keyfile import KeyFileError, read_keys
from rosa_contract.wire import codec
from rosa_server.plan.peer_codec import encode_peer
from rosa_server.plan.peering import Beat, Forward, ForwardCancel, Forwarded, PeerHello, ToPeer
from rosa_server.serving.base.peer_keys import PEER_DOMAIN, PeerKeys
from rosa_server.serving.base.readiness import Readiness
from rosa_server.serving.base.watched_link import WatchedLink
from rosa_server.serving.edge import peer_links
from rosa_server.serving.edge.access import ZAP_DOMAIN, ZAP_ENDPOINT, AccessError, KeyRing, admit, make_keys
from rosa_server.serving.edge.peer_links import PeerLinks
from rosa_sim.ports import free_ports
from tests.unit.server.serving.core.stage import request

PATIENCE_S = 60.0
NODES = ("a", "b", "c")
MAX_BYTES = 1 << 20
FRAMES = [bytes(frame) for frame in codec.encode(request(7, "system1", 300.0))]


def beat(node: str, number: int = 1) -> Beat:
    return Beat(node, f"{node}1", 1, number, 0)


class End:
    """The links of one node, with its own answer to who may connect."""

    def __init__(self, world: World, here: str, schedule: str = "one") -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.zap = self.context.socket(zmq.REP)
        self.zap.bind(ZAP_ENDPOINT)
        others = [name for name in world.endpoints if name != here]
        self.keys = PeerKeys(world.folder, here, others)
        hello = PeerHello(here, f"{here}1", schedule)
        self.cut: list[str] = []
        self.links = PeerLinks(self.context, hello, world.endpoints, self.keys, MAX_BYTES, self.cut.append)
        self.links.listen()
        self.readiness = Readiness()
        self.readiness.register(self.zap)
        self.links.register(self.readiness)
        self.heard: list[tuple[str, ToPeer]] = []
        self.ended: list[str] = []

    def step(self) -> None:
        for socket in self.readiness.wait(2):
            if socket is self.zap:
                self.zap.send_multipart(admit(self.zap.recv_multipart(), None, None, self.keys))
        now_s = MonotonicClock().now_s()
        self.ended += self.links.look(now_s, at_once=True)
        self.heard += [(node, _whole(message)) for node, message in self.links.received(now_s)]

    def close(self) -> None:
        self.links.close()
        self.zap.close()
        self.context.term()


def _whole(message: Any) -> Any:
    """What was heard, with its frames as bytes, which may be compared."""
    if isinstance(message, Forward):
        return Forward(**{**vars(message), "frames": [bytes(frame) for frame in message.frames]})
    if isinstance(message, Forwarded) and message.output is not None:
        return Forwarded(**{**vars(message), "output": bytes(message.output)})
    return message


class World:
    def __init__(self, folder: Path, refusals: list[dict[str, Any]]) -> None:
        self.folder, self.refusals = folder, refusals
        ports = free_ports(2)
        self.endpoints = {name: f"tcp://127.0.0.1:{port}" for name, port in zip("ab", ports, strict=True)}
        make_keys(folder, nodes=NODES)
        self.ends: list[End] = []
        self._raw: list[tuple[zmq.Socket[bytes], WatchedLink | None]] = []
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()

    def end(self, here: str, **how: Any) -> End:
        self.ends.append(End(self, here, **how))
        return self.ends[-1]

    def stop(self, end: End) -> None:
        self.ends.remove(end)
        end.close()

    def raw(self, keys: PeerKeys | None, to: str = "a") -> zmq.Socket[bytes]:
        """A socket in the hand of the test, connected to the gateway of `to`."""
        socket = self._context.socket(zmq.DEALER)
        socket.linger = 0
        self._raw.append((socket, WatchedLink(socket, keys.towards(to)) if keys is not None else None))
        socket.connect(self.endpoints[to])
        return socket

    def until(self, condition: Callable[[], object]) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end_s, (self.refusals, [end.heard for end in self.ends])
            for end in self.ends:
                end.step()

    def refused(self, cause: str) -> bool:
        return cause in [one["cause"] for one in self.refusals]

    def close(self) -> None:
        for end in self.ends:
            end.close()
        for socket, watched in self._raw:
            if watched is not None:
                watched.close()
            socket.close()
        self._context.term()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    refusals: list[dict[str, Any]] = []
    warning = peer_links.log.warning

    def seen(event: str, **fields: Any) -> None:
        if event == "peer_refused":
            refusals.append(fields)
        warning(event, **fields)

    monkeypatch.setattr(peer_links.log, "warning", seen)
    # A busy machine loses no message of these tests with a link that it was too slow for.
    monkeypatch.setattr(peer_links, "ENDS_MS", int(PATIENCE_S * 1000))
    made = World(tmp_path / "keys", refusals)
    yield made
    made.close()


def says(world: World, end: End, to: str, message: ToPeer) -> None:
    """Send it as soon as there is a link."""
    sent = False

    def gone() -> bool:
        nonlocal sent
        sent = sent or end.links.send(to, message)
        return sent

    world.until(gone)


def test_each_hears_the_other_under_the_name_of_its_key_with_all_that_a_message_carries(world: World) -> None:
    a, b = world.end("a"), world.end("b")
    forward = Forward(1, "a1", 1, 4, 7, "r1", "system1", "pick", "gpu1", 99.0, 1.0, False, "", FRAMES)
    answer = Forwarded(1, "a1", 1, 4, 7, "", "", "", 5.0, 2, b"o" * 100_000)
    for end, to, message in ((a, "b", forward), (b, "a", answer), (a, "b", ForwardCancel("a1", [1]))):
        says(world, end, to, message)
    world.until(lambda: len(b.heard) == 2 and len(a.heard) == 1)
    assert b.heard == [("a", forward), ("a", ForwardCancel("a1", [1]))]
    assert a.heard == [("b", answer)]
    assert not world.refusals and not a.cut and not b.cut


def test_a_gateway_of_another_schedule_is_not_heard(world: World) -> None:
    a, b = world.end("a"), world.end("b", schedule="another")
    tried = 0

    def refused() -> bool:
        nonlocal tried
        tried += b.links.send("a", beat("b"))
        return tried > 3 and [one["cause"] for one in world.refusals].count("other_schedule") >= 2

    world.until(refused)  # by each of the two
    assert a.heard == [] and b.heard == []


def test_nobody_speaks_for_another_node(world: World) -> None:
    a = world.end("a")
    c = PeerKeys(world.folder, "c", ["a"])
    raw = world.raw(c)
    raw.send_multipart(encode_peer(PeerHello("b", "b1", "one")))
    raw.send_multipart(encode_peer(beat("b")))
    b = world.end("b")
    says(world, b, "a", beat("b", 2))
    world.until(lambda: a.heard)
    assert a.heard == [("b", beat("b", 2))], "c is no node of this file, so its key opens nothing"
    named_wrongly = PeerKeys(world.folder, "b", ["a"])
    other = world.raw(named_wrongly)
    other.send_multipart(encode_peer(PeerHello("a", "a9", "one")))
    world.until(lambda: world.refused("wrong_key"))
    assert len(a.heard) == 1


def test_who_has_no_key_or_an_unknown_one_is_not_heard(world: World, tmp_path: Path) -> None:
    a = world.end("a")
    plain = world.raw(None)
    make_keys(tmp_path / "own", nodes=("a", "b"))
    forged = tmp_path / "forged"  # the right gateway's public key, and an own pair
    make_keys(forged, nodes=("b",))
    (forged / "gateways" / "a.key").write_bytes((world.folder / "gateways" / "a.key").read_bytes())
    stranger = world.raw(PeerKeys(forged, "b", ["a"]))
    for socket in (plain, stranger):
        for message in (PeerHello("b", "b1", "one"), beat("b")):
            socket.send_multipart(encode_peer(message))
    b = world.end("b")
    for number in range(3):
        says(world, b, "a", beat("b", number))
    world.until(lambda: len(a.heard) == 3)
    assert [message for _, message in a.heard] == [beat("b", number) for number in range(3)]
    with pytest.raises(KeyFileError):
        PeerKeys(tmp_path / "own", "c", ["a"])


def test_nothing_counts_before_the_hello_and_a_second_one_ends_the_connection(world: World) -> None:
    a = world.end("a")
    raw = world.raw(PeerKeys(world.folder, "b", ["a"]))
    for message in (beat("b", 1), PeerHello("b", "b1", "one"), beat("b", 2), PeerHello("b", "b1", "one")):
        raw.send_multipart(encode_peer(message))
    world.until(lambda: world.refused("unexpected_message"))
    assert a.heard == [("b", beat("b", 2))]


@pytest.mark.parametrize(
    ("frames", "cause"),
    [
        ([b"noise"], "not_msgpack"),
        ([*encode_peer(ForwardCancel("b1", [])), b"more"], "wrong_frame_count"),
        ([encode_peer(Forward(1, "b1", 1, 4, 7, "r", "c", "t", "g", 9.0, 1.0))[0], *[b""] * 5000], "wrong_frame_count"),
        ([encode_peer(beat("b"))[0], *[bytes(1 << 20)] * 40], "too_large"),
    ],
)  # fmt: skip
def test_whoever_breaks_a_rule_is_cut_off_and_may_come_again(
    world: World, frames: list[bytes], cause: str
) -> None:
    a = world.end("a")
    raw = world.raw(PeerKeys(world.folder, "b", ["a"]))
    for said in (encode_peer(PeerHello("b", "b1", "one")), frames):
        raw.send_multipart(said)
    world.until(lambda: world.refused(cause))
    says(world, world.end("b"), "a", beat("b"))
    world.until(lambda: a.heard)
    assert a.heard == [("b", beat("b"))]


def test_the_end_of_a_link_is_told_and_the_next_life_of_the_gateway_is_heard(world: World) -> None:
    a, b = world.end("a"), world.end("b")
    says(world, a, "b", beat("a"))
    world.until(lambda: b.heard)
    assert a.links.reaches("b") and not a.ended
    world.stop(b)
    world.until(lambda: a.ended == ["b"])
    assert not a.links.reaches("b") and not a.links.send("b", beat("a", 2)), (
        "nothing waits for a gateway that is gone"
    )
    b = world.end("b")
    says(world, a, "b", beat("a", 3))
    says(world, b, "a", beat("b", 1))
    world.until(lambda: a.heard and b.heard)
    assert b.heard == [("a", beat("a", 3))] and a.heard == [("b", beat("b", 1))]


def test_keys_are_made_once_and_their_names_are_those_of_files(tmp_path: Path) -> None:
    made = make_keys(tmp_path / "keys", nodes=("a", "b"))
    assert {path.name for path in made} == {
        "server.key",
        "server.key_secret",
        "slots.key_secret",
        "a.key",
        "a.key_secret",
        "b.key",
        "b.key_secret",
    }
    seals = {PeerKeys(tmp_path / "keys", *names).seal for names in (("a", ["b"]), ("b", ["a"]))}
    assert len(seals) == 1
    for name, cause in (("a", "key_exists"), ("../c", "bad_robot_name")):
        with pytest.raises(AccessError) as error:
            make_keys(tmp_path / "keys", nodes=(name,))
        assert error.value.cause == cause
    before = (tmp_path / "keys" / "slots.key_secret").read_bytes()
    make_keys(tmp_path / "keys", nodes=("c",))
    assert (tmp_path / "keys" / "slots.key_secret").read_bytes() == before
    (tmp_path / "keys" / "gateways" / "c.key").write_bytes(
        (tmp_path / "keys" / "gateways" / "a.key").read_bytes()
    )
    with pytest.raises(KeyFileError, match="same key"):
        PeerKeys(tmp_path / "keys", "b", ["a", "c"])
    (tmp_path / "keys" / "slots.key_secret").chmod(0o644)
    with pytest.raises(KeyFileError, match="others may read"):
        PeerKeys(tmp_path / "keys", "b", ["a"])


def test_a_key_opens_the_door_that_it_was_made_for_and_no_other(tmp_path: Path) -> None:
    make_keys(tmp_path, "r1", nodes=("a", "b"))
    ring, peers = KeyRing(tmp_path), PeerKeys(tmp_path, "a", ["b"])

    def let_in(domain: bytes, file: str) -> bool:
        key = z85.decode(read_keys(tmp_path / file)["public"])
        asked = [b"1.0", b"1", domain, b"127.0.0.1", b"", b"CURVE", key]
        return admit(asked, ring, None, peers)[2] == b"200"

    assert let_in(ZAP_DOMAIN, "robots/r1.key") and let_in(PEER_DOMAIN, "gateways/b.key")
    assert not let_in(PEER_DOMAIN, "robots/r1.key") and not let_in(ZAP_DOMAIN, "gateways/b.key")
    assert not let_in(PEER_DOMAIN, "gateways/a.key") and not let_in(PEER_DOMAIN, "server.key")
    plain = [b"1.0", b"1", PEER_DOMAIN, b"127.0.0.1", b"", b"NULL"]
    assert admit(plain, None, None, peers)[2] == admit(plain, None, None, None)[2] == b"400"
