"""What else may lie in a key folder, or be done to it: nobody waits for it, and nobody else may change it."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import zmq.auth
from zmq.utils import z85

from rosa_contract.keyfile import KeyFileError, load_robot_keys
from rosa_server.serving.edge.access import LOOKS_AT_ONCE, LOOKS_PER_S, AccessError, KeyRing, make_keys

PATIENCE_S = 10.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    keys = tmp_path / "keys"
    make_keys(keys, "panda1")
    return keys


def public(folder: Path, robot: str) -> bytes:
    return z85.decode(zmq.auth.load_certificate(folder / "robots" / f"{robot}.key")[0])


def ring(folder: Path) -> KeyRing:
    """Fails where reading the folder never ends."""
    made: list[KeyRing] = []
    thread = threading.Thread(target=lambda: made.append(KeyRing(folder)), daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert made, "reading the key folder does not end"
    return made[0]


def test_a_pipe_among_the_keys_is_no_key_and_keeps_nobody_waiting(folder: Path) -> None:
    os.mkfifo(folder / "robots" / "panda2.key")
    assert ring(folder).robot_of(public(folder, "panda1")) == "panda1"


@pytest.mark.parametrize("kind", ["folder", "device"])
def test_a_folder_or_a_device_is_no_key(folder: Path, kind: str) -> None:
    odd = folder / "robots" / "panda2.key"
    if kind == "folder":
        odd.mkdir()
    else:
        odd.symlink_to("/dev/zero")
    keys = ring(folder)
    assert keys.robot_of(public(folder, "panda1")) == "panda1"
    assert not keys.knows("panda2")


@pytest.mark.parametrize("part", ["", "robots"])
def test_a_folder_that_anybody_may_write_is_refused(folder: Path, part: str) -> None:
    (folder / part).chmod(0o777)
    with pytest.raises(AccessError, match="anybody may change") as error:
        KeyRing(folder)
    assert error.value.cause == "bad_key_folder"
    assert f"chmod o-w {folder / part}" in str(error.value)


def test_a_key_that_anybody_may_write_is_nobodys(folder: Path) -> None:
    make_keys(folder, "panda2")
    (folder / "robots" / "panda2.key").chmod(0o666)
    keys = KeyRing(folder)
    assert keys.knows("panda1") and not keys.knows("panda2")


def test_no_key_is_taken_from_a_folder_that_has_been_opened_to_everybody(folder: Path) -> None:
    """Robots whose keys were read before go on; somebody may have put in the others."""
    keys = KeyRing(folder)
    (folder / "robots").chmod(0o1777)
    make_keys(folder, "stranger")
    assert keys.robot_of(public(folder, "stranger")) is None
    assert keys.robot_of(public(folder, "panda1")) == "panda1"
    (folder / "robots" / "panda1.key").unlink()
    assert keys.revoked() == {"panda1"}
    (folder / "robots").chmod(0o700)
    assert keys.robot_of(public(folder, "stranger")) == "stranger"


def test_a_robot_trusts_no_server_key_that_anybody_may_change(folder: Path) -> None:
    assert load_robot_keys(folder, "panda1").server
    (folder / "server.key").chmod(0o646)
    with pytest.raises(KeyFileError, match="anybody may change"):
        load_robot_keys(folder, "panda1")


def test_a_crowd_of_strangers_does_not_have_the_folder_read_for_each_of_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a thousand keys in it, reading it takes 5 ms of the gateway's time."""
    keys, looks = KeyRing(folder), 0
    scan, began_s = os.scandir, time.monotonic()

    def counted(path: Path) -> Any:
        nonlocal looks
        looks += 1
        return scan(path)

    monkeypatch.setattr(os, "scandir", counted)
    for number in range(1000):
        assert keys.robot_of(number.to_bytes(32, "big")) is None
    assert looks <= LOOKS_AT_ONCE + LOOKS_PER_S * (time.monotonic() - began_s)
    assert keys.robot_of(public(folder, "panda1")) == "panda1"
    make_keys(folder, "panda2")
    time.sleep(2 / LOOKS_PER_S)
    assert keys.robot_of(public(folder, "panda2")) == "panda2"
