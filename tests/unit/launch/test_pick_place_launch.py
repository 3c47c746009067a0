"""The launch files start exactly what the robot file says, and refuse what is wrong with one line.

`launch` itself is a stand-in here (`stand_in.py`): what the files make of their arguments is recorded, not run.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

from rosa_client.bringup.arguments import ENTRIES
from rosa_client.bringup.supervisor import BringupError
from rosa_client.executables import PARENT
from tests.unit.launch import stand_in

ROOT = Path(__file__).parents[3]
PANDA = ROOT / "configs" / "robots" / "panda.yaml"


class Launch:
    """A launch file with its arguments, and what was logged."""

    def __init__(self, module: ModuleType, said: list[str]) -> None:
        self.module, self.said = module, said

    def declared(self) -> dict[str, dict[str, Any]]:
        [description] = self.module.generate_launch_description().args
        return {e.args[0]: e.kwargs for e in description if type(e).__name__ == "DeclareLaunchArgument"}

    def actions(self, *words: str) -> list[Any]:
        values = {name: entry["default_value"] for name, entry in self.declared().items()}
        values |= dict(word.split(":=", 1) for word in words)
        context = SimpleNamespace(launch_configurations=values, argv=list(words), is_shutdown=False)
        return list(self.module.cell_actions(context))

    def processes(self, *words: str) -> list[str]:
        """What is started: `namespace/node` of nodes, the module of other programs."""
        found = []
        for action in self.actions(*words):
            if type(action).__name__ == "Node":
                found.append(
                    f"{action.kwargs.get('namespace', '')}/{action.kwargs['executable']}".lstrip("/")
                )
            elif type(action).__name__ == "ExecuteProcess":
                found.append(" ".join(map(str, action.kwargs["cmd"][1:])))
        return found


@pytest.fixture
def launch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Launch:
    packages = tmp_path / "share" / "ament_index" / "resource_index" / "packages"
    packages.mkdir(parents=True)
    (packages / "rosa_client").touch()
    (tmp_path / "share" / "rosa_client").symlink_to(ROOT)
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    said: list[str] = []
    stand_in.install(monkeypatch, said.append, tmp_path)
    module = load(ROOT / "launch" / "pick_place.launch.py")
    monkeypatch.setattr(module.NAMES, "take", lambda names: None)  # the lock has its own tests
    return Launch(module, said)


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.name.replace(".", "_"), path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def robot_file(folder: Path, **change: Any) -> str:
    path = folder / "my_panda.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(PANDA.read_text()) | change))
    return f"robot:={path}"


def test_the_robot_file_decides_which_drivers_run(launch: Launch, tmp_path: Path) -> None:
    nodes = {a.kwargs["executable"]: a for a in launch.actions() if type(a).__name__ == "Node"}
    assert list(nodes) == ["arm_node", "camera_node", "runtime_node"]
    [parameters] = nodes["arm_node"].kwargs["parameters"]
    assert parameters["driver"].args == ("",), "no driver of ours over that of the file"
    assert parameters["robot"].args == (str(PANDA),)


def test_external_cameras_need_no_camera_node(launch: Launch, tmp_path: Path) -> None:
    theirs = robot_file(tmp_path, camera_driver="external")
    assert launch.processes(theirs) == ["panda0/arm_node", "panda0/runtime_node"]
    assert "panda0/camera_node" in launch.processes(theirs, "driver:=sim"), "an argument decides for all"


def test_one_camera_of_ours_is_enough_for_a_camera_node(launch: Launch, tmp_path: Path) -> None:
    cameras = yaml.safe_load(PANDA.read_text())["cameras"]
    cameras["front"]["driver"] = "external"
    assert "panda0/camera_node" in launch.processes(robot_file(tmp_path, cameras=cameras))


def test_the_runtime_brings_itself_up_or_ends_with_the_reason(launch: Launch) -> None:
    [runtime] = [a for a in launch.actions() if a.kwargs.get("executable") == "runtime_node"]
    [parameters] = runtime.kwargs["parameters"]
    assert parameters["autostart"] is True


def test_a_server_is_started_only_when_asked_for_and_ends_with_the_launch(launch: Launch) -> None:
    [server] = [one for one in launch.processes("start_server:=True") if "serve" in one]
    assert server.startswith("-m rosa_client.bringup.tied")
    assert server.endswith(f"-m rosa_server.cli serve {ROOT / 'configs' / 'pick_place.yaml'}")
    assert not [one for one in launch.processes() if "serve" in one]
    [description] = launch.module.generate_launch_description().args
    made = [e.args for e in description if type(e).__name__ == "SetEnvironmentVariable"]
    assert (PARENT, str(os.getpid())) in made


def test_a_recording_is_one_file_where_its_package_is_there(launch: Launch) -> None:
    assert launch.processes("record:=run.mcap")[0] == "panda0/recorder_node"


def test_a_fleet_is_every_robot_of_the_file(launch: Launch) -> None:
    started = launch.processes("config:=configs/two_robots.yaml", "fleet:=true", "panel:=true")
    assert [one for one in started if one.endswith("arm_node")] == ["panda0/arm_node", "panda1/arm_node"]
    assert started[-1] == "operator_node"


def test_rviz_that_is_not_installed_keeps_no_robot_from_starting(launch: Launch) -> None:
    started = launch.processes("rviz:=true")
    assert "panda0/arm_node" in started and "operator_node" in " ".join(started)
    assert "/rviz2" not in " ".join(started) and "rviz2" not in started
    assert [line for line in launch.said if "apt install ros-$ROS_DISTRO-rviz2" in line]


def test_arguments_with_fixed_choices_declare_them(launch: Launch) -> None:
    """`ros2 launch` refuses another value before anything starts, and `--show-args` lists them."""
    declared = launch.declared()
    assert set(declared["driver"]["choices"]) == {"robot", "sim", "replay"}
    truths = [name for name, entry in declared.items() if entry["default_value"] in ("true", "false")]
    assert {"rviz", "panel", "fleet", "start_server", "use_sim_time", "autostart"} <= set(truths)
    assert all({"true", "false", "True", "False"} == set(declared[name]["choices"]) for name in truths)
    assert declared["namespace"]["choices"] is None
    fleet = load(ROOT / "launch" / "fleet.launch.py").generate_launch_description().args[0]
    declared = {one.args[0]: one.kwargs for one in fleet if type(one).__name__ == "DeclareLaunchArgument"}
    assert "true" in declared["panel"]["choices"] and declared["config"]["choices"] is None


def test_rviz_reads_its_configuration_from_the_folder_of_the_logs(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "share" / "ament_index" / "resource_index" / "packages" / "rviz2").touch()
    [rviz] = [a for a in launch.actions("rviz:=true") if a.kwargs.get("executable") == "rviz2"]
    assert rviz.kwargs["arguments"] == ["-d", str(tmp_path / "operator.rviz")]
    assert "/panda0" in (tmp_path / "operator.rviz").read_text()


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("gateway:=localhost:5570", "gateway: expected an endpoint such as tcp://HOST:PORT"),
        ("task:=nope", "task: no task 'nope'"),
        ("config:=nowhere.yaml", "config: no file 'nowhere.yaml'"),
        ("robot:=nowhere.yaml", "robot: no file 'nowhere.yaml'"),
        ("driver:=franka", "driver: expected one of"),
        ("panel:=perhaps", "panel: expected true or false"),
        ("rviz:=perhaps", "rviz: expected true or false"),
        ("seed:=x", "seed: expected a whole number"),
        ("namespace:=a b", "namespace: expected letters"),
    ],
)
def test_a_wrong_argument_ends_the_launch_before_anything_starts(
    launch: Launch, word: str, says: str
) -> None:
    with pytest.raises(BringupError) as caught:
        launch.actions(word)
    assert str(caught.value).startswith(says)


def test_a_misspelt_argument_is_refused_unless_another_file_includes_ours(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["ros2", "launch", "rosa_client", "pick_place.launch.py", "robt:=x"])
    with pytest.raises(BringupError, match="did you mean 'robot'"):
        launch.actions("robt:=x")
    monkeypatch.setattr(sys, "argv", ["ros2", "launch", "mine", "mine.launch.py", "robt:=x"])
    assert launch.processes("robt:=x")


def test_every_argument_says_what_it_means(launch: Launch) -> None:
    declared = launch.declared()
    assert set(declared) == {*ENTRIES, "rviz"}
    assert all(entry["description"] for entry in declared.values())
    fleet = load(ROOT / "launch" / "fleet.launch.py")
    [description] = fleet.generate_launch_description().args
    arguments = [e for e in description if type(e).__name__ == "DeclareLaunchArgument"]
    assert arguments and all(entry.kwargs["description"] for entry in arguments)


def settled(launch: Launch, node: str, said: bytes, status: int) -> tuple[Any, SimpleNamespace]:
    """What happens when `node` has ended with `status`: the function that launch calls later, and its context."""
    handlers = [a.args[0] for a in launch.actions() if type(a).__name__ == "RegisterEventHandler"]
    of = {
        (type(one).__name__, one.kwargs["target_action"].kwargs["executable"]): one.kwargs for one in handlers
    }
    of["OnProcessIO", node]["on_stderr"](SimpleNamespace(text=said))
    context = SimpleNamespace(is_shutdown=False)
    later = of["OnProcessExit", node]["on_exit"](SimpleNamespace(returncode=status), context)
    [settle] = later.kwargs["actions"]
    return settle.kwargs["function"], context


def test_the_end_of_the_last_robot_names_the_reason(launch: Launch) -> None:
    text = b"[FATAL] [1.0] [panda0.camera_node]: v4l2: camera front: no device /dev/video0\n"
    settle, context = settled(launch, "camera_node", text, 2)
    with pytest.raises(launch.module.RobotLostError) as caught:
        settle(context)
    assert str(caught.value) == (
        "panda0/camera_node ended with status 2: v4l2: camera front: no device /dev/video0"
    )


def test_a_node_that_ends_with_its_launch_is_not_lost(launch: Launch) -> None:
    """Ctrl-C in a terminal reaches the nodes directly; one may end before launch has noticed."""
    settle, context = settled(launch, "arm_node", b"", 0)
    context.is_shutdown = True
    settle(context)
    assert not [line for line in launch.said if "lost" in line]


def test_a_users_own_dds_profile_stays(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTDDS_DEFAULT_PROFILES_FILE", "/mine.xml")
    [description] = launch.module.generate_launch_description().args
    made = dict(e.args for e in description if type(e).__name__ == "SetEnvironmentVariable")
    assert made["FASTDDS_DEFAULT_PROFILES_FILE"] == "/mine.xml"
