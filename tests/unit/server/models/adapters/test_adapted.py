"""A model behind its adapter: what it is given, and what the robot gets of its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_client.motion.action_space import ActionSpaces
from rosa_contract.config.adapter import Adapter
from rosa_contract.config.robot import load_robot
from rosa_contract.config.strict import Reader
from rosa_contract.errors import ConfigError
from rosa_contract.kinematics.arm import UnreachableError
from rosa_contract.kinematics.chain import Chain
from rosa_contract.rotations import matrix
from rosa_contract.wire.messages import Output
from rosa_contract.wire.overlap import Overlap
from rosa_server.models.adapters import behind
from rosa_server.models.adapters.adapted import Adapted, AdapterError
from rosa_server.models.adapters.resolving import Resolved, preset, resolve
from rosa_server.models.adapters.translator import AnswerError
from rosa_server.models.backend import Capabilities, InputSpec, ModelInput, ModelOutput

PANDA = "configs/robots/panda.yaml"
HOME = np.array([0.0, -0.2053, 0.0, -2.3561, 0.0, 2.1508, 0.7854], np.float32)


class Told:
    """Keeps what it is given and answers what it is told to."""

    max_batch = 4
    memory_mb = 0.0

    def __init__(self, spec: InputSpec | None = None, answer: Mapping[str, Any] | None = None) -> None:
        self.input_spec = spec or InputSpec()
        self.capabilities = Capabilities(at_once=2, inpaints=True, takes_any=spec is None)
        self.answer = {key: np.asarray(value, np.float32) for key, value in (answer or {}).items()}
        self.given: list[ModelInput] = []

    def load(self) -> None: ...

    def warm_up(self) -> None: ...

    def close(self) -> None: ...

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        self.given += batch
        return [ModelOutput(self.answer) for _ in batch]


def adapted(model: Told, **given: Any) -> Adapted:
    reader = Reader("test")
    spec = reader.section(Adapter, "", given)
    reader.finish()
    assert isinstance(spec, Adapter)
    made = Adapted(model, resolve(spec))
    made.load()
    return made


def seen(component: str = "system1", height: int = 48, width: int = 64, **state: Any) -> ModelInput:
    picture = np.zeros((height, width, 3), np.uint8)
    picture[..., 0] = 255  # red
    known = {"joint_position": HOME, "gripper_width": np.array([0.06], np.float32)} | state
    return ModelInput(component, "Pick the Cube", {"front": picture, "wrist": picture}, known, "panda0")


def asked(model: Told, one: ModelInput | None = None, **given: Any) -> np.ndarray:
    [output] = adapted(model, **given).infer([one or seen()])
    return output.arrays["actions"]


def test_droid_gets_its_pictures_state_and_prompt_and_its_velocities_become_joint_positions() -> None:
    rows = np.zeros((15, 8))
    rows[:, 0], rows[:, 1], rows[:, 7] = 0.5, 3.0, 0.9
    model = Told(answer={"actions": rows})
    one = adapted(model, preset="openpi_droid", robot=PANDA)
    [output] = one.infer([seen()])
    [given] = model.given
    assert given.images["observation/exterior_image_1_left"].shape == (224, 224, 3)
    assert given.images["observation/exterior_image_1_left"][112, 112].tolist() == [255, 0, 0]
    assert given.images["observation/exterior_image_1_left"][0, 0].tolist() == [0, 0, 0], "padded above"
    assert given.state["observation/joint_position"] == pytest.approx(HOME)
    assert given.state["observation/gripper_position"] == pytest.approx([0.25]), "a quarter closed"
    assert given.prompt == "Pick the Cube"
    actions = output.arrays["actions"]
    assert actions.shape == (15, 8) and actions.dtype == np.float32
    assert actions[:3, 0] == pytest.approx(HOME[0] + np.array([0.1, 0.2, 0.3]), abs=1e-6)
    assert actions[0, 1] == pytest.approx(HOME[1] + 0.2), "a velocity beyond 1 counts as 1"
    assert (actions[:, 7] == 0).all(), "0.9 of closed is closed"
    assert output.arrays["step_s"] == pytest.approx([1 / 15])


def test_libero_moves_the_tool_by_what_it_answers() -> None:
    from rosa_server.models.panda.kinematics import forward

    rows = np.zeros((5, 7))
    rows[:, 0], rows[:, 2], rows[:, 6] = 0.4, -0.4, -1
    model = Told(answer={"actions": rows})
    actions = asked(model, preset="openpi_libero", robot=PANDA)
    position, rotation = forward(HOME)
    state = model.given[0].state["observation/state"]
    assert state[:3] == pytest.approx(position + np.array([-0.66, 0, 0.912]), abs=1e-6), (
        "in the simulator's world"
    )
    assert state[6:] == pytest.approx([0.03, -0.03])
    for row in range(5):
        place, turned = forward(actions[row, :7])
        assert place == pytest.approx(position + (row + 1) * np.array([0.02, 0, -0.02]), abs=1e-3)
        assert turned == pytest.approx(rotation, abs=1e-2)
    assert actions[:, 7] == pytest.approx(0.08), "-1 opens"


def test_what_a_robot_resolves_is_what_the_server_would_have_made_of_it() -> None:
    """The same answer, resolved on either side; on the robot's it needs no robot file."""
    rng = np.random.default_rng(3)
    rows = rng.uniform(-0.3, 0.3, (8, 7))
    rows[:, 6] = np.sign(rows[:, 6])
    here = asked(Told(answer={"actions": rows}), preset="openpi_libero", robot=PANDA)
    libero = preset("openpi_libero").actions
    assert libero is not None
    one = Adapted(
        Told(answer={"actions": rows}), Resolved(Adapter(actions=replace(libero, resolved_by="robot")))
    )
    one.load()
    assert one.input_spec.actions == "tool_step_delta"
    assert {"joint_position"} <= (one.input_spec.unused or set()), "the robot has it for itself"
    [output] = one.infer([seen()])
    assert output.arrays.keys() == {"tool_step_delta", "step_s"}
    assert output.arrays["tool_step_delta"].shape == (8, 7)
    assert set(output.arrays["tool_step_delta"][:, 6]) == {0.0, 1.0}
    spaces = ActionSpaces(load_robot(PANDA))
    answer = Output(output.arrays)
    there = spaces.in_joints(answer, seen().state, None, 0.8).arrays["actions"]
    assert there == pytest.approx(here, abs=2e-4)


@pytest.mark.parametrize("mode", ["delta", "step_delta", "velocity"])
def test_joints_that_a_robot_resolves_are_what_the_server_would_have_made(mode: str) -> None:
    rows = np.random.default_rng(4).uniform(-3.0, 3.0, (5, 8))
    given = one_mode(mode)
    here = asked(Told(answer={"actions": rows}), robot=PANDA, **given)
    given = {"actions": {**given["actions"], "resolved_by": "robot"}}
    one = adapted(Told(answer={"actions": rows}), robot=PANDA, **given)
    [output] = one.infer([seen()])
    assert output.arrays.keys() - {"step_s"} == {f"joint_{mode}"}
    spaces = ActionSpaces(load_robot(PANDA))
    there = spaces.in_joints(Output(output.arrays), seen().state, None, 0.5).arrays["actions"]
    assert there == pytest.approx(here, abs=1e-5)


def test_a_tool_that_turns_by_more_than_half_a_turn_a_second_turns_the_way_it_is_told() -> None:
    from rosa_server.models.panda.kinematics import forward

    parts = [
        {"to": "tool_position", "take": ["x", "y", "z"], "mode": "velocity"},
        {"to": "tool_rotation", "take": ["a", "b", "c"], "mode": "velocity"},
    ]
    actions = {"columns": {"actions": ["x", "y", "z", "a", "b", "c"]}, "parts": parts, "step_s": 0.05}
    model = Told(answer={"actions": [[0.0, 0.0, 0.0, 0.0, 0.0, 4.0]]})
    got = asked(model, robot=PANDA, actions=actions, unused=["gripper_width"])
    wanted = matrix("axis_angle", np.array([0.0, 0.0, 0.2])) @ forward(HOME)[1]
    assert forward(got[0, :7])[1] == pytest.approx(wanted, abs=1e-2)


@pytest.mark.parametrize("rotation", ["axis_angle", "rpy"])
def test_angles_of_a_second_stay_what_they_are_where_the_robot_resolves_them(rotation: str) -> None:
    parts = [
        {"to": "tool_position", "take": ["x", "y", "z"], "mode": "velocity"},
        {"to": "tool_rotation", "take": ["a", "b", "c"], "mode": "velocity", "rotation": rotation},
    ]
    columns = {"actions": ["x", "y", "z", "a", "b", "c"]}
    actions = {"columns": columns, "parts": parts, "step_s": 0.05, "resolved_by": "robot"}
    model = Told(answer={"actions": [[0.0, 0.0, 0.0, 4.0, 0.0, 0.0]]})
    [output] = adapted(model, actions=actions).infer([seen()])
    assert output.arrays["tool_velocity"][0] == pytest.approx([0.0, 0.0, 0.0, 4.0, 0.0, 0.0], abs=1e-5)


def test_a_place_that_the_arm_does_not_reach_fails_the_request() -> None:
    rows = np.zeros((80, 7))
    rows[:, 0] = 1
    with pytest.raises(UnreachableError, match="the tool cannot be at"):
        asked(Told(answer={"actions": rows}), preset="openpi_libero", robot=PANDA)


def test_gr00t_answers_an_array_for_each_value() -> None:
    answer = {f"action.{name}": np.zeros((16, 1)) for name in ("x", "y", "z", "roll", "pitch", "yaw")}
    model = Told(answer={**answer, "action.gripper": np.ones((16, 1))})
    actions = asked(model, preset="gr00t_libero_panda", robot=PANDA)
    assert actions[:, :7] == pytest.approx(np.tile(HOME, (16, 1)), abs=1e-3)
    assert actions[:, 7] == pytest.approx(0.08)
    assert model.given[0].state["state.x"].shape == (1,)


def test_gr00t_droid_is_told_where_the_flange_is_turned_as_its_data_was() -> None:
    """Against the arithmetic of GR00T's own client: the flange's rotation times its matrix, of which two rows."""
    flange = Chain(load_robot(PANDA).chain).flange(HOME)  # type: ignore[arg-type]
    turned = flange[:3, :3] @ np.array([[0, 0, -1], [-1, 0, 0], [0, 1, 0]])
    rows = np.linspace(HOME, HOME + 0.05, 40)
    answer = {"action.joint_position": rows, "action.gripper_position": np.full((40, 1), 0.9)}
    model = Told(answer={**answer, "action.eef_9d": np.zeros((40, 9))})
    actions = asked(model, preset="gr00t_droid", robot=PANDA)
    given = model.given[0].state
    assert given["state.eef_9d"] == pytest.approx([*flange[:3, 3], *turned[0], *turned[1]], abs=1e-6)
    assert given["state.joint_position"] == pytest.approx(HOME)
    assert given["state.gripper_position"] == pytest.approx([0.25])
    assert actions.shape == (15, 8)
    assert actions[:, :7] == pytest.approx(rows[:15], abs=1e-6)
    assert (actions[:, 7] == 0).all(), "0.9 of closed is closed"


TURN = st.tuples(*[st.floats(-180, 180)] * 3)
SHIFT = st.tuples(*[st.floats(-0.5, 0.5)] * 3)


@settings(max_examples=25, deadline=None)
@given(turn=TURN, shift=SHIFT, base_turn=TURN, base_shift=SHIFT, on=st.sampled_from(["tool", "flange"]))
def test_a_pose_that_was_given_to_the_model_leaves_the_arm_where_it_is(
    turn: Any, shift: Any, base_turn: Any, base_shift: Any, on: str
) -> None:
    """Whatever its tool and its base are: what it is told and what it answers are of the same frames."""
    frames = {
        "tool_frame": {"on": on, "position_m": list(shift), "rpy_deg": list(turn)},
        "base_frame": {"position_m": list(base_shift), "rpy_deg": list(base_turn)},
    }
    state = {"pose": [{"of": "tool_position"}, {"of": "tool_rotation", "rotation": "quaternion_xyzw"}]}
    names = ["x", "y", "z", "qx", "qy", "qz", "qw"]
    parts = [
        {"to": "tool_position", "take": names[:3]},
        {"to": "tool_rotation", "take": names[3:], "rotation": "quaternion_xyzw"},
    ]
    model = Told(answer={"a": np.zeros((1, 7))})
    given = {"robot": PANDA, "state": state, "unused": ["gripper_width"], **frames}
    one = adapted(model, actions={"columns": {"a": names}, "parts": parts}, **given)
    model.answer = {"a": np.array([[0.5, 0, 0.5, 1, 0, 0, 0]])}
    with suppress(UnreachableError):
        one.infer([seen()])
    model.answer = {"a": model.given[-1].state["pose"][None]}
    [output] = one.infer([seen()])
    assert output.arrays["actions"][0, :7] == pytest.approx(HOME, abs=2e-3)


def test_steps_are_along_the_axes_of_the_models_base_and_of_its_tool() -> None:
    from rosa_server.models.panda.kinematics import forward

    names = ["x", "y", "z"]
    step = Told(answer={"a": [[0.02, 0, 0]]})
    position, rotation = forward(HOME)
    for frame, frames, along in (
        ("base", {"base_frame": {"rpy_deg": [0, 0, 90]}}, np.array([0, -1, 0])),
        ("tool", {"tool_frame": {"rpy_deg": [0, 0, 90]}}, rotation @ [0, 1, 0]),
    ):
        parts = [{"to": "tool_position", "take": names, "mode": "step_delta", "frame": frame}]
        actions = {"columns": {"a": names}, "parts": parts}
        got = asked(step, robot=PANDA, actions=actions, unused=["gripper_width"], **frames)
        assert forward(got[0, :7])[0] == pytest.approx(position + 0.02 * along, abs=1e-3), frame


def test_so101_may_speak_of_shares_of_its_ranges() -> None:
    """As LeRobot does without `use_degrees`, and never beyond the ends."""
    robot = load_robot("configs/robots/so101.yaml")
    low, high = (np.array(one) for one in (robot.limits.position_min_rad, robot.limits.position_max_rad))
    model = Told(answer={"action": [[-100, 100, 0, 50, 300, 50]]})
    five = seen(joint_position=(low + (high - low) * [0, 1, 0.5, 0.75, 0.1]).astype(np.float32))
    five = replace(five, state={**five.state, "gripper_width": np.array([0.075], np.float32)})
    actions = asked(model, five, preset="lerobot_so101_range", robot="configs/robots/so101.yaml")
    assert model.given[0].state["observation.state"] == pytest.approx([-100, 100, 0, 50, -80, 75], abs=1e-3)
    wanted = [low[0], high[1], (low + high)[2] / 2, (low + 3 * high)[3] / 4, high[4], 0.05]
    assert actions[0] == pytest.approx(wanted, abs=1e-5)


def test_so101_speaks_degrees_and_percent() -> None:
    model = Told(answer={"action": [[90, -90, 0, 0, 0, 50]]})
    five = seen(joint_position=np.radians([10, 20, 30, 40, 50]).astype(np.float32))
    actions = asked(model, five, preset="lerobot_so101")
    assert model.given[0].state["observation.state"] == pytest.approx([10, 20, 30, 40, 50, 75], abs=1e-4)
    assert actions[0] == pytest.approx([np.pi / 2, -np.pi / 2, 0, 0, 0, 0.04], abs=1e-6)


def test_openvla_gets_its_own_prompt() -> None:
    model = Told(answer={"actions": np.zeros((1, 7))})
    asked(model, preset="openvla_bridge", robot=PANDA, unused=["wrist"])
    assert model.given[0].prompt == "In: What action should the robot take to pick the cube?\nOut:"


JOINTS = [f"j{n}" for n in range(7)]
COLUMNS = {"actions": [*JOINTS, "g"]}
number = st.floats(-0.5, 0.5)


def one_mode(mode: str, **more: Any) -> dict[str, Any]:
    parts = [{"to": "joints", "take": JOINTS, "mode": mode, **more}, {"to": "gripper", "take": ["g"]}]
    return {"actions": {"columns": COLUMNS, "parts": parts, "step_s": 0.1}}


@settings(max_examples=40)
@given(steps=st.lists(st.lists(number, min_size=7, max_size=7), min_size=1, max_size=6))
def test_every_mode_orders_the_same_places(steps: list[list[float]]) -> None:
    """The same motion written in four ways, in degrees with a joint that counts the other way."""
    signs = [1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 1.0]
    change = np.array(steps)
    places = HOME + np.cumsum(change, axis=0)
    ways = {
        "absolute": places,
        "delta": places - HOME,
        "step_delta": change,
        "velocity": change / 0.1,
    }
    for mode, values in ways.items():
        written = np.degrees(values * signs)
        rows = np.column_stack([written, np.full(len(steps), 0.03)])
        actions = asked(Told(answer={"actions": rows}), **one_mode(mode, unit="deg", signs=signs))
        assert actions[:, :7] == pytest.approx(places, abs=1e-4), mode
        assert actions[:, 7] == pytest.approx(0.03), mode


def test_a_state_and_an_order_with_the_same_zeros_and_signs_are_the_same_place() -> None:
    how = {"unit": "deg", "zeros": [0.1] * 7, "signs": [-1.0] * 7}
    model = Told()
    one = adapted(
        model,
        state={"s": [{"of": "joint_position", **how, "take": list(range(7))}]},
        **one_mode("absolute", **how),
    )
    with pytest.raises(AnswerError, match="the model answered no 'actions'"):
        one.infer([seen()])
    model.answer = {"actions": np.append(model.given[0].state["s"], 0.06)[None].astype(np.float32)}
    [output] = one.infer([seen()])
    assert output.arrays["actions"][0] == pytest.approx([*HOME, 0.06], abs=1e-5)


def test_joints_in_another_order_and_columns_that_are_left_out() -> None:
    parts = [
        {"to": "joints", "take": ["b", "a"], "joints": [1, 0]},
        {"to": "gripper", "take": ["g"], "gripper": "closed_percent"},
        {"to": "nothing", "take": ["done"]},
    ]
    actions = {"columns": {"a": ["done", "a", "b"], "hand": ["g"]}, "parts": parts, "horizon": 2}
    answer = {"a": [[9, 1, 2], [9, 3, 4], [9, 5, 6]], "hand": [25, 75, 0], "extra": [1.0]}
    two = seen(joint_position=np.zeros(2, np.float32))
    [output] = adapted(Told(answer=answer), actions=actions).infer([two])
    assert output.arrays["actions"] == pytest.approx(np.array([[1, 2, 0.06], [3, 4, 0.02]]))
    assert output.arrays.keys() == {"actions", "extra"}, "what else it answers stays"


def test_a_gripper_that_the_model_does_not_order_stays_where_it_is() -> None:
    given = {"actions": {"columns": {"actions": JOINTS}, "parts": [{"to": "joints", "take": JOINTS}]}}
    actions = asked(Told(answer={"actions": np.zeros((3, 7))}), unused=["gripper_width"], **given)
    assert actions[:, 7] == pytest.approx(0.06)


def test_an_answer_of_another_shape_says_both_shapes() -> None:
    with pytest.raises(
        AnswerError, match=r"actions: expected \(rows, 8\) for j0.*the model answered \(2, 7\)"
    ):
        asked(Told(answer={"actions": np.zeros((2, 7))}), **one_mode("absolute"))


def test_words_of_other_components_pass_through() -> None:
    model = Told()
    one = adapted(model, **one_mode("absolute"))
    [output] = one.infer([seen("monitor")])
    assert output.arrays == {}


def test_colours_history_and_the_robots_own_names() -> None:
    model = Told()
    camera = {"camera": "front", "height": 24, "width": 32, "fit": "stretch", "colours": "bgr", "history": 2}
    one = adapted(model, cameras={"image": camera}, unused=["wrist"])
    one.infer([seen("monitor")])
    assert model.given[0].images.keys() == {"image"}
    assert model.given[0].images["image"].shape == (2, 24, 32, 3)
    assert model.given[0].images["image"][1, 5, 5].tolist() == [0, 0, 255]
    assert model.given[0].state["joint_position"] == pytest.approx(HOME), "what is not named stays"


def test_components_that_ask_about_one_observation_each_have_a_past_of_their_own() -> None:
    """Each call brings pictures of its own: the second one of an observation is not what the camera showed before."""
    model = Told()
    camera = {"camera": "front", "height": 24, "width": 32, "fit": "stretch", "history": 2}
    one = adapted(model, cameras={"image": camera}, unused=["wrist"])
    for shade in (10, 20):
        for component in ("safety", "monitor"):
            asked = seen(component)
            one.infer(
                [replace(asked, images={**asked.images, "front": np.full_like(asked.images["front"], shade)})]
            )
            past = model.given[-1].images["image"]
            assert past[:, 0, 0, 0].tolist() == [10, shade], component


@pytest.mark.parametrize("method", ["mean_std", "q01_q99", "min_max"])
def test_normalisation_goes_there_and_back(tmp_path: Path, method: str) -> None:
    low, high = {"mean_std": ("mean", "std"), "q01_q99": ("q01", "q99"), "min_max": ("min", "max")}[method]
    path = tmp_path / "stats.json"
    entry = {
        low: list(HOME.astype(float) - 1),
        high: list(HOME.astype(float) + (3 if method != "mean_std" else 9)),
    }
    path.write_text(json.dumps({"s": entry, "a": {name: [*values, 0.5] for name, values in entry.items()}}))
    model = Told()
    norm = {"file": str(path), "method": method, "state": {"s": "s"}, "actions": {"actions": "a"}}
    state = {"s": [{"of": "joint_position", "take": list(range(7))}]}
    one = adapted(model, state=state, normalisation=norm, **one_mode("absolute"))
    with pytest.raises(AnswerError):
        one.infer([seen()])
    normal = model.given[0].state["s"]
    expected = {"mean_std": 1 / (HOME + 9), "q01_q99": np.full(7, -0.5), "min_max": np.full(7, -0.5)}
    assert normal == pytest.approx(expected[method], abs=1e-4)
    model.answer = {"actions": np.append(normal, 0.0)[None].astype(np.float32)}
    assert one.infer([seen()])[0].arrays["actions"][0, :7] == pytest.approx(HOME, abs=1e-4)


@pytest.mark.parametrize("mask", [[True] * 7, [True] * 9, "all but the gripper"])
def test_a_mask_that_does_not_fit_its_statistics_is_named(tmp_path: Path, mask: Any) -> None:
    """Left out of account, the gripper would be scaled like a joint."""
    path = tmp_path / "stats.json"
    path.write_text(json.dumps({"a": {"q01": [-1.0] * 8, "q99": [1.0] * 8, "mask": mask}}))
    norm = {"file": str(path), "method": "q01_q99", "actions": {"actions": "a"}}
    with pytest.raises(ConfigError, match="mask: expected a list of 8") as error:
        adapted(Told(), normalisation=norm, **one_mode("absolute"))
    assert [problem.cause for problem in error.value.problems] == ["wrong_length"]


def test_an_adapter_that_does_not_fit_its_model_stops_it_from_loading() -> None:
    model = Told(InputSpec({"image": (10, 10)}, {"state": 9}))
    with pytest.raises(AdapterError, match=r"no camera 'img'.*state 'state' is mapped to none") as error:
        adapted(
            model,
            cameras={"img": {"camera": "front"}},
            state={"robot": [{"of": "joint_position"}]},
        )
    assert error.value.cause == "unmapped"


def test_a_broken_adapter_is_refused_before_anything_is_loaded() -> None:
    with pytest.raises(ConfigError, match="either `of` or `values`"):
        adapted(Told(), state={"s": [{}]})


def test_what_the_backend_can_do_besides_it_still_can() -> None:
    one = adapted(Told())
    assert (one.capabilities.at_once, one.max_batch, one.capabilities.inpaints) == (2, 4, True)
    assert not adapted(Told(), **one_mode("absolute")).capabilities.inpaints, "its chunks are not the robot's"
    plain = Told()
    assert behind(plain, {}) is plain


def test_what_the_robot_plays_meanwhile_is_kept_from_a_model_that_speaks_otherwise() -> None:
    model = Told(answer={"actions": np.zeros((2, 8))})
    overlap = Overlap(np.zeros((1, 8), np.float32), 1, 0.1)
    adapted(model, **one_mode("absolute")).infer([replace(seen(), overlap=overlap)])
    assert model.given[0].overlap is None


def test_a_measurement_uses_pictures_of_the_models_size() -> None:
    one = adapted(Told(), preset="openpi_droid")
    assert one.input_spec.images["front"] == (1200, 1920)
    assert one.capabilities.nominal.images["front"] == (224, 224)


def test_pictures_are_resized_ahead_of_time_into_the_place_that_the_worker_has_for_them() -> None:
    model = Told()
    camera = {"camera": "front", "height": 24, "width": 32, "fit": "stretch"}
    behind_it = adapted(model, cameras={"image": camera}, unused=["wrist"])
    one = seen("monitor")
    row = np.zeros((24, 32, 3), np.uint8)
    ready = behind_it.prepare_ahead(one, lambda name, shape: row)
    assert ready.prepared is not None and ready.images is one.images, "the answer is about its own"
    behind_it.infer([ready, one])
    assert model.given[0].images["image"] is row
    assert row[..., 0].min() == 255 and (row == model.given[1].images["image"]).all()
    assert model.given[0].prompt == model.given[1].prompt


def test_what_depends_on_earlier_pictures_or_cannot_be_made_is_left_to_its_turn() -> None:
    camera = {"camera": "front", "height": 24, "width": 32, "fit": "stretch"}
    for spec, one in (
        ({**camera, "history": 2}, seen("monitor")),
        (camera, replace(seen("monitor"), images={})),
    ):
        model = Told()
        behind_it = adapted(model, cameras={"image": spec}, unused=["wrist"])
        ready = behind_it.prepare_ahead(one, lambda name, shape: None)
        assert ready is one
        if one.images:
            behind_it.infer([ready])
            assert model.given[0].images["image"].shape == (2, 24, 32, 3)
        else:
            with pytest.raises(ValueError, match="'front' is missing"):
                behind_it.infer([ready])


def test_one_action_alone_is_one_row() -> None:
    """As models with a horizon of one answer it; an array of another length is still refused."""
    actions = asked(
        Told(answer={"actions": np.zeros(7)}), preset="openvla_bridge", robot=PANDA, unused=["wrist"]
    )
    assert actions.shape == (1, 8)
    with pytest.raises(AnswerError, match=r"expected \(rows, 7\)"):
        asked(Told(answer={"actions": np.zeros(6)}), preset="openvla_bridge", robot=PANDA, unused=["wrist"])
