"""What the `ros2_control` driver makes of what it hears: names, faults in words, the order of a recovery."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rosa_client.drivers.arms.gripper_link import finger_joints
from rosa_client.drivers.arms.ros2_control_rules import (
    ACTIVATE,
    CLEAR_ERROR,
    DEACTIVATE,
    HARDWARE,
    Ros2ControlLink,
    controllers_namespace,
    joint_states_topic,
    recovery_steps,
    waypoints,
)
from rosa_contract.config.arms import GripperActions, Ros2ControlSettings, arm_settings
from rosa_contract.config.robot import WITHOUT_GRIPPER, GripperSpec, load_robot
from tests.unit.client.sent import sent

ROBOTS = Path(__file__).parents[4] / "configs" / "robots"
SPEC = load_robot(ROBOTS / "panda.yaml")
SETTINGS = Ros2ControlSettings(joint_state_timeout_s=0.2)
FINGERS = ("panda_finger_joint1", "panda_finger_joint2")
Q = [0.1 * i for i in range(7)]


def link(settings: Ros2ControlSettings = SETTINGS) -> Ros2ControlLink:
    """A link that has heard of an active controller and of the arm at `Q`, at time 0."""
    made = Ros2ControlLink(SPEC, settings, "/panda0", 0.0)
    made.hear_controllers(0.0, {"joint_state_broadcaster": "active", settings.controller: "active"})
    names = [settings.joint_prefix + name for name in SPEC.joints]
    made.hear_joints(0.0, 0.0, names, Q, [0.5] * 7, [1.0] * 7)
    return made


def test_joints_are_found_by_name_whatever_their_order_and_company() -> None:
    settings = replace(SETTINGS, joint_prefix="left_")
    made = link(settings)
    names = [f"left_{name}" for name in (*FINGERS, *reversed(SPEC.joints))]
    made.hear_joints(0.1, 0.1, names, [0.01, 0.02, *range(7)], [0, 0, *range(7)], [math.nan] * 9)
    state = made.state(0.1, "")
    assert state.q_rad.tolist() == state.velocity_rad_s.tolist() == [6, 5, 4, 3, 2, 1, 0]
    assert state.gripper_m == pytest.approx([0.03])
    assert state.effort_nm is None, "unknown effort is none, not zero"


def test_effort_is_kept_where_it_is_known() -> None:
    assert link().state(0.0, "").effort_nm.tolist() == [1.0] * 7


def test_one_finger_stands_for_both() -> None:
    made = link()
    made.hear_joints(0.0, 0.0, FINGERS[:1], [0.02], [], [])
    assert made.grippers[0].width_m == pytest.approx(0.04)
    assert made.fault(0.0) == "", "a message with fingers only is no fault"


def test_a_knuckle_that_turns_to_close_tells_the_width() -> None:
    """A Robotiq 2F-85: 0 rad is open. Read as metres, it would be closed when open, and 0.8 m wide when closed."""
    gripper = GripperActions(open_position=0.0, closed_position=0.8, joints=("knuckle",))
    made = Ros2ControlLink(
        replace(SPEC, gripper=GripperSpec(0.0, 0.085)), replace(SETTINGS, gripper=gripper), "/ur", 0.0
    )
    for position, width_m in ((0.0, 0.085), (0.8, 0.0), (0.2, 0.06375)):
        made.hear_joints(0.0, 0.0, ["knuckle"], [position], [], [])
        assert made.grippers[0].width_m == pytest.approx(width_m)


def test_a_width_that_cannot_be_is_a_fault_that_names_the_settings() -> None:
    """The angle of a closed Robotiq, read as metres."""
    made = Ros2ControlLink(
        replace(SPEC, gripper=GripperSpec(0.0, 0.085)),
        replace(SETTINGS, gripper=GripperActions(joints=("knuckle",))),
        "/ur",
        0.0,
    )
    assert "no position of knuckle on /joint_states" in made.grippers[0].unheard()
    for position, is_fault in ((0.0, False), (0.8, True), (0.087, False), (-0.002, False), (-0.8, True)):
        made.hear_joints(0.0, 0.0, ["knuckle"], [position], [], [])
        assert bool(made.gripper_fault(0.0)) is is_fault, position
    assert made.grippers[0].unheard() == ""
    assert made.gripper_fault(0.0) == (
        "knuckle tells a gripper that is open by -0.800 m, expected 0..0.085: see open_position, closed_position and"
        " joint_... in arm.gripper"
    )


def test_an_arm_without_a_gripper_reads_no_fingers_and_misses_none() -> None:
    made = Ros2ControlLink(
        replace(SPEC, gripper=WITHOUT_GRIPPER),
        replace(SETTINGS, gripper=GripperActions(kind="none")),
        "/ur",
        0.0,
    )
    made.hear_joints(0.0, 0.0, [*SPEC.joints, *FINGERS], [*Q, 0.02, 0.02], [], [])
    assert made.state(0.0, "").gripper_m.size == 0
    assert made.gripper_fault(5.0) == "" and made.grippers == ()


def test_a_gripper_without_its_action_server_is_a_fault_before_the_first_grasp() -> None:
    made = link()
    made.grippers[0].hear_action(1.0, "nobody serves it")
    assert made.gripper_fault(1.0) == "", "a server that is starting, or invisible for a moment, is none"
    made.grippers[0].hear_action(2.1, "nobody serves it")
    assert made.gripper_fault(2.1) == "nobody serves it"
    made.grippers[0].hear_action(2.2, "")
    assert made.gripper_fault(2.2) == ""
    made.grippers[0].hear_action(3.0, "nobody serves it")
    assert made.gripper_fault(3.0) == ""
    assert made.gripper_fault(4.3) == "nobody serves it"


def test_a_gripper_whose_fingers_fell_silent_is_a_fault() -> None:
    """Its width would pass for fresh: the arm's own joint states go on, with a new stamp each."""
    made = link()
    made.hear_joints(1.0, 1.0, FINGERS, [0.02, 0.02], [], [])
    made.grippers[0].hear_action(4.0, "")
    assert made.gripper_fault(2.9) == ""
    assert made.gripper_fault(3.1) == (
        "no position of panda_finger_joint1, panda_finger_joint2 on /joint_states for 2 s: how far the gripper is"
        " open is unknown"
    )
    made.hear_joints(3.2, 3.2, FINGERS, [0.01, 0.01], [], [])
    assert made.gripper_fault(3.2) == ""


def test_positions_that_are_too_few_are_a_fault_until_they_are_complete_again() -> None:
    made = link()
    made.hear_joints(0.1, 0.1, SPEC.joints, Q[:6], [], [])
    assert made.fault(0.1) == "joint states on /joint_states hold no position of every joint"
    made.hear_joints(0.2, 0.2, SPEC.joints, Q, [math.nan] * 7, [])
    assert made.fault(0.2) == ""
    assert made.state(0.2, "").velocity_rad_s.tolist() == [0.0] * 7


def test_a_joint_that_is_named_twice_is_a_fault() -> None:
    made = link()
    made.hear_joints(0.1, 0.1, [*SPEC.joints, SPEC.joints[2]], [*Q, 1.0], [], [])
    assert made.fault(0.1) == "joint states on /joint_states name panda_joint3 twice"


def test_each_joint_state_is_handed_on_once_in_its_order_for_the_check() -> None:
    made = link()
    assert [sample.stamp_s for sample in made.state(0.0, "").samples] == [0.0]
    for number in (1, 2, 3):
        made.hear_joints(0.1 * number, 7.0 + number, SPEC.joints, [*Q[:6], 0.1 * number], [], [])
    state = made.state(0.3, "")
    assert state.samples is not None
    assert [(sample.at_s, sample.stamp_s) for sample in state.samples] == [
        (0.1, 8.0),
        (0.2, 9.0),
        (0.1 * 3, 10.0),
    ]
    assert made.state(0.3, "").samples == ()


def test_the_nodes_that_publish_joint_states_are_named_when_they_are_two() -> None:
    made = link()
    made.hear_publishers(["/controllers"])
    assert made.state(0.0, "").source == "joint states on /joint_states"
    made.hear_publishers(["/joint_state_publisher_gui", "/controllers"])
    assert made.state(0.0, "").source == (
        "joint states on /joint_states, which 2 nodes publish: /controllers, /joint_state_publisher_gui"
    )


def test_a_missing_joint_is_named() -> None:
    made = link()
    made.hear_joints(0.1, 0.1, SPEC.joints[:6], Q[:6], [], [])
    assert made.fault(0.1) == (
        "joint states on /joint_states lack panda_joint7; they hold panda_joint1, panda_joint2, panda_joint3,"
        " panda_joint4, panda_joint5, panda_joint6"
    )


def test_a_wrong_prefix_is_named_before_anything_is_known() -> None:
    made = Ros2ControlLink(SPEC, replace(SETTINGS, joint_prefix="fr3_"), "/panda0", 0.0)
    made.hear_joints(0.0, 0.0, SPEC.joints, Q, [], [])
    assert not made.ready
    assert "lack fr3_panda_joint1, fr3_panda_joint2" in made.silence(5.0)


def test_silence_says_which_topic_was_waited_for() -> None:
    made = Ros2ControlLink(SPEC, SETTINGS, "/panda0", 0.0)
    assert made.silence(5.0) == "no joint states on /joint_states within 5 s; is ros2_control running there?"


def test_stale_joint_states_are_a_fault_also_when_the_last_one_is_repeated() -> None:
    made = link()
    made.hear_controllers(0.3, {SETTINGS.controller: "active"})
    for tenth in (1, 2, 3):
        made.hear_joints(0.1 * tenth, 0.0, SPEC.joints, Q, [], [])
    assert made.fault(0.2) == ""
    assert made.fault(0.3) == made.fault(0.4) == "no new joint states on /joint_states for 0.2 s"
    assert made.state(0.3, "old").age_s == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("controllers", "fault"),
    [
        ({"joint_trajectory_controller": "active"}, ""),
        (
            {"joint_trajectory_controller": "inactive"},
            "controller joint_trajectory_controller is inactive, expected active",
        ),
        ({"jsb": "active"}, "controller joint_trajectory_controller is not loaded; loaded: jsb"),
        ({}, "controller joint_trajectory_controller is not loaded; loaded: none"),
    ],
)
def test_only_an_active_controller_moves_the_arm(controllers: dict[str, str], fault: str) -> None:
    made = link()
    made.hear_controllers(0.1, controllers)
    assert made.fault(0.1) == fault


def test_a_controller_manager_that_does_not_answer_is_a_fault_unless_it_is_not_to_be_asked() -> None:
    for manager, words in (("controller_manager", "has not listed its controllers for 2 s"), ("", "")):
        made = link(replace(SETTINGS, controller_manager=manager))
        made.hear_joints(2.5, 2.5, SPEC.joints, Q, [], [])
        assert words in made.fault(2.5)
        assert bool(made.fault(2.5)) == bool(manager)


@pytest.mark.parametrize(
    ("mode", "words"),
    [(1, ""), (2, ""), (0, "unlock the joints"), (3, "guided"), (4, "reflex: joint_reflex"), (5, "release")],
)
def test_the_robots_mode_is_a_fault_where_it_does_not_follow(mode: int, words: str) -> None:
    made = link(replace(SETTINGS, robot_state="franka_robot_state_broadcaster/robot_state"))
    made.hear_robot(0.0, 2, [])
    made.hear_robot(0.0, 2, [])
    made.hear_controllers(0.0, {SETTINGS.controller: "inactive"})
    said = []
    for _ in range(3):
        said.append(made.fault(0.0))
        made.hear_robot(0.0, mode, ["joint_reflex"] if mode == 4 else [])
    said.append(made.fault(0.0))
    assert said[0] == "", "what the robot says about it is not here yet"
    expected = words or "controller joint_trajectory_controller is inactive"
    assert expected in said[2], "the reflex explains the inactive controller"
    assert set(said) == {"", said[2]}, "an operator's decision is about one reason"


def test_a_controller_that_stops_again_is_explained_again() -> None:
    made = link(replace(SETTINGS, robot_state="franka_robot_state_broadcaster/robot_state"))
    for now_s in (0.0, 0.5):
        made.hear_joints(now_s, now_s, SPEC.joints, Q, [], [])
        made.hear_controllers(now_s, {SETTINGS.controller: "inactive"})
        made.hear_robot(now_s, 2, [])  # published before it was stopped
        assert made.fault(now_s) == ""
        made.hear_robot(now_s, 4, ["joint_reflex"])
        assert made.fault(now_s) == "the robot is stopped by a reflex: joint_reflex"
        made.state(now_s, made.fault(now_s))
        made.hear_joints(now_s + 0.2, now_s + 0.2, SPEC.joints, Q, [], [])
        made.hear_controllers(now_s + 0.2, {SETTINGS.controller: "active"})
        made.hear_robot(now_s + 0.2, 2, [])
        assert made.fault(now_s + 0.2) == ""


@pytest.mark.parametrize("robot_state", ["", "franka_robot_state_broadcaster/robot_state"])
def test_a_controller_that_was_stopped_for_a_moment_is_a_fault_that_the_control_loop_sees(
    robot_state: str,
) -> None:
    """It is active again before anybody looks; it has stood still, so the setpoints of the motion would be a jump."""
    settings = replace(SETTINGS, robot_state=robot_state)
    words = "controller joint_trajectory_controller is inactive, expected active"
    made = link(settings)
    made.hear_robot(0.0, 2, [])
    told: list[tuple[float, str, bool]] = []
    for step in range(60):
        now_s = step / 100
        made.hear_joints(now_s, now_s, SPEC.joints, Q, [], [])
        if step % 3 == 0:
            made.hear_robot(now_s, 2, [])
        if step == 10:
            made.hear_controllers(now_s, {settings.controller: "inactive"}, answers=False)
            made.hear_controllers(now_s, {settings.controller: "active"}, answers=False)
        if step == 11:  # an answer that may be older
            made.hear_controllers(now_s, None)
        if step == 20:
            made.hear_controllers(now_s, {settings.controller: "active"})
        fault = made.fault(now_s)
        told.append((now_s, fault, made.state(now_s, fault).may_follow))
    faults = [(now_s, fault) for now_s, fault, _ in told if fault]
    assert {fault for _, fault in faults} == {words}
    first_s, last_s = faults[0][0], faults[-1][0]
    assert first_s == 0.1, "from the control period on that comes next"
    assert 0.27 < last_s <= 0.3
    assert len(faults) == round(100 * (last_s - first_s)) + 1, "without a gap"
    assert not any(may_follow for *_, may_follow in told)


def test_a_stop_that_is_over_is_seen_by_a_control_loop_that_is_late_and_recovers_nothing() -> None:
    made = link()
    made.hear_controllers(0.1, {"joint_state_broadcaster": "active"})
    made.hear_controllers(0.1, {"joint_state_broadcaster": "active", SETTINGS.controller: "active"})
    made.hear_joints(0.9, 0.9, SPEC.joints, Q, [], [])
    for _ in range(2):
        assert made.fault(0.9) == "controller joint_trajectory_controller was not loaded a moment ago"
    assert made.present_fault(0.9) == ""
    assert not made.state(0.9, made.fault(0.9)).may_follow
    assert made.fault(0.9) == ""


def test_a_change_that_says_active_starts_nothing_that_the_list_says_is_stopped() -> None:
    """A hardware error stops a controller, and the manager tells no change of it."""
    made = link()
    made.hear_controllers(0.1, {SETTINGS.controller: "inactive"})
    made.hear_controllers(0.2, {SETTINGS.controller: "active"}, answers=False)
    made.hear_joints(0.9, 0.9, SPEC.joints, Q, [], [])
    for _ in range(2):
        assert made.fault(0.9) == "controller joint_trajectory_controller is inactive, expected active"
        made.state(0.9, made.fault(0.9))


def test_changes_that_a_manager_tells_are_no_answer_of_it() -> None:
    made = link()
    for tenth in range(1, 30):
        made.hear_controllers(tenth / 10, {SETTINGS.controller: "active"}, answers=False)
    made.hear_joints(2.9, 2.9, SPEC.joints, Q, [], [])
    assert "has not listed its controllers for 2 s" in made.fault(2.9)


def test_a_robot_that_says_nothing_is_a_fault_where_its_state_is_expected() -> None:
    made = link(replace(SETTINGS, robot_state="state"))
    made.hear_joints(1.2, 1.2, SPEC.joints, Q, [], [])
    assert made.fault(1.2) == "no state of the robot on state for 1 s"


def test_names_are_relative_to_where_the_controllers_are() -> None:
    assert joint_states_topic("/panda0", SETTINGS) == "/joint_states"
    below = replace(SETTINGS, namespace="hardware")
    assert controllers_namespace("panda0", below) == "/panda0/hardware"
    assert joint_states_topic("panda0", below) == "/panda0/hardware/joint_states"
    assert joint_states_topic("panda0", replace(below, joint_states="/all")) == "/all"


FRANKA = replace(SETTINGS, error_recovery="action_server/error_recovery", hardware="FrankaHardwareInterface")


@pytest.mark.parametrize(
    ("settings", "fault", "state", "steps"),
    [
        (FRANKA, "reflex", "inactive", (CLEAR_ERROR, HARDWARE, ACTIVATE)),
        (FRANKA, "reflex", "active", (DEACTIVATE, CLEAR_ERROR, HARDWARE, ACTIVATE)),
        (FRANKA, "", "active", ()),
        (SETTINGS, "stopped", "inactive", (ACTIVATE,)),
        (SETTINGS, "does not follow", "active", ()),
        (replace(SETTINGS, controller_manager=""), "stale", "", ()),
    ],
)
def test_an_arm_recovers_in_the_documented_order(
    settings: Ros2ControlSettings, fault: str, state: str, steps: tuple[str, ...]
) -> None:
    assert recovery_steps(settings, fault, state) == steps


def test_other_finger_joints_can_be_named() -> None:
    made = link(replace(SETTINGS, gripper=GripperActions(joints=("jaw",))))
    made.hear_joints(0.0, 0.0, ["jaw"], [0.05], [], [])
    assert made.grippers[0].width_m == 0.05


def test_a_setpoint_is_one_point_or_is_passed_at_speed_with_a_stop_behind_it() -> None:
    before, now = np.array(Q), np.array(Q) + 0.01
    plain = replace(SETTINGS, smooth=False, lookahead_s=0.03)
    moving = sent(now, before_rad=before)
    (only,) = waypoints(plain, moving)
    assert (only.q_rad.tolist(), only.velocity_rad_s, only.after_s) == (now.tolist(), None, 0.03)
    first, last = waypoints(replace(plain, smooth=True), moving)
    assert first.velocity_rad_s == pytest.approx([1.0] * 7)
    assert last.velocity_rad_s is not None and not last.velocity_rad_s.any(), "a speed at the end is refused"
    assert last.after_s > first.after_s == 0.03
    assert last.q_rad == pytest.approx(moving.rest_rad), "where the last check says that it comes to rest"
    assert len(waypoints(SETTINGS, sent(now))) == 1, "an arm at rest needs no stop"


def test_an_arm_that_is_led_elsewhere_gets_the_time_that_it_needs() -> None:
    (only,) = waypoints(SETTINGS, sent(Q, within_s=1.5))
    assert only.after_s == 1.5
    assert only.velocity_rad_s is not None and not only.velocity_rad_s.any()


def test_a_point_is_never_due_before_the_next_one_comes() -> None:
    early = replace(SETTINGS, lookahead_s=0.001, smooth=False)
    assert waypoints(early, sent(Q))[0].after_s == 0.01


PAIR = load_robot(ROBOTS / "bimanual_ur5e.yaml")


def test_each_of_two_grippers_is_told_by_its_own_fingers_and_its_own_fault() -> None:
    made = Ros2ControlLink(PAIR, arm_settings("pair", "ros2_control", PAIR.arm), "/pair", 0.0)
    names = [*PAIR.joints, "right_knuckle_joint", "left_knuckle_joint"]
    left, right = made.grippers
    for tick in range(3):
        made.hear_joints(float(tick), float(tick), names, [*PAIR.home_rad, 0.8, 0.4], [], [])
        left.hear_action(float(tick), "")
        right.hear_action(float(tick), "nobody serves right_gripper")
    assert made.state(2.5, "").gripper_m == pytest.approx([0.0425, 0.0])
    assert made.gripper_fault(2.5) == "nobody serves right_gripper"
    assert made.gripper_fault(1.5) == ""


def test_the_so101_s_jaw_tells_its_width_by_its_angle() -> None:
    spec = load_robot(ROBOTS / "so101.yaml")
    made = Ros2ControlLink(spec, arm_settings("so101", "ros2_control", spec.arm), "/so101", 0.0)
    for angle, width_m in ((-0.174, 0.0), (1.745, 0.1), (0.7855, 0.05)):
        made.hear_joints(0.0, 0.0, [*spec.joints, "gripper"], [*spec.home_rad, angle], [], [])
        assert made.grippers[0].width_m == pytest.approx(width_m, abs=1e-6)
    assert finger_joints(PAIR, arm_settings("pair", "ros2_control", PAIR.arm)) == (
        "left_knuckle_joint",
        "right_knuckle_joint",
    )
