"""Each mistake that is planted between a robot and a model is named; the right set-up names nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import yaml

from rosa_server.cli import main
from rosa_server.models.backend import Backend, ModelOutput
from rosa_server.trying.asker import TrialAsker
from rosa_server.trying.judges import judge
from rosa_server.trying.steps import Answered, ModelTrial, TrialStep
from rosa_server.trying.trial import TriedRobot, try_model
from tests.system.server_harness import ROOT
from tests.unit.server.trying.toy import (
    OPEN_M,
    SIZE,
    STEP_S,
    LerobotPolicy,
    ToyPolicy,
    grasped,
    world,
    write_bag,
)

BODY = TriedRobot((np.full(2, -3.0), np.full(2, 3.0)), ((0.0, OPEN_M),))
PERIOD_S = STEP_S * 16
TOY = "tests.unit.server.trying.toy:ToyPolicy"


def causes(backend: Backend, steps: list[TrialStep], period_s: float | None = PERIOD_S) -> list[str]:
    return [one.cause for one in judge(try_model(TrialAsker(backend, "system1", period_s), steps, BODY))]


def turned(change: Callable[[TrialStep], TrialStep]) -> list[TrialStep]:
    return [change(step) for step in world()]


def test_the_right_set_up_names_nothing() -> None:
    assert causes(ToyPolicy(), world()) == []
    assert causes(ToyPolicy(), [replace(step, recorded=None) for step in world()]) == []


def _twice(step: TrialStep) -> TrialStep:
    return replace(step, images=dict.fromkeys(step.images, step.images["front"]))


def _colours(step: TrialStep) -> TrialStep:
    return replace(step, images={name: one[..., ::-1].copy() for name, one in step.images.items()})


def _exchanged(step: TrialStep) -> TrialStep:
    return replace(step, images={"front": step.images["wrist"], "wrist": step.images["front"]})


def test_a_camera_that_is_shown_twice_is_named() -> None:
    assert "camera_twice" in causes(ToyPolicy(), turned(_twice))


def test_swapped_colours_are_named() -> None:
    assert causes(ToyPolicy(), turned(_colours)) == ["colours_swapped"]


def test_exchanged_cameras_are_named() -> None:
    found = causes(ToyPolicy(), turned(_exchanged))
    assert found[0] == "cameras_swapped"


@pytest.mark.parametrize("recorded", [True, False])
def test_actions_in_degrees_are_named_with_and_without_a_recording(recorded: bool) -> None:
    steps = [step if recorded else replace(step, recorded=None) for step in world()]
    assert causes(ToyPolicy(deg=True), steps) == ["degrees_for_radians"]


def test_moves_in_degrees_are_named() -> None:
    class Moves(ToyPolicy):
        def infer(self, batch: Any) -> list[ModelOutput]:
            outputs = []
            for one, output in zip(batch, super().infer(batch), strict=True):
                rows = output.arrays["actions"].astype(np.float64)
                here = np.append(one.state["joint_position"], 0.0)
                moved = np.where([True, True, False], here + np.degrees(rows - here), rows)
                outputs.append(ModelOutput({"actions": moved}))
            return outputs

    assert "degrees_for_radians" in causes(Moves(), world())


def test_a_state_in_degrees_is_named() -> None:
    class Degrees(ToyPolicy):
        """Between robot and model somebody made degrees of the joints, and nobody made radians of the answer."""

        def infer(self, batch: Any) -> list[ModelOutput]:
            told = [
                replace(one, state={**one.state, "joint_position": np.degrees(one.state["joint_position"])})
                for one in batch
            ]
            return super().infer(told)

    found = judge(try_model(TrialAsker(Degrees(), "system1", PERIOD_S), world(), BODY))
    assert [one.cause for one in found] == ["degrees_for_radians"]
    assert "`state`" in found[0].do


def test_degrees_both_ways_are_named() -> None:
    class Both(LerobotPolicy):
        """Degrees alone; its gripper is as ROSA's."""

        def __init__(self) -> None:
            super().__init__()
            self._written = "width"

    found = judge(try_model(TrialAsker(Both(), "system1", PERIOD_S), grasped(), BODY))
    assert [one.cause for one in found] == ["degrees_for_radians"]
    assert "`state`" in found[0].do and "`actions`" in found[0].do


def test_a_policy_of_lerobot_without_an_adapter_is_named_with_and_without_a_recording() -> None:
    found = judge(try_model(TrialAsker(LerobotPolicy(), "system1", PERIOD_S), grasped(), BODY))
    assert [one.cause for one in found] == ["degrees_for_radians", "gripper_unit"]
    assert "lerobot_so101" in found[0].do and "`gripper: open_percent`" in found[1].do
    alone = [replace(step, recorded=None) for step in grasped()]
    found = judge(try_model(TrialAsker(LerobotPolicy(), "system1", PERIOD_S), alone, BODY))
    assert [one.cause for one in found] == ["degrees_for_radians"]


@pytest.mark.parametrize("factor", [3.0, 0.4])
def test_an_action_rate_that_does_not_match_is_named_with_the_one_that_would(factor: float) -> None:
    found = judge(try_model(TrialAsker(ToyPolicy(), "system1", PERIOD_S * factor), world(), BODY))
    assert [one.cause for one in found] == ["action_rate"]
    assert "50 ms would fit" in found[0].found


def test_a_rate_that_nobody_says_is_not_judged() -> None:
    trial = try_model(TrialAsker(ToyPolicy(), "system1", None), world(), BODY)
    assert not trial.step_known
    assert judge(trial) == []


@pytest.mark.parametrize(("rows", "found"), [(16, []), (10, []), (4, ["chunk_short"])])
def test_a_chunk_that_ends_long_before_the_next_one_is_named(rows: int, found: list[str]) -> None:
    """As of an adapter that uses too few rows of what the model answers."""

    class Cut(ToyPolicy):
        def infer(self, batch: Any) -> list[ModelOutput]:
            step_s = np.array([STEP_S], np.float32)
            return [
                ModelOutput({"actions": one.arrays["actions"][:rows], "step_s": step_s})
                for one in super().infer(batch)
            ]

    assert causes(Cut(), world()) == found
    alone = [replace(step, recorded=None) for step in world()]
    said = judge(try_model(TrialAsker(Cut(), "system1", PERIOD_S), alone, BODY))
    assert [one.cause for one in said] == found
    assert all("4 rows of 50 ms are 0.20 s of the 0.80 s" in one.found for one in said)


@pytest.mark.parametrize(("options", "cause"), [({}, None), ({"deg": True}, "degrees_for_radians")])
def test_a_horizon_of_one_is_compared_as_well(options: dict[str, Any], cause: str | None) -> None:
    class One(ToyPolicy):
        def infer(self, batch: Any) -> list[ModelOutput]:
            return [ModelOutput({"actions": one.arrays["actions"][-1:]}) for one in super().infer(batch)]

    assert causes(One(**options), world()) == ([cause] if cause else [])
    swapped = causes(One(), turned(_colours))
    assert swapped == ["colours_swapped"]


def test_a_constant_answer_is_named() -> None:
    assert causes(ToyPolicy(constant=True), world())[0] == "constant_answer"
    alone = [replace(world(1)[0], recorded=None)]
    assert causes(ToyPolicy(constant=True), alone)[0] == "constant_answer"


def test_a_camera_that_the_model_does_not_look_at_is_named() -> None:
    class Blind(ToyPolicy):
        def infer(self, batch: Any) -> list[ModelOutput]:
            front = [replace(one, images={**one.images, "wrist": one.images["front"]}) for one in batch]
            return super().infer(front)

    steps = [replace(step, recorded=None) for step in world()]
    found = judge(try_model(TrialAsker(Blind(), "system1", PERIOD_S), steps, BODY))
    assert [one.cause for one in found] == ["camera_ignored"]
    assert "wrist" in found[0].found


@pytest.mark.parametrize(
    ("actions", "cause"),
    [
        (np.full((16, 3), np.nan), "not_finite"),
        (np.zeros((16, 7)), "wrong_columns"),
        (np.zeros(3), "wrong_columns"),
        (np.zeros((1, 16, 3)), "wrong_columns"),
        (np.zeros((0, 3)), "wrong_columns"),
        (None, "no_actions"),
    ],
)
def test_answers_of_another_form_are_named(actions: Any, cause: str) -> None:
    step = replace(world(1)[0], recorded=None)
    asker = TrialAsker(ToyPolicy(), "system1", PERIOD_S)
    output = ModelOutput({} if actions is None else {"actions": actions})
    path = asker._path(step, output)
    found = judge(ModelTrial("system1", [Answered(step, output, 1.0, path)]))
    assert [one.cause for one in found] == [cause]


@pytest.mark.parametrize(("said", "cause"), [(True, ["degrees_for_radians"]), (False, [])])
def test_how_far_actions_begin_is_judged_only_where_somebody_said_where_the_robot_is(
    said: bool, cause: list[str]
) -> None:
    still = {"joint_position": np.zeros(2, np.float32), "gripper_width": np.zeros(1, np.float32)}
    step = replace(world(1)[0], recorded=None, state=still, placed=said)
    output = ModelOutput({"actions": np.full((16, 3), 1.4)})
    path = TrialAsker(ToyPolicy(), "system1", PERIOD_S)._path(step, output)
    found = judge(ModelTrial("system1", [Answered(step, output, 1.0, path)]))
    assert [one.cause for one in found] == cause


# The command.

Write = Callable[..., list[str]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(adapter: dict[str, Any] | None = None, **options: Any) -> list[str]:
        entry = {"backend": TOY, "options": options} | ({"adapter": adapter} if adapter else {})
        factory = {
            "server_cluster": {"num_servers": 1},
            "robot_fleet": [{"task": "reach", "num_robots": 1}],
            "reach": {
                "pipeline": {"action_period_ms": PERIOD_S * 1000},
                "components": {"system1": {"model": "lab/toy", "slo_ms": 500, "prompt": "go to red"}},
            },
            "models": {"lab/toy": entry},
        }
        path = tmp_path / "factory.yaml"
        path.write_text(yaml.safe_dump(factory))
        return ["try", "lab/toy", "--factory", str(path), "--plot", str(tmp_path / "try.png")]

    return write


def adapter(**changes: Any) -> dict[str, Any]:
    good: dict[str, Any] = {
        "cameras": {"front": {"camera": "front"}, "wrist": {"camera": "wrist"}},
        "state": {
            "joint_position": [{"of": "joint_position", "take": [0, 1]}],
            "gripper_width": [{"of": "gripper_width"}],
        },
        "actions": {
            "columns": {"actions": ["a", "b", "grip"]},
            "parts": [{"to": "joints", "take": ["a", "b"]}, {"to": "gripper", "take": ["grip"]}],
        },
    }
    return good | changes


@pytest.mark.parametrize("chunks", [True, False], ids=["rosa", "any robot"])
def test_a_recording_is_compared_and_drawn(
    write: Write, tmp_path: Path, chunks: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    bag = tmp_path / "run.mcap"
    write_bag(world(joined=not chunks), bag, chunks)
    assert main([*write(), "--run", str(bag), "--steps", "8"]) == 0, capsys.readouterr().out
    out = capsys.readouterr().out
    assert "nothing looks wrong (compared with what was recorded)" in out
    assert "given  camera front: 32x32 px" in out
    assert "made   actions: float32 (16, 3)" in out
    picture = cv2.imread(str(tmp_path / "try.png"))
    assert picture is not None and picture.std() > 5


@pytest.mark.parametrize("command", ["try", "profile"])
def test_files_that_are_not_those_of_the_factory_file_are_not_loaded(
    command: str, write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, factory = write(), tmp_path / "factory.yaml"
    (tmp_path / "w.safetensors").write_bytes(b"exchanged")
    told = yaml.safe_load(factory.read_text())
    told["models"]["lab/toy"]["sha256"] = {"w.safetensors": "0" * 64}
    factory.write_text(yaml.safe_dump(told))
    to = ["--profiles", str(tmp_path)] if command == "profile" else words[4:]
    assert main([command, *words[1:4], *to]) == 2
    assert "its SHA-256 is" in capsys.readouterr().err


@pytest.mark.slow
def test_planted_in_the_factory_file_each_mistake_is_named(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bag = tmp_path / "run.mcap"
    write_bag(world(), bag)
    bgr = {name: {"camera": name, "colours": "bgr"} for name in ("front", "wrist")}
    exchanged = {"front": {"camera": "wrist"}, "wrist": {"camera": "front"}}
    parts = adapter()["actions"]["parts"]
    in_deg = {**adapter()["actions"], "parts": [{**parts[0], "unit": "deg"}, parts[1]]}
    state_deg = {
        **adapter()["state"],
        "joint_position": [{"of": "joint_position", "take": [0, 1], "unit": "deg"}],
    }
    inverted = {
        **adapter()["actions"],
        "parts": [parts[0], {**parts[1], "gripper": "closed_fraction", "scale": 12.5}],
    }
    planted = {
        "": adapter(),
        "colours_swapped": adapter(cameras=bgr),
        "cameras_swapped": adapter(cameras=exchanged),
        "degrees_for_radians": adapter(actions=in_deg),
        "degrees_for_radians ": adapter(state=state_deg),
        "gripper_upside_down": adapter(actions=inverted),
        "action_rate": adapter(actions={**adapter()["actions"], "step_s": 0.15}),
    }
    for cause, mistaken in planted.items():
        status = main([*write(mistaken), "--run", str(bag), "--json", "--steps", "8"])
        told = json.loads(capsys.readouterr().out)
        assert [one["cause"] for one in told["suspicions"]] == ([cause.strip()] if cause else []), told
        assert status == (3 if cause else 0)


def test_a_camera_that_is_mapped_twice_is_refused_by_check_and_try(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = write(adapter(cameras={"front": {"camera": "front"}, "wrist": {"camera": "front"}}))
    for words in (["check", command[3]], [*command, "--image", "front=x.png"]):
        assert main(words) == 2
        assert "the model would see one twice" in capsys.readouterr().err


def test_one_answer_without_a_recording(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pictures = []
    for name, picture in world(1)[0].images.items():
        cv2.imwrite(str(tmp_path / f"{name}.png"), cv2.resize(picture, (4 * SIZE, 4 * SIZE))[..., ::-1])
        pictures += ["--image", f"{name}={tmp_path / name}.png"]
    assert main([*write(), *pictures, "--state", "joint_position=0.1,0.2", "--prompt", "go to blue"]) == 0
    done = capsys.readouterr()
    assert "takes  camera front: 32x32 px" in done.out
    assert "given  prompt: 'go to blue'" in done.out
    assert "not compared: no recording" in done.out and "nobody says" not in done.out
    assert "128x128 px resized to 32x32" in done.err
    assert main([*write(), *pictures]) == 0
    assert "nobody says where the robot is (--robot, or --state" in capsys.readouterr().out


def test_a_picture_that_the_adapter_leaves_out_is_not_shown_to_the_model(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is no camera that the model ignores; one that nobody mapped is refused, as its robot would be."""
    for name, picture in {**world(1)[0].images, "overhead": np.zeros((SIZE, SIZE, 3), np.uint8)}.items():
        cv2.imwrite(str(tmp_path / f"{name}.png"), picture[..., ::-1])
    shown = [f"--image={name}={tmp_path / name}.png" for name in ("front", "wrist", "overhead")]
    state = ["--state", "joint_position=0.1,0.2"]
    assert main([*write(adapter(unused=["overhead"])), *shown, *state]) == 0
    assert "camera overhead is `unused`" in capsys.readouterr().err
    assert main([*write(adapter()), *shown, *state]) == 2
    assert "the adapter maps no camera 'overhead'; it takes front, wrist" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the model takes more pictures: --image front=FILE (32x32 px), --image wrist=FILE"),
        (["--image", "front=missing.png"], "expected CAMERA=FILE with a picture"),
        (["--run", "missing.mcap"], "missing.mcap"),
        (["--backend", TOY.replace("Toy", "Tou")], "no attribute 'TouPolicy'"),
    ],
)
def test_wrong_input_is_one_line(
    write: Write, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*write(), *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1


def test_a_model_that_raises_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    toy = f"{__name__}:Broken"
    assert main(["try", "x", "--backend", toy, "--image", "front=x.png"]) == 2
    assert capsys.readouterr().err == "rosa try: load: RuntimeError: no CUDA\n"


class Broken(ToyPolicy):
    """Cannot be loaded."""

    def load(self) -> None:
        raise RuntimeError("no CUDA")


@pytest.mark.parametrize(
    ("robot", "said"),
    [
        ("ur5e", "needs state 'joint_position' with 2 values; got 6"),
        ("panda", "needs camera 'front' as 32x32 px (width x height); got 96x96"),
        ("bimanual_ur5e", "needs state 'gripper_width' with 1 values; got 2"),
    ],
)
def test_a_robot_that_would_be_refused_is_named_with_everything_that_differs(
    write: Write, tmp_path: Path, robot: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []
    for name, picture in world(1)[0].images.items():
        cv2.imwrite(str(tmp_path / f"{name}.png"), picture[..., ::-1])
        shown.append(f"--image={name}={tmp_path / name}.png")
    words = [*write(), *shown, "--robot", str(ROOT / f"configs/robots/{robot}.yaml"), "--json"]
    assert main(words) == 3
    [found] = json.loads(capsys.readouterr().out)["suspicions"]
    assert found["cause"] == "robot_differs" and said in found["found"]


def test_a_model_that_names_no_state_is_given_what_the_robot_would_send(
    capsys: pytest.CaptureFixture[str],
) -> None:
    robot = str(ROOT / "configs/robots/ur5e.yaml")
    main(["try", "x", "--backend", "null", "--robot", robot, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["made"]["actions"]["shape"] == [50, 6]
    assert "wrong_columns" not in {one["cause"] for one in told["suspicions"]}


def test_a_model_that_takes_no_state_is_held_against_the_robots_columns() -> None:
    step = TrialStep(0.0, {}, {})
    output = ModelOutput({"actions": np.zeros((4, 8), np.float32)})
    path = TrialAsker(ToyPolicy(), "system1", PERIOD_S)._path(step, output)
    found = judge(ModelTrial("system1", [Answered(step, output, 1.0, path)], columns=6))
    assert [one.cause for one in found] == ["wrong_columns"]
    assert "8 columns, the robot has 6" in found[0].found
