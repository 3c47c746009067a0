"""Who may reach the gateway."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import zmq
import zmq.auth
from zmq.utils import z85

from rosa_contract.endpoint import is_loopback
from rosa_server.serving.edge.access import AccessError, KeyRing, admit, check_bind, make_keys


@pytest.mark.parametrize(
    "endpoint", ["tcp://127.0.0.1:5570", "tcp://localhost:1", "tcp://[::1]:1", "ipc:///tmp/x"]
)
def test_loopback_needs_no_keys(endpoint: str) -> None:
    assert is_loopback(endpoint)
    check_bind(endpoint, "", insecure=False)


@pytest.mark.parametrize(
    "endpoint", ["tcp://*:5570", "tcp://0.0.0.0:5570", "tcp://192.168.1.4:5570", "tcp://eth0:5570"]
)
def test_everything_else_needs_keys_or_insistence(endpoint: str) -> None:
    with pytest.raises(AccessError, match="rosa keys") as error:
        check_bind(endpoint, "", insecure=False)
    assert error.value.cause == "open_to_network"
    check_bind(endpoint, "keys", insecure=False)
    check_bind(endpoint, "", insecure=True)


def test_a_robot_is_known_by_its_key_and_a_stranger_is_not(tmp_path: Path) -> None:
    make_keys(tmp_path, "panda1")
    ring = KeyRing(tmp_path)
    public, _ = zmq.auth.load_certificate(tmp_path / "robots" / "panda1.key")
    assert ring.robot_of(z85.decode(public)) == "panda1"
    assert ring.robot_of(bytes(32)) is None
    known = admit([b"1.0", b"7", b"rosa", b"127.0.0.1", b"", b"CURVE", z85.decode(public)], ring, None)
    assert known[:5] == [b"1.0", b"7", b"200", b"OK", b"panda1"]
    assert admit([b"1.0", b"7", b"rosa", b"127.0.0.1", b"", b"CURVE", bytes(32)], ring, None)[2] == b"400"
    assert admit([b"1.0", b"7", b"rosa", b"127.0.0.1", b"", b"NULL"], ring, None)[2] == b"400"
    assert admit([b"nonsense"], ring, None)[2] == b"500"


def test_secrets_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    for path in make_keys(tmp_path / "keys", "panda1"):
        assert path.stat().st_mode & 0o077 == 0


def test_a_robots_key_is_never_overwritten(tmp_path: Path) -> None:
    make_keys(tmp_path, "panda1")
    with pytest.raises(AccessError, match="exists") as error:
        make_keys(tmp_path, "panda1")
    assert error.value.cause == "key_exists"
    with pytest.raises(AccessError, match="expected letters") as error:
        make_keys(tmp_path, "../panda1")
    assert error.value.cause == "bad_robot_name"


def test_no_key_is_made_for_a_name_that_is_too_long_to_say_hello_with(tmp_path: Path) -> None:
    """A message takes 128 characters of a robot's name, a nodes file 32 of a node's."""
    for robots, nodes in ((["r" * 129], []), ([], ["n" * 33])):
        with pytest.raises(AccessError, match=r"at most (128|32) characters") as error:
            make_keys(tmp_path / "keys", *robots, nodes=nodes)
        assert error.value.cause == "bad_robot_name"
    assert not (tmp_path / "keys").exists()
    make_keys(tmp_path / "keys", "r" * 128, nodes=["n" * 32])


def test_a_missing_server_key_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="rosa keys") as error:
        KeyRing(tmp_path)
    assert error.value.cause == "bad_key_folder"


def test_a_refused_key_and_a_key_file_that_is_none_are_in_the_log_and_not_every_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_keys(tmp_path, "panda1")
    (tmp_path / "robots" / "panda1.key").write_text("nonsense")
    request = [b"1.0", b"7", b"rosa", b"10.0.0.9", b"", b"CURVE", bytes(32)]
    with caplog.at_level("WARNING", "rosa.server"):
        ring = KeyRing(tmp_path)
        for _ in range(3):
            assert admit(request, ring, None)[2] == b"400"
    said = {record.getMessage(): record.__dict__["fields"] for record in caplog.records}
    assert [record.getMessage() for record in caplog.records] == ["key_file_unusable", "robot_refused"]
    assert said["robot_refused"] == {"address": "10.0.0.9", "cause": "unknown_key", "key": "0" * 40}
    assert "panda1.key: expected a line" in said["key_file_unusable"]["reason"]


def test_a_server_whose_key_file_is_damaged_says_which_and_how(tmp_path: Path) -> None:
    make_keys(tmp_path)
    secret = tmp_path / "server.key_secret"
    secret.chmod(0o640)
    with pytest.raises(
        AccessError, match=r"server\.key_secret: others may read or change it .*chmod 600"
    ) as error:
        KeyRing(tmp_path)
    assert error.value.cause == "bad_key_folder"
    secret.chmod(0o600)
    text = secret.read_text()
    public = (tmp_path / "server.key").read_text().split('"')[1]
    secret.write_text(text.replace(public, zmq.curve_keypair()[0].decode()))
    with pytest.raises(AccessError, match="its two keys are no pair") as error:
        KeyRing(tmp_path)
    assert error.value.cause == "bad_key_folder"


def test_a_removed_or_replaced_key_is_told_once_and_counts_no_more(tmp_path: Path) -> None:
    for name in ("panda1", "panda2", "panda3"):
        make_keys(tmp_path, name)
    ring = KeyRing(tmp_path)
    assert ring.revoked() == set()
    first, second = (
        zmq.auth.load_certificate(tmp_path / "robots" / f"{name}.key")[0] for name in ("panda1", "panda2")
    )
    (tmp_path / "robots" / "panda1.key").unlink()
    (tmp_path / "robots" / "panda1.key_secret").unlink()
    (tmp_path / "robots" / "panda2.key").unlink()
    make_keys(tmp_path, "panda2")
    assert ring.robot_of(z85.decode(first)) is None, "asked before the gateway looks for removed keys"
    assert ring.robot_of(z85.decode(second)) is None
    assert ring.revoked() == {"panda1", "panda2"}
    assert not ring.knows("panda1") and ring.knows("panda2")
    assert ring.revoked() == set()
    make_keys(tmp_path, "panda4")
    added, _ = zmq.auth.load_certificate(tmp_path / "robots" / "panda4.key")
    assert ring.robot_of(z85.decode(added)) == "panda4", "known at once"
    shutil.rmtree(tmp_path / "robots")
    assert ring.revoked() == {"panda2", "panda3", "panda4"}
