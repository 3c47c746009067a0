"""Every mistake in an adapter is named, and all of them at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosa_contract.config.adapter import Adapter
from rosa_contract.config.strict import Reader
from rosa_contract.errors import ConfigError
from rosa_server.models.adapters.checks import adapter_problems
from rosa_server.models.adapters.resolving import from_data, preset_names, resolve
from rosa_server.models.adapters.unmapped import model_problems, robot_needs
from rosa_server.models.backend import InputSpec

SO101 = "configs/robots/so101.yaml"
PANDA = "configs/robots/panda.yaml"
DROID_MODEL = InputSpec(
    {"observation/exterior_image_1_left": (224, 224), "observation/wrist_image_left": (224, 224)},
    {"observation/joint_position": 7, "observation/gripper_position": 1},
)


def adapter(**given: Any) -> Adapter:
    reader = Reader("test")
    made = reader.section(Adapter, "", given)
    reader.finish()
    assert isinstance(made, Adapter)
    return made


TOOL = [{"to": "tool_position", "take": ["x", "y", "z"], "mode": "step_delta"}]


@pytest.mark.parametrize(
    ("frames", "mode", "resolved_by", "wrong"),
    [
        ({"tool_frame": {"on": "flange"}}, "step_delta", "robot", {"tool_frame"}),
        ({"base_frame": {"rpy_deg": [0, 0, 90]}}, "step_delta", "robot", {"base_frame"}),
        ({"base_frame": {"position_m": [0, 0, 0.9]}}, "step_delta", "robot", set()),
        ({"tool_frame": {"on": "flange"}, "base_frame": {}}, "absolute", "server", set()),
    ],
)
def test_a_robot_that_resolves_steps_by_itself_knows_no_frame_of_the_model(
    frames: dict[str, Any], mode: str, resolved_by: str, wrong: set[str]
) -> None:
    """Steps along the axes of a base that only stands elsewhere are the same."""
    parts = [{**TOOL[0], "mode": mode}]
    actions = {"columns": {"a": ["x", "y", "z"]}, "parts": parts, "resolved_by": resolved_by}
    assert set(problems(robot=PANDA, actions=actions, **frames)) == wrong


def test_a_share_of_a_range_needs_the_range_and_has_no_other_zero() -> None:
    part = {"of": "joint_position", "unit": "range_m100_100"}
    assert set(problems(state={"s": [part]})) == {"state.s[0].unit"}
    assert problems(robot=SO101, state={"s": [part]}) == {}
    zeros = {**part, "zeros": [0, 0, 0, 0, 0], "take": [0, 1, 2, 3, 4]}
    assert set(problems(robot=SO101, state={"s": [zeros]})) == {"state.s[0].zeros"}
    width = {"of": "gripper_width", "unit": "range_m100_100"}
    assert set(problems(robot=SO101, state={"s": [width]})) == {"state.s[0].unit"}


def problems(**given: Any) -> dict[str, str]:
    return {one.path: one.words for one in adapter_problems(resolve(adapter(**given)))}


def droid(**changes: Any) -> dict[str, Any]:
    return {"preset": "openpi_droid", **changes}


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_is_sound_and_reaches_a_worker_unchanged(name: str) -> None:
    robot = {"lerobot_so101": "", "lerobot_so101_range": SO101}.get(name, PANDA)
    resolved = resolve(Adapter(preset=name, robot=robot))
    assert adapter_problems(resolved) == []
    assert from_data(json.loads(json.dumps(resolved.to_data()))) == resolved
    assert robot_needs(resolved, InputSpec()).images


def test_the_presets_that_were_promised_are_there() -> None:
    promised = {"openpi_droid", "openpi_libero", "gr00t_libero_panda", "gr00t_droid", "openvla_bridge"}
    promised |= {"lerobot_so101", "lerobot_so101_range"}
    assert promised <= set(preset_names())


def test_an_unknown_preset_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'openpi_droid'"):
        resolve(Adapter(preset="openpi_driod"))


def test_what_the_file_says_itself_wins_over_the_preset_and_the_rest_stays() -> None:
    spec = resolve(
        adapter(**droid(cameras={"observation/wrist_image_left": {"camera": "hand"}}, actions={"horizon": 8}))
    ).spec
    wrist = spec.cameras["observation/wrist_image_left"]
    assert (wrist.camera, wrist.height, wrist.fit) == ("hand", 224, "pad")
    assert spec.cameras["observation/exterior_image_1_left"].camera == "front"
    assert spec.actions is not None and (spec.actions.horizon, len(spec.actions.parts)) == (8, 2)


PARTS = [
    {"to": "joints", "take": ["a", "b"]},
    {"to": "gripper", "take": ["g"], "gripper": "open_fraction"},
]


def two_joints(parts: list[dict[str, Any]], columns: list[str] | None = None, **rest: Any) -> dict[str, Any]:
    return {"actions": {"columns": {"actions": columns or ["a", "b", "g"]}, "parts": parts, **rest}}


@pytest.mark.parametrize(
    ("given", "path", "words"),
    [
        (
            {"cameras": {"left": {"camera": "front"}, "right": {"camera": "front"}}},
            "cameras.right.camera",
            "is also given as 'left': the model would see one twice",
        ),
        ({"cameras": {"left": {"camera": "front", "height": 9}}}, "cameras.left", "height and width"),
        ({"cameras": {"left": {"camera": "front", "turn_deg": 45}}}, "cameras.left.turn_deg", "got 45"),
        (
            {"cameras": {"left": {"camera": "x"}}, "unused": ["x"]},
            "unused",
            "camera 'x' is unused, and given",
        ),
        ({"state": {"s": [{}]}}, "state.s[0]", "either `of` or `values`"),
        (
            {"state": {"s": [{"of": "tool_position"}]}},
            "state.s[0].of",
            "name a robot file that has a `chain`",
        ),
        (
            {"state": {"s": [{"of": "joint_position", "gripper": "open_sign"}]}},
            "state.s[0].gripper",
            "only of gripper_width",
        ),
        (
            {"state": {"s": [{"of": "joint_position", "take": [0, 9]}]}, "robot": PANDA},
            "state.s[0].take",
            "has values 0 to 6, got 9",
        ),
        (
            {"state": {"s": [{"of": "joint_position", "take": [0, 1], "signs": [1]}]}},
            "state.s[0].signs",
            "expected 2 values, one each, got 1",
        ),
        (two_joints(PARTS[:1]), "actions.parts", "the model's columns g go nowhere"),
        (
            two_joints([*PARTS, {"to": "nothing", "take": ["gg"]}]),
            "actions.parts[2].take",
            "no column 'gg' (did you mean 'g'?)",
        ),
        (two_joints(PARTS, ["a", "b", "g", "a"]), "actions.columns", "column 'a' stands in it 2 times"),
        (
            two_joints([{"to": "joints", "take": ["a", "b"], "joints": [0, 2]}, PARTS[1]]),
            "actions.parts",
            "joints 1 are ordered by nothing",
        ),
        (
            two_joints(PARTS) | {"robot": PANDA},
            "actions.parts",
            "the robot's joints panda_joint3, panda_joint4",
        ),
        (
            two_joints([{"to": "joints", "take": ["a", "b"], "mode": "velocity"}, PARTS[1]]),
            "actions.parts[0].mode",
            "actions.step_s",
        ),
        (
            two_joints([PARTS[0], {"to": "gripper", "take": ["g"], "mode": "delta"}]),
            "actions.parts[1].mode",
            "a gripper is ordered absolute",
        ),
        (
            two_joints([{"to": "tool_position", "take": ["a", "b", "g"], "mode": "delta"}]),
            "actions.parts[0].to",
            "needs inverse kinematics",
        ),
        ({"prompt": "do {promt}"}, "prompt", "no field {promt} (did you mean 'prompt'?)"),
        ({"prompt": "do {"}, "prompt", "brace"),
        ({"prompt": "do {prompt:d}"}, "prompt", "expected fields without a format"),
        ({"prompt": "do {prompt:{width}}"}, "prompt", "expected fields without a format"),
        (
            {"state": {"s": [{"of": "gripper_width", "gripper": "open_sign", "signs": [-1]}]}},
            "state.s[0].signs",
            "not of a gripper as open_sign",
        ),
        ({"state": {"s": [{"values": [1, 2], "take": [1]}]}}, "state.s[0].take", "not of numbers"),
        (
            two_joints([PARTS[0], {"to": "gripper", "take": ["g"], "gripper": "open_sign", "zeros": [0.1]}]),
            "actions.parts[1].zeros",
            "only of joints, places and widths",
        ),
        ({"gripper_closed_m": 0.1}, "gripper_open_m", "must be > the closed gripper's width (0.1)"),
        (
            {"normalisation": {"file": "no/such.json"}},
            "normalisation.file",
            "no/such.json: cannot be read",
        ),
    ],
)
def test_a_mistake_is_named_with_its_path(given: dict[str, Any], path: str, words: str) -> None:
    found = problems(**given)
    assert path in found, found
    assert words in found[path]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([{"to": "joints", "take": ["a", "b"]}], "the answer is joint positions already"),
        (
            [
                {"to": "joints", "take": ["a"], "joints": [0], "mode": "delta"},
                {"to": "joints", "take": ["b"], "joints": [1], "mode": "velocity"},
            ],
            "in one mode and one frame",
        ),
        ([{"to": "tool_position", "take": ["a", "b", "c"]}], "a robot takes joint_delta"),
        (
            [
                {"to": "tool_position", "take": ["a", "b", "c"], "mode": "delta", "frame": "tool"},
                {"to": "tool_rotation", "take": ["d", "e", "f"], "mode": "delta"},
            ],
            "in one mode and one frame",
        ),
    ],
)
def test_what_no_robot_resolves_is_named(parts: list[dict[str, Any]], words: str) -> None:
    columns = {"x": [name for part in parts for name in part["take"]]}
    actions = {"columns": columns, "parts": parts, "step_s": 0.1, "resolved_by": "robot"}
    found = problems(actions=actions)
    assert words in found["actions.resolved_by"] and set(found) == {"actions.resolved_by"}


def test_a_tool_that_the_robot_moves_needs_no_robot_file() -> None:
    parts = [{"to": "tool_position", "take": ["x", "y", "z"], "mode": "velocity", "frame": "tool"}]
    actions = {"columns": {"a": ["x", "y", "z"]}, "parts": parts, "step_s": 0.1}
    assert "resolved_by: robot" in problems(actions=actions)["actions.parts[0].to"]
    there = {**actions, "resolved_by": "robot"}
    assert problems(actions=there) == {}
    assert robot_needs(resolve(adapter(actions=there)), InputSpec()).actions == "tool_velocity_in_tool"


def test_all_mistakes_come_in_one_error() -> None:
    given = two_joints(PARTS[:1]) | {
        "cameras": {"left": {"camera": "front"}, "right": {"camera": "front"}},
        "state": {"s": [{"of": "joint_position", "gripper": "open_sign"}]},
        "prompt": "{promt}",
    }
    assert len(problems(**given)) == 4


@given(
    cameras=st.sets(st.sampled_from(sorted(DROID_MODEL.images))),
    states=st.sets(st.sampled_from(sorted(DROID_MODEL.state))),
)
def test_whatever_a_model_takes_and_an_adapter_leaves_out_is_listed(
    cameras: set[str], states: set[str]
) -> None:
    whole = resolve(adapter(**droid())).spec
    kept_cameras = {key: one for key, one in whole.cameras.items() if key not in cameras}
    kept_state = {key: parts for key, parts in whole.state.items() if key not in states}
    words = "; ".join(model_problems(resolve(Adapter(cameras=kept_cameras, state=kept_state)), DROID_MODEL))
    for name in cameras if kept_cameras else ():
        assert f"the model's camera {name!r} is mapped to none" in words
    for name in states if kept_state else ():
        assert f"the model's state {name!r} is mapped to none" in words
    if not cameras and not states:
        assert words == ""


def test_what_the_model_does_not_have_and_other_sizes_are_listed_together() -> None:
    model = InputSpec({"observation/exterior_image_1_left": (256, 256)}, {"observation/joint_position": 6})
    words = model_problems(resolve(adapter(**droid())), model)
    assert words == [
        "the model takes 'observation/exterior_image_1_left' as 256x256 px, the adapter gives 224x224",
        "the model has no camera 'observation/wrist_image_left'"
        " (did you mean 'observation/exterior_image_1_left'?)",
        "the model takes 6 values of state 'observation/joint_position', the adapter gives 7",
        "the model has no state 'observation/gripper_position' (did you mean 'observation/joint_position'?)",
    ]


def test_a_robot_is_told_what_it_needs_in_its_own_words() -> None:
    needs = robot_needs(resolve(adapter(**droid(unused=["side"]))), DROID_MODEL)
    assert needs.images == {"front": (1200, 1920), "wrist": (1200, 1920)}
    assert needs.state == {"joint_position": 7, "gripper_width": 1}
    assert (needs.resizes, needs.unused) == ({"front", "wrist"}, {"side"})


def test_a_number_of_joints_that_nothing_tells_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing says how many values"):
        robot_needs(resolve(adapter(state={"s": [{"of": "joint_position"}]})), InputSpec())
    known = robot_needs(resolve(adapter(state={"s": [{"of": "joint_position"}]})), InputSpec({}, {"s": 6}))
    assert known.state == {"joint_position": 6}


def test_a_statistics_file_that_does_not_fit_is_named_with_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "stats.json"
    path.write_text(json.dumps({"norm_stats": {"state": {"mean": [0.0], "std": [1.0]}}}))
    found = problems(
        state={"s": [{"of": "joint_position", "take": [0]}]},
        normalisation={"file": str(path), "state": {"s": "norm_stats/stat"}, "method": "mean_std"},
    )
    assert "'norm_stats/stat' is not in the file (did you mean 'state'?)" in found["normalisation.state.s"]
    found = problems(
        normalisation={"file": str(path), "state": {"s": "norm_stats/state"}, "method": "q01_q99"}
    )
    assert "has no list of finite numbers q01 and q99" in found["normalisation.state.s"]
    for digits, section, words in ((400, "state.s", "no list of finite"), (5000, "file", "not JSON")):
        path.write_text('{"a": {"mean": [1' + "0" * digits + '], "std": [1]}}')
        norm = {"file": str(path), "state": {"s": "a"}, "method": "mean_std"}
        assert words in problems(normalisation=norm)[f"normalisation.{section}"]
