"""A restarted robot finds its session's token, and nobody else does."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

from rosa_client.connection.greeting import Greeting
from rosa_client.connection.session_token import SessionToken, default_folder
from rosa_contract.wire import messages as m
from rosa_contract.wire.images import EncodedImage

HELLO = m.Hello("r1", "pick", {}, {})


def token(folder: Path, endpoint: str = "tcp://gpu-box:5570", robot: str = "r1") -> SessionToken:
    return SessionToken(folder / "rosa", endpoint, robot)


def test_a_token_is_kept_per_robot_and_gateway_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    token(tmp_path).keep("abc123")
    assert token(tmp_path).load() == "abc123"
    assert token(tmp_path, robot="r2").load() == token(tmp_path, "tcp://other:5570").load() == ""
    (file,) = (tmp_path / "rosa").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_after_a_bye_it_is_gone(tmp_path: Path) -> None:
    one = token(tmp_path)
    one.keep("abc123")
    one.forget()
    assert token(tmp_path).load() == ""
    assert list((tmp_path / "rosa").iterdir()) == []


def test_a_folder_that_others_can_write_to_is_not_trusted(tmp_path: Path) -> None:
    token(tmp_path).keep("abc123")
    (tmp_path / "rosa").chmod(0o777)
    assert token(tmp_path).load() == ""
    token(tmp_path, robot="r2").keep("def456")
    assert len(list((tmp_path / "rosa").iterdir())) == 1


@pytest.mark.parametrize("content", [b"", b"x" * 200, b"a b", b"\xff\xfe"])
def test_what_is_no_token_is_not_said(tmp_path: Path, content: bytes) -> None:
    token(tmp_path).keep("abc123")
    (file,) = (tmp_path / "rosa").iterdir()
    file.write_bytes(content)
    assert token(tmp_path).load() == ""


def test_a_full_disk_costs_no_more_than_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    one = token(tmp_path)
    monkeypatch.setattr(os, "open", full)
    one.keep("abc123")
    monkeypatch.undo()
    assert token(tmp_path).load() == ""


def test_it_lies_where_files_of_this_session_belong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert default_folder() == Path("/run/user/7/rosa")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert default_folder().name == f"rosa-{os.getuid()}"


def test_the_next_hello_says_the_token_of_the_last_welcome() -> None:
    greeting = Greeting("tcp://gpu-box:5570", HELLO)
    greeting.take(m.Welcome({"system1": "policy"}, token="abc123"))
    assert greeting.hello == m.Hello("r1", "pick", {}, {}, "abc123")


def test_a_request_leaves_with_the_cameras_that_its_model_takes() -> None:
    greeting = Greeting("tcp://gpu-box:5570", HELLO)
    image = EncodedImage("rgb8", 1, 1, bytes(3))
    state = {"joint_position": np.zeros(3, np.float32)}
    request = m.Request(1, "monitor", 100.0, "", state, {"front": image, "wrist": image})
    assert greeting.fitting(request) is request, "an older gateway does not say what it takes"
    greeting.take(m.Welcome({"monitor": "m"}, cameras={"monitor": ("front",), "safety": ()}))
    assert set(greeting.fitting(request).images) == {"front"}
    assert greeting.fitting(request).state is state
    other = m.Request(2, "safety", 100.0, "", state, {"front": image})
    assert greeting.fitting(other).images == {}
