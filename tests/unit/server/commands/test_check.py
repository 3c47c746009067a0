"""`rosa check` says what `rosa serve` and a robot's nodes would refuse, in the same words."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from rosa_server.cli import main
from rosa_server.serving.edge.access import make_keys

ROOT = Path(__file__).resolve().parents[4]
PANDA = ROOT / "configs" / "robots" / "panda.yaml"
CHECK = EntryPoint("x", "rosa_client.robot_check:robot_problems", "rosa.robot_checks")

FACTORY = """
server_cluster: {{num_servers: 2}}
robot_fleet: [{{task: pick, num_robots: 1}}]
pick:
  pipeline: {{action_period_ms: 400}}
  components:
    system1: {{model: policy, slo_ms: 300}}
models: {models}
gateway: {gateway}
"""
GOOD_MODEL = "{policy: {backend: emulated, options: {images: {front: [96, 96]}, state: {joint_position: 7}}}}"

BACKEND_WITH_ENGINES = """
from rosa_server.models.backend import InputSpec

class Kind:
    def __init__(self, engine="plain"):
        if engine != "plain":
            raise ValueError(f"engine: got {engine}")
        self.input_spec = InputSpec({"front": (96, 96)}, {"joint_position": 7})

    def load(self): ...
    def warm_up(self): ...
    def infer(self, batch): ...
    def close(self): ...
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With the checks of the robot's room, as an installation has them."""
    monkeypatch.setattr("rosa_server.commands.check.entry_points", lambda group: [CHECK])
    return tmp_path


def factory(folder: Path, models: str = GOOD_MODEL, gateway: str = "{metrics_port: 0}") -> str:
    path = folder / "factory.yaml"
    path.write_text(FACTORY.format(models=models, gateway=gateway))
    return str(path)


@pytest.mark.parametrize(
    ("models", "gateway", "says"),
    [
        ("{policy: {backend: emulatd}}", "{}", "models.policy.backend: no backend 'emulatd' (did you mean"),
        ("{policy: {backend: 'no_such_file:Kind'}}", "{}", "there is no module no_such_file"),
        ("{policy: {backend: 'json:Kind'}}", "{}", "has no class Kind"),
        (
            "{policy: {backend: emulated, options: {latency: 3}}}",
            "{}",
            "models.policy.options.latency: is unknown to emulated",
        ),
        (
            "{policy: {backend: flow_policy, options: {weights: none.safetensors}}}",
            "{}",
            "models.policy.options.weights: there is no ",
        ),
        ("{policy: {backend: replay}}", "{}", "models.policy.options.recording: is missing"),
        (GOOD_MODEL, "{bind: 'tcp://127.0.0.1:80000'}", "gateway.bind: expected a port from 0 to 65535"),
        (GOOD_MODEL, "{bind: 'tcp://*:5570'}", "gateway.curve_keys is not set"),
        (GOOD_MODEL, "{bind: 'tcp://*:5570', curve_keys: nowhere}", "make keys with `rosa keys"),
    ],
)
def test_check_refuses_what_serve_refuses_in_the_same_words(
    folder: Path, capsys: pytest.CaptureFixture[str], models: str, gateway: str, says: str
) -> None:
    path = factory(folder, models, gateway)
    said = []
    for command in ("check", "serve"):
        assert main([command, path]) == 2
        said.append(capsys.readouterr().err.removeprefix(f"rosa {command}: "))
    assert said[0] == said[1]
    assert says in said[0]


def test_a_model_without_an_entry_is_refused_beside_one_that_has_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(factory(folder))
    two = "    system1: {model: policy, slo_ms: 300}\n    safety: {model: guard, slo_ms: 300, freq_hz: 1}"
    path.write_text(path.read_text().replace("    system1: {model: policy, slo_ms: 300}", two))
    for command in ("check", "serve"):
        assert main([command, str(path)]) == 2
        assert "models.guard: is missing" in capsys.readouterr().err


def test_keys_and_bind_on_the_command_line_are_judged_like_those_of_the_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = factory(folder)
    make_keys(folder / "keys")
    assert main(["check", path, "--bind", "tcp://127.0.0.1:80000"]) == 2
    assert "--bind: expected a port" in capsys.readouterr().err
    assert main(["check", path, "--bind", "tcp://*:5570"]) == 2
    assert main(["check", path, "--bind", "tcp://*:5570", "--insecure"]) == 0
    assert main(["check", path, "--bind", "tcp://*:5570", "--keys", str(folder / "keys")]) == 0


def test_what_a_task_says_of_its_execution_is_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(factory(folder))
    assert main(["check", str(path)]) == 0
    assert "task pick: an action every 400 ms\n" in capsys.readouterr().out
    more = "400, execution: asynchronous, planning: ahead, share_observation_ms: 150"
    horizon = "horizon: {policy: threshold, t: 0.2, max: 12}"
    path.write_text(path.read_text().replace("400", f"{more}, {horizon}"))
    assert main(["check", str(path)]) == 0
    shown = capsys.readouterr().out
    execution = "horizon threshold, t 0.2, max 12, asynchronous, planned ahead"
    shares = "calls within 150 ms share an observation"
    assert f"task pick: an action every 400 ms on average, {execution}, {shares}\n" in shown
    assert "model policy: emulated, 1 worker\n" in shown


def test_a_robot_file_is_shown_whole(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(PANDA)]) == 0
    shown = capsys.readouterr().out
    for words in (
        "workspace: x -0.25 .. 0.78",
        "gripper: 0 .. 0.08 m",
        "pose home: 0, -0.2053",
        "15 rad/s^2, 7500 rad/s^3",
        "full speed",
    ):
        assert words in shown


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "arm_driver: mujoco",
            "arm_driver: mujoko",
            "arm_driver: no driver 'mujoko' (did you mean 'mujoco'?)",
        ),
        ("camera_driver: mujoco", "camera_driver: v4l", "camera_driver: no driver 'v4l'"),
        ("max_m: [0.78, 0.55, 0.85]", "max_m: [0.78, 0.55, 0.30]", "home_rad"),
    ],
)
def test_a_robot_file_that_its_nodes_refuse_is_not_valid(
    folder: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, says: str
) -> None:
    path = folder / "robot.yaml"
    path.write_text(PANDA.read_text().replace(old, new))
    assert main(["check", str(path)]) == 2
    assert says in capsys.readouterr().err


def test_a_factory_and_a_robot_are_checked_together(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = factory(folder)
    assert main(["check", path, str(PANDA)]) == 0
    assert "panda fits pick" in capsys.readouterr().out
    needs_more = GOOD_MODEL.replace("front: [96, 96]", "front: [96, 96], fromt: [8, 8]")
    assert main(["check", str(PANDA), factory(folder, needs_more)]) == 2
    assert "needs camera 'fromt'" in capsys.readouterr().err
    needs_six = GOOD_MODEL.replace("joint_position: 7", "joint_position: 6")
    assert main(["check", "--json", factory(folder, needs_six), str(PANDA)]) == 2
    [problem] = json.loads(capsys.readouterr().out)["problems"]
    assert "needs state 'joint_position' with 6 values; got 7" in problem["words"]
    for file in (path, str(PANDA)):
        assert main(["check", file, file]) == 2
        assert "expected a factory file and a robot file" in capsys.readouterr().err


def test_a_file_for_planning_alone_is_valid_and_says_so(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(ROOT / "configs" / "factory.yaml")]) == 0
    assert "can be planned, not served" in capsys.readouterr().out
    assert main(["check", "--json", str(ROOT / "configs" / "factory.yaml")]) == 0
    assert json.loads(capsys.readouterr().out)["served"] is False


def test_memory_that_is_needed_and_free_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rosa_server.commands.memory.free_memory_mb", lambda _: {"0 NVIDIA H200": 80_000.0})
    lab = str(ROOT / "configs" / "lab.yaml")
    assert main(["check", lab]) == 0
    shown = capsys.readouterr().out
    assert "memory of Qwen2.5-VL-3B-Instruct: 12,000 MB" in shown
    assert "memory of all components on one GPU: 69,000 MB, fits its 141,000 MB" in shown
    assert "memory free on this machine: 0 NVIDIA H200 80,000 MB" in shown
    assert "needs a schedule: 1 server cannot host 3 workers" in shown
    assert main(["check", "--json", lab]) == 0
    memory = json.loads(capsys.readouterr().out)["memory"]
    assert (memory["together_mb"], memory["gpu_mb"], memory["free_mb"]["0 NVIDIA H200"]) == (
        69_000,
        141_000,
        80_000,
    )


def test_a_model_without_a_profile_has_no_known_memory(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", factory(folder)]) == 0
    assert "memory of policy: not known, it has no profile" in capsys.readouterr().out


def test_the_robots_room_is_asked_in_an_installation() -> None:
    assert f'"{CHECK.group}": ["drivers_and_poses = {CHECK.value}"]' in (ROOT / "setup.py").read_text()


@pytest.mark.parametrize("backend", ["emulated", "json:JSONDecoder"])
def test_a_horizon_policy_that_no_worker_knows_is_named_unless_the_backend_may_bring_it(
    folder: Path, capsys: pytest.CaptureFixture[str], backend: str
) -> None:
    path = Path(factory(folder, models=f"{{policy: {{backend: {backend}}}}}"))
    text = path.read_text()
    path.write_text(
        text.replace("action_period_ms: 400", "action_period_ms: 400, horizon: {policy: treshold}")
    )
    main(["check", str(path)])
    said = "pick.pipeline.horizon.policy: no horizon policy 'treshold' (did you mean 'threshold'?)"
    assert (said in "".join(capsys.readouterr())) is (backend == "emulated")


def test_an_engine_that_the_schedule_chooses_keeps_no_robot_from_being_checked(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "with_engines.py").write_text(BACKEND_WITH_ENGINES)
    monkeypatch.syspath_prepend(folder)
    model = "{{policy: {{backend: 'with_engines:Kind', options: {{engine: {}}}}}}}"
    assert main(["check", factory(folder, model.format("auto")), str(PANDA)]) == 0
    assert "panda fits pick" in capsys.readouterr().out
    assert main(["check", factory(folder, model.format("steam")), str(PANDA)]) == 2
    assert "models.policy: backend 'with_engines:Kind': engine: got steam" in capsys.readouterr().err


def test_what_a_monitor_hears_and_how_often_it_has_to_say_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(ROOT / "configs" / "sort_parts.yaml")]) == 0
    [monitor] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  monitor: ")]
    assert monitor.endswith("counts after 2 equal verdicts in a row, hears of plans made 2 times in a row")


SEVERAL = """
server_cluster: {num_servers: 1}
robot_fleet: [{task: pick, num_robots: 1}]
pick:
  pipeline: {action_period_ms: 400, settle_ms: -3}
  components:
    system1: {model: lab/polcy, slo_ms: 500, fallbak: stop_and_resend}
    monitor: {model: lab/policy, slo_ms: 500, prompt: "{what}", freq_hz: often}
models:
  lab/policy:
    backend: openpi_remote
    options: {url: "ws://127.0.0.1:8000"}
    adapter: {preset: openpi_droid, cameras: {a: {camera: front, fit: stretsh}, b: {camera: front}}}
"""


def test_mistakes_of_every_kind_are_told_in_one_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of words, of tasks and of what a server refuses. What follows from a mistake is not one."""
    path = tmp_path / "several.yaml"
    path.write_text(SEVERAL)
    assert main(["check", str(path), "--json"]) == 2
    told = {one["path"]: one["cause"] for one in json.loads(capsys.readouterr().out)["problems"]}
    cameras = "models.lab/policy.adapter.cameras"
    assert told == {
        "pick.pipeline.settle_ms": "out_of_range",
        "pick.components.system1.fallbak": "unknown_key",
        "pick.components.system1.model": "unknown_name",
        "pick.components.monitor.prompt": "unknown_name",
        "pick.components.monitor.freq_hz": "wrong_type",
        f"{cameras}.a.fit": "unknown_name",
        f"{cameras}.a.camera": "conflict",
        f"{cameras}.b.camera": "conflict",
    }
