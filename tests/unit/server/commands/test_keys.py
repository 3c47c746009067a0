"""`rosa keys` prints one command per machine, and both sides find their files in the same layout."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from rosa_client.bringup.bringup import parse
from rosa_client.bringup.preflight import PreflightError, check_robots
from rosa_contract.keyfile import load_robot_keys
from rosa_server.cli import main
from rosa_server.serving.edge.access import KeyRing


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The commands, which stand indented."""
    return [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]


def test_two_commands_are_printed_and_their_files_are_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "with space"
    assert main(["keys", str(folder), "--robot", "panda1", "--server", "10.0.0.5", "--port", "5571"]) == 0
    serve, bring_up = map(shlex.split, printed(capsys))
    assert serve[:2] == ["rosa", "serve"] and Path(serve[2]).is_file()
    assert serve[serve.index("--bind") + 1] == "tcp://0.0.0.0:5571"
    KeyRing(serve[serve.index("--keys") + 1])
    assert bring_up[:3] == ["python", "-m", "rosa_client.bringup"]
    robot, _ = parse(bring_up[3:])
    assert (robot.namespace, robot.gateway) == ("panda1", "tcp://10.0.0.5:5571")
    check_robots([robot])
    assert len(load_robot_keys(robot.keys, "panda1").secret) == 40


def test_by_default_the_robot_is_told_the_address_of_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", str(tmp_path / "keys"), "--robot", "panda1"]) == 0
    robot, _ = parse(shlex.split(printed(capsys)[1])[3:])
    check_robots([robot])
    assert "0.0.0.0" not in robot.gateway


def test_a_second_key_for_one_robot_and_a_folder_that_is_none_are_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", str(tmp_path / "keys"), "--robot", "panda1"]) == 0
    assert main(["keys", str(tmp_path / "keys"), "--robot", "panda1"]) == 2
    assert "exists; remove it first" in capsys.readouterr().err
    file = tmp_path / "file"
    file.touch()
    for path in ("/dev/null", str(file), str(file / "below")):
        assert main(["keys", path]) == 2
        assert "Not a directory; keys need a folder" in capsys.readouterr().err


def test_a_folder_that_was_there_before_keeps_its_rights(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert main(["keys", str(tmp_path)]) == 0
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "server.key_secret").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: path.unlink(), "there is no such file; make it with `rosa keys"),
        (lambda path: path.write_text("nonsense"), "expected a line `public-key"),
        (lambda path: path.chmod(0o644), "others may read or change it (mode 644); run chmod 600"),
        (lambda path: (path.unlink(), path.mkdir()), "cannot be read: Is a directory"),
        (
            lambda path: path.write_bytes(path.with_suffix(".key").read_bytes()),
            "expected a line `secret-key",
        ),
    ],
    ids=["missing", "nonsense", "open to others", "a folder", "the public one"],
)
def test_a_robot_with_unusable_keys_is_not_brought_up(
    tmp_path: Path, damage: Callable[[Path], object], says: str
) -> None:
    assert main(["keys", str(tmp_path), "--robot", "panda0"]) == 0
    robot, _ = parse([f"keys:={tmp_path}"])
    check_robots([robot])
    damage(tmp_path / "robots" / "panda0.key_secret")
    with pytest.raises(PreflightError) as caught:
        check_robots([robot])
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"keys: {tmp_path}/robots/panda0.key_secret: ")


def test_a_gateway_that_cannot_be_is_not_tried() -> None:
    robot, _ = parse(["gateway:=tcp://gpu-box:80000"])
    with pytest.raises(PreflightError, match="gateway: expected a port from 1 to 65535"):
        check_robots([robot])


def test_several_robots_get_a_key_and_a_command_each_or_none_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "keys"
    assert main(["keys", str(folder), "--robot", "a", "--robot", "b"]) == 0
    _, *bring_ups = map(shlex.split, printed(capsys))
    assert [parse(one[3:])[0].namespace for one in bring_ups] == ["a", "b"]
    KeyRing(folder)
    assert main(["keys", str(folder), "--robot", "c", "--robot", "b"]) == 2
    assert "b.key exists" in capsys.readouterr().err
    assert not (folder / "robots" / "c.key").exists(), "nothing is half made"
