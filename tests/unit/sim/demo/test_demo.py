"""What a run of the demo leaves behind is said as it is, also when its recorder did not see the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rclpy.serialization import serialize_message
from std_msgs.msg import String

from rosa_client.recording.bag import BagWriter, read
from rosa_sim.demo.arguments import parse
from rosa_sim.demo.demo import main
from rosa_sim.demo.episodes import EpisodeRunner
from rosa_sim.demo.progress import DemoProgress
from rosa_sim.demo.records import Records


def _bag(path: Path) -> str:
    return Records(path.parent, DemoProgress()).bag_line()


@pytest.fixture
def recorder(tmp_path: Path) -> BagWriter:
    bag = BagWriter(tmp_path / "run.mcap")
    bag.add(bag.channel("/fault", "std_msgs/msg/String"), 1, serialize_message(String(data="on")))
    bag.flush()
    return bag


def test_a_whole_bag_is_left_as_it_is(recorder: BagWriter) -> None:
    recorder.close()
    before = recorder.path.read_bytes()
    assert _bag(recorder.path).endswith("run.mcap (opens in Foxglove)")
    assert recorder.path.read_bytes() == before


def test_a_bag_whose_recorder_was_killed_gets_its_index_and_says_so(recorder: BagWriter) -> None:
    left = recorder.path.read_bytes()
    recorder.close()
    recorder.path.write_bytes(left)
    assert _bag(recorder.path).endswith("(its recorder ended before the run; opens in Foxglove)")
    assert [entry.message.data for entry in read(recorder.path)] == ["on"]
    assert _bag(recorder.path).endswith("run.mcap (opens in Foxglove)"), "it is whole now"


def test_a_recorder_that_never_wrote_leaves_no_bag_that_could_be_opened(tmp_path: Path) -> None:
    assert _bag(tmp_path / "run.mcap").startswith("no bag: ")
    (tmp_path / "run.mcap").touch()
    assert _bag(tmp_path / "run.mcap").startswith("no bag: ")
    assert [path.name for path in tmp_path.iterdir()] == ["run.mcap"]


def test_what_cannot_be_written_is_told_once_and_nothing_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs").touch()
    records = Records(tmp_path / "runs", DemoProgress())
    for _ in range(3):
        records.summary([], {})
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert said.startswith("the run goes on, but its record is incomplete: ")
    assert "Not a directory" in said and records.incomplete


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--seed", "-1"], "--seed: expected a whole number from 0"),
        (["--seed", str(1 << 64)], "--seed: expected a whole number from 0"),
        (["--timeout", "nan"], "--timeout: expected a number of seconds"),
        (["--episodes", "0"], "--episodes: expected at least 1"),
        (["--gateway", "gpu-box"], "--gateway: "),
        (["--gateway", "tcp://gpu-box:5570", "--fault", "server_killed"], "so not with --gateway"),
        (["--keys", "keys"], "--keys: the demo's own server has none"),
    ],
)
def test_an_option_that_cannot_be_is_one_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(words)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def _lacks_a_model(folder: Path) -> list[str]:
    text = Path("configs/pick_place.yaml").read_text()
    path = folder / "factory.yaml"
    path.write_text(text[: text.index("  rosa/panda-task-monitor:\n    backend")])
    return ["--config", str(path)]


def _out_is_a_file(folder: Path) -> list[str]:
    (folder / "file").touch()
    return ["--out", str(folder / "file")]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (_out_is_a_file, ": Not a directory"),
        (_lacks_a_model, "models.rosa/panda-task-monitor: is missing; add"),
    ],
)
def test_nothing_starts_with_input_that_cannot_work(
    words: Callable[[Path], list[str]],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["demo", *words(tmp_path)])
    assert main() == 2
    assert says in capsys.readouterr().err


def test_a_task_brings_its_own_robot_factory_file_and_time() -> None:
    pick, sort = parse([]), parse(["--task", "sort_parts"])
    assert (pick.robot.name, pick.config.name, pick.timeout) == ("panda.yaml", "pick_place.yaml", 60.0)
    assert sort.robot.name == "panda_sort_parts.yaml" and sort.config.name == "sort_parts.yaml"
    assert sort.timeout > pick.timeout
    assert parse(["--task", "sort_parts", "--timeout", "9"]).timeout == 9.0
    for args in (pick, sort):
        assert args.robot.is_file() and args.config.is_file()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--task", "sort_parts", "--arm", "ros2_control"], "--arm: sort_parts has mujoco, got ros2_control"),
        (["--task", "sort_parts", "--policy", "tokens"], "--policy: sort_parts has vla, got tokens"),
        (["--policy", "vla"], "--policy: pick_place has flow, tokens, act, got vla"),
        (["--task", "sort_parts", "--fault", "server_lost"], "only, not into sort_parts"),
    ],
)
def test_what_a_task_does_not_have_is_named(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(words)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.slow
def test_the_list_of_faults_may_be_cut_by_its_reader() -> None:
    reader, writer = os.pipe()
    os.close(reader)  # as `head` has, once it has its lines
    command = [sys.executable, "-m", "rosa_sim.demo", "--fault", "list"]
    ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=300)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_ctrl_c_while_ros_makes_a_message_is_still_ctrl_c() -> None:
    """rclpy's C++ would make another error of it, so it waits for the end of the turn."""
    turns: list[float] = []

    class Turning:
        def spin_once(self, timeout_sec: float) -> None:
            os.kill(os.getpid(), signal.SIGINT)  # wherever the kernel delivers it
            signal.raise_signal(signal.SIGINT)
            turns.append(timeout_sec)

    runner = object.__new__(EpisodeRunner)
    runner._executor = Turning()
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            runner._spin()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
    finally:
        signal.signal(signal.SIGINT, usual)
    assert turns
