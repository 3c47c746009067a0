"""A robot keeps its name while it is silent; with keys, the key is the name, and one that is removed counts no more."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest
import zmq.auth

from rosa_contract.wire import messages as m
from rosa_server.serving.edge.access import KEY_PROPERTY, make_keys
from tests.system.server_harness import PATIENCE_S, Robot, robot, serving


def test_a_silent_robot_keeps_its_name_and_is_served_on_its_return(tmp_path: Path) -> None:
    with serving(tmp_path) as server, robot(server, "r1") as rightful, robot(server, "r1") as other:
        rightful.join()
        for _ in range(2):
            time.sleep(3.2)
            refused = other.hello(token="")
            assert isinstance(refused, m.Refused)
            assert refused.cause == "robot_id_taken"
            for number in range(5):
                rightful.request(number)
                assert rightful.answer().status == m.OK


def test_a_robot_that_was_killed_comes_back_at_once_with_its_token(tmp_path: Path) -> None:
    with serving(tmp_path) as server, robot(server, "r1") as first:
        first.join()
        first.close()  # no bye, as after a crash
        with robot(server, "r1") as impostor, robot(server, "r1") as again:
            refused = impostor.hello(token="")
            assert isinstance(refused, m.Refused) and refused.cause == "robot_id_taken"
            began_s = time.monotonic()
            again.join()
            if time.monotonic() - began_s > 2.5:
                pytest.skip("this machine stood still for longer than a silent robot has to wait")
            again.send(m.Bye())
            again.request(1)  # answered after the bye
            assert isinstance(again.receive(), m.Refused)
            assert isinstance(impostor.hello(token=""), m.Welcome), "a bye frees the name"


def test_a_robot_whose_key_is_removed_is_cut_off_and_the_others_stay(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    for name in ("r1", "r2"):
        make_keys(folder, name)

    def keyed(name: str) -> Robot:
        pair = zmq.auth.load_certificate(folder / "robots" / f"{name}.key_secret")
        public, _ = zmq.auth.load_certificate(folder / "server.key")
        assert pair[1] is not None
        return Robot(server, name, (public, pair[0], pair[1]))

    with serving(tmp_path, gateway=f', curve_keys: "{folder}"') as server:
        one, two, late = keyed("r1").join(), keyed("r2").join(), keyed("r1")
        time.sleep(2.0)  # its handshake is over, and it has not said a word when its key goes
        (folder / "robots" / "r1.key").unlink()
        end_s = time.monotonic() + PATIENCE_S
        while not server.events("connection_cut_off"):
            assert time.monotonic() < end_s, "it was not cut off"
            time.sleep(0.05)
        (line,) = server.events("connection_cut_off")
        assert (line["cause"], line["robot"]) == ("key_revoked", "r1")
        one.request(1)
        try:
            answer = one.receive(1.0)
        except TimeoutError:
            answer = None
        assert answer is None, "it is not served and cannot connect again"
        two.request(1)
        assert two.answer().status == m.OK
        two.send(m.HealthQuery())
        report = two.receive()
        assert isinstance(report, m.HealthReport)
        assert list(report.robots) == ["r2"]
        refused = late.hello()
        assert isinstance(refused, m.Refused) and "removed" in refused.reason
        one.close()
        two.close()
        late.close()


def test_a_silent_connection_with_a_key_that_was_replaced_is_not_the_robots(tmp_path: Path) -> None:
    """Whoever has a stolen key keeps connections ready that have not said a word when it is replaced, and may claim to
    have the new one, which is public."""
    folder, made = tmp_path / "keys", tmp_path / "made"
    for one in (folder, made):
        make_keys(one, "r1")
    public, secret = zmq.auth.load_certificate(folder / "robots" / "r1.key_secret")
    server_public, _ = zmq.auth.load_certificate(folder / "server.key")
    new, _ = zmq.auth.load_certificate(made / "robots" / "r1.key")
    assert secret is not None
    with serving(tmp_path, gateway=f', curve_keys: "{folder}"') as server:
        keys = (server_public, public, secret)
        with closing(Robot(server, "r1", keys)) as rightful:
            rightful.join().send(m.Bye())
        claim = f"{KEY_PROPERTY}:{new.decode()}"
        thief = Robot(server, "r1", keys, claim=claim)
        time.sleep(2.0)  # its handshake is over
        (folder / "robots" / "r1.key").unlink()
        (made / "robots" / "r1.key").rename(folder / "robots" / "r1.key")
        time.sleep(3.0)  # the gateway has seen it: it looks twice a second
        refused = thief.hello()
        thief.close()
        assert isinstance(refused, m.Refused) and refused.cause == "wrong_key"
        assert f"another key in the key folder than this connection's {public.decode()}" in refused.reason
