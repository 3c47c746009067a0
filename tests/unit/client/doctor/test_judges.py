"""Each judge of `rosa doctor` with good and bad values: level, cause, and what to do when something is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cv2
import numpy as np
import pytest

from rosa_client.doctor.judges.arm import AddressFact, ArmFact, judge_address, judge_arm, judge_driver
from rosa_client.doctor.judges.finding import FAIL, OK, SKIPPED, WARN, Finding, fine, status_of, summary
from rosa_client.doctor.judges.gateway import GatewayFact, KeysFact, judge_gateway, judge_keys
from rosa_client.doctor.judges.host import UNLIMITED, HostFact, judge_host
from rosa_client.doctor.judges.needs import NeedsFact, judge_needs
from rosa_client.doctor.judges.pictures import (
    PicturesFact,
    judge_pictures,
    pictures_fact,
    sharpness_of,
)
from rosa_contract.config.cameras import CameraSpec
from rosa_contract.wire.images import encode_image

HOST = HostFact(
    release="6.8.1-1015-realtime",
    real_time=True,
    rtprio=99,
    memlock_bytes=UNLIMITED,
    governors=["performance"] * 4,
    clock_step_s=0.0001,
    watched_s=8.0,
    folder="/data",
    free_bytes=50 << 30,
)
GATEWAY = GatewayFact(
    "tcp://gpu-box:5570",
    round_trips_ms=[1.0] * 50,
    ready=True,
    workers={"w0": "policy: idle"},
    hello_cause="unknown_task",
    hello_reason="no task",
)
SPEC = CameraSpec(width=96, height=96, rate_hz=20, driver="replay")
PICTURES = PicturesFact(
    "front",
    publishers=1,
    count=60,
    seconds=3.0,
    largest_gap_s=0.06,
    size=(96, 96),
    distinct=60,
    sharpness=400.0,
    brightness=110.0,
    changed=1.5,
)
JOINTS = ("j1", "j2")
COMMAND, PARALLEL = "control_msgs/action/GripperCommand", "control_msgs/action/ParallelGripperCommand"
ARM = ArmFact(state="holding", joints=JOINTS, joints_hz=50.0)
FCI = AddressFact("172.16.0.2", 1337, True, pings_ms=[0.2] * 25, sent=25)


def of(findings: list[Finding], check: str) -> Finding:
    [found] = [one for one in findings if one.check == check]
    return found


def verdict(found: Finding) -> tuple[str, str]:
    if found.level in (WARN, FAIL):
        assert found.do, f"{found.check}: says what is wrong, not what to do"
    return found.level, found.cause


def test_a_good_machine_has_nothing_to_do() -> None:
    found = judge_host(HOST, hard_real_time=True)
    assert [one.check for one in found] == ["kernel", "limits", "governor", "clock", "disk"]
    assert {one.level for one in found} == {OK}


@pytest.mark.parametrize(
    ("check", "change", "hard", "soft"),
    [
        ("kernel", {"real_time": False}, (FAIL, "not_real_time"), (WARN, "not_real_time")),
        ("limits", {"rtprio": 0}, (FAIL, "limits_too_low"), (WARN, "limits_too_low")),
        ("limits", {"memlock_bytes": 8 << 20}, (FAIL, "limits_too_low"), (WARN, "limits_too_low")),
        (
            "governor",
            {"governors": ["performance", "powersave"]},
            (WARN, "saves_power"),
            (WARN, "saves_power"),
        ),
        ("governor", {"governors": []}, (SKIPPED, "unknown"), (SKIPPED, "unknown")),
        ("clock", {"clock_step_s": -0.5}, (WARN, "clock_stepped"), (WARN, "clock_stepped")),
        ("clock", {"clock_step_s": 0.011}, (WARN, "clock_stepped"), (WARN, "clock_stepped")),
        ("disk", {"free_bytes": 5 << 30}, (WARN, "disk_full"), (WARN, "disk_full")),
        ("disk", {"free_bytes": 1 << 20}, (FAIL, "disk_full"), (FAIL, "disk_full")),
        ("disk", {"free_bytes": None}, (FAIL, "no_folder"), (FAIL, "no_folder")),
    ],
)
def test_what_is_wrong_with_a_machine(
    check: str, change: dict[str, Any], hard: tuple[str, str], soft: tuple[str, str]
) -> None:
    """What only a 1 kHz loop needs is a warning where another machine runs it."""
    fact = replace(HOST, **change)
    assert verdict(of(judge_host(fact, True), check)) == hard
    assert verdict(of(judge_host(fact, False), check)) == soft


def test_a_good_server_is_fine_in_every_respect() -> None:
    found = judge_gateway(GATEWAY, ("pick.system1", 500.0))
    assert [(one.check, one.level) for one in found] == [("gateway", OK), ("round_trip", OK), ("models", OK)]
    assert "pick.system1" in of(found, "round_trip").found


@pytest.mark.parametrize(
    "cause", ["no_answer", "mismatch", "refused", "hung_up", "bad_endpoint", "version_mismatch"]
)
def test_a_server_that_does_not_answer_is_one_finding_with_its_remedy(cause: str) -> None:
    [found] = judge_gateway(GatewayFact("tcp://gpu-box:5570", cause, "because"), None)
    assert verdict(found) == (FAIL, cause)


@pytest.mark.parametrize(
    ("change", "tightest", "expected"),
    [
        ({"round_trips_ms": [1.0] * 48 + [80.0] * 2}, ("pick.system1", 500.0), (WARN, "slow")),
        ({"round_trips_ms": [300.0] * 50}, ("pick.system1", 500.0), (FAIL, "slow")),
        ({"round_trips_ms": [30.0] * 50}, None, (WARN, "slow")),
        ({"round_trips_ms": [1.0] * 49, "lost": 1}, None, (FAIL, "lost_messages")),
        ({"round_trips_ms": []}, None, (FAIL, "lost_messages")),
    ],
)
def test_a_slow_way_to_the_server_is_measured_against_the_deadline(
    change: dict[str, Any], tightest: tuple[str, float] | None, expected: tuple[str, str]
) -> None:
    assert verdict(of(judge_gateway(replace(GATEWAY, **change), tightest), "round_trip")) == expected


def test_a_model_that_loads_is_a_warning() -> None:
    assert verdict(of(judge_gateway(replace(GATEWAY, ready=False), None), "models")) == (WARN, "not_ready")


@pytest.mark.parametrize(
    ("keys", "gateway", "expected"),
    [
        (KeysFact("keys"), GATEWAY, (OK, "fine")),
        (KeysFact("keys"), replace(GATEWAY, hello_cause="wrong_key"), (FAIL, "wrong_key")),
        (KeysFact("keys"), replace(GATEWAY, hello_cause=""), (WARN, "not_confirmed")),
        (KeysFact("keys", "others may read it"), None, (FAIL, "bad_keys")),
        (KeysFact("keys"), GatewayFact("tcp://x:1", "refused", "no"), (SKIPPED, "not_asked")),
        (KeysFact(loopback=True), GATEWAY, (SKIPPED, "no_keys")),
        (KeysFact(), GATEWAY, (WARN, "open_server")),
        (KeysFact(), None, (SKIPPED, "no_keys")),
    ],
)
def test_keys(keys: KeysFact, gateway: GatewayFact | None, expected: tuple[str, str]) -> None:
    assert verdict(judge_keys(keys, gateway, "panda0")) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, (OK, "fine")),
        ({"count": 0, "publishers": 0}, (FAIL, "no_publisher")),
        ({"count": 0}, (FAIL, "no_picture")),
        ({"count": 0, "unmatched": "are sensor_msgs/Image"}, (FAIL, "unmatched")),
        ({"stamps": [(0.05 * i, 3.2) for i in range(5)]}, (FAIL, "clock_difference")),
        ({"stamps": [(0.05 * i, -3.2) for i in range(5)]}, (WARN, "clock_difference")),
        ({"stamps": [(0.05 * i, 0.02) for i in range(5)]}, (OK, "fine")),
        ({"count": 0, "problem": "no jpeg"}, (FAIL, "unreadable")),
        ({"problem": "no jpeg"}, (FAIL, "unreadable")),
        ({"size": (640, 480)}, (FAIL, "wrong_size")),
        ({"distinct": 1}, (FAIL, "frozen")),
        ({"count": 48}, (WARN, "slow")),
        ({"count": 20}, (FAIL, "slow")),
        ({"brightness": 3.0}, (WARN, "dark")),
        ({"brightness": 250.0}, (WARN, "bright")),
        ({"sharpness": 8.0}, (WARN, "blurred")),
    ],
)
def test_cameras(change: dict[str, Any], expected: tuple[str, str]) -> None:
    assert verdict(judge_pictures(replace(PICTURES, **change), SPEC, 0.5)) == expected


def scene(seed: int = 0, noise: float = 3.0) -> np.ndarray:
    """A picture (96, 96, 3) with edges and a sensor's noise."""
    picture = np.full((96, 96, 3), 120, np.float64)
    cv2.rectangle(picture, (20, 30), (50, 70), (200, 60, 60), -1)
    cv2.circle(picture, (70, 40), 12, (40, 180, 60), -1)
    picture += np.random.default_rng(seed).normal(0, noise, picture.shape)
    return np.clip(picture, 0, 255).astype(np.uint8)


def measured(pictures: list[np.ndarray]) -> PicturesFact:
    times_s = [0.05 * i for i in range(len(pictures))]
    looked_at = [(encode_image(rgb), rgb) for rgb in pictures]
    return pictures_fact(PicturesFact("front", 1, seconds=0.05 * len(times_s)), times_s, looked_at, [])


def test_pictures_are_measured_as_they_are() -> None:
    live = measured([scene(seed) for seed in range(20)])
    assert (live.count, live.size, live.distinct) == (20, (96, 96), 20)
    assert judge_pictures(live, SPEC, 0.5).level == OK
    assert live.changed > 0.5
    assert live.largest_gap_s == pytest.approx(0.05)


def test_a_frozen_a_blurred_and_a_covered_camera_are_told_apart() -> None:
    frozen = measured([scene()] * 20)
    blurred = measured([cv2.GaussianBlur(scene(seed), (0, 0), 5) for seed in range(20)])
    covered = measured([(scene(seed) // 30).astype(np.uint8) for seed in range(20)])
    causes = [judge_pictures(fact, SPEC, 0.5).cause for fact in (frozen, blurred, covered)]
    assert causes == ["frozen", "blurred", "dark"]


def test_sharpness_does_not_depend_on_the_resolution() -> None:
    small = scene(noise=0.0)
    large = cv2.resize(small, (960, 960), interpolation=cv2.INTER_NEAREST)
    assert sharpness_of(large) == pytest.approx(sharpness_of(small), rel=0.3)


@pytest.mark.parametrize(
    ("change", "check", "expected"),
    [
        ({}, "arm", (OK, "fine")),
        ({}, "joint_states", (OK, "fine")),
        ({"fault": "reflex"}, "arm", (FAIL, "arm_fault")),
        ({"emergency_stop": True}, "arm", (FAIL, "emergency_stop")),
        ({"state": ""}, "arm", (SKIPPED, "not_heard")),
        ({"joints": ()}, "joint_states", (SKIPPED, "not_heard")),
        ({"joints": ("fr3_j1", "fr3_j2")}, "joint_states", (FAIL, "wrong_joints")),
        ({"joints_hz": 5.0}, "joint_states", (WARN, "slow")),
        (
            {"controllers": {"arm": ("/arm/joint_trajectory", False)}},
            "controller.arm",
            (FAIL, "no_controller"),
        ),
        ({"controllers": {"arm": ("/arm/joint_trajectory", True)}}, "controller.arm", (OK, "fine")),
        ({"actions": {"/hand/cmd": (COMMAND, [COMMAND])}}, "gripper", (OK, "fine")),
        ({"actions": {"/hand/cmd": (COMMAND, [])}}, "gripper", (FAIL, "no_action_server")),
        ({"actions": {"/hand/cmd": (COMMAND, [PARALLEL])}}, "gripper", (FAIL, "wrong_action_type")),
    ],
)
def test_arms(change: dict[str, Any], check: str, expected: tuple[str, str]) -> None:
    assert (
        verdict(of(judge_arm("ros2_control", JOINTS, replace(ARM, **change), franka=False), check))
        == expected
    )


@pytest.mark.parametrize(
    ("change", "hard", "expected"),
    [
        ({}, True, {"arm_address": OK, "arm_network": OK}),
        ({"connected": False, "problem": "refused"}, True, {"arm_address": FAIL}),
        ({"pings_ms": [0.2] * 24 + [0.8]}, True, {"arm_address": OK, "arm_network": WARN}),
        ({"pings_ms": [0.2] * 24 + [1.5]}, True, {"arm_address": OK, "arm_network": FAIL}),
        ({"pings_ms": [0.2] * 24 + [1.5]}, False, {"arm_address": OK, "arm_network": OK}),
        ({"pings_ms": [0.2] * 20}, True, {"arm_address": OK, "arm_network": FAIL}),
        ({"sent": 0, "pings_ms": []}, True, {"arm_address": OK, "arm_network": SKIPPED}),
    ],
)
def test_the_arms_address(change: dict[str, Any], hard: bool, expected: dict[str, str]) -> None:
    found = judge_address(replace(FCI, **change), hard, franka=True)
    assert {one.check: verdict(one)[0] for one in found} == expected


def advice(franka: bool) -> str:
    """Everything that is said about an arm with whatever can be wrong with it."""
    facts = [
        replace(ARM, **change) for change in ({"fault": "brake"}, {"joints": ("x",)}, {"joints_hz": 5.0})
    ]
    found = [one for fact in facts for one in judge_arm("ros2_control", JOINTS, fact, franka)]
    for change in (
        {"connected": False, "problem": "refused"},
        {"pings_ms": [0.2]},
        {"sent": 0, "pings_ms": []},
    ):
        found += judge_address(replace(FCI, **change), False, franka)
    return " ".join(f"{one.found} {one.do}" for one in found).lower()


def test_an_implausible_measurement_is_shown_and_where_its_remedy_stands() -> None:
    words = "panda_joint4 is measured at 0 rad, expected -3.0718..-0.0698; joint states on /joint_states"
    found = of(judge_arm("ros2_control", JOINTS, replace(ARM, fault=words), franka=False), "arm")
    assert (found.level, found.cause) == (FAIL, "arm_fault")
    assert words in found.found
    assert "docs/local_safety.md" in found.do, (
        "who publishes, or which clock was set, is not the maker's affair"
    )


def test_only_a_franka_gets_franka_s_advice() -> None:
    assert all(word in advice(franka=True) for word in ("desk", "fci", "franka"))
    assert not any(word in advice(franka=False) for word in ("desk", "fci", "franka"))


def test_an_arm_whose_port_nobody_knows_is_only_pinged() -> None:
    found = judge_address(replace(FCI, port=None), False, franka=False)
    assert {one.check: one.cause for one in found} == {"arm_address": "no_port", "arm_network": "fine"}


def test_the_packages_of_the_arms_driver() -> None:
    assert judge_driver("franka", "").level == OK
    missing = judge_driver("franka", "arm_driver: franka needs the package franka-rs")
    assert verdict(missing) == (FAIL, "cannot_load")
    assert missing.found == "franka needs the package franka-rs"


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        (None, (SKIPPED, "no_config")),
        (NeedsFact(["panda fits pick"]), (OK, "fine")),
        (NeedsFact(["panda fits pick", "place: needs camera 'side'"]), (WARN, "partly_unfit")),
        (NeedsFact(problems=["pick: needs camera 'side'"]), (FAIL, "unfit")),
        (NeedsFact(unknown="no torch"), (SKIPPED, "not_installed")),
    ],
)
def test_what_the_models_need(fact: NeedsFact | None, expected: tuple[str, str]) -> None:
    assert verdict(judge_needs(fact)) == expected


def test_only_a_failure_makes_the_status_1() -> None:
    warning, failure = Finding("a", WARN, "x", "found", "do"), Finding("b", FAIL, "x", "found", "do")
    assert status_of([fine("c", "good"), warning]) == 0
    assert status_of([warning, failure]) == 1
    assert summary([warning, failure, failure]) == "0 ok, 1 warn, 2 fail, 0 skipped"


def test_a_line_says_level_check_finding_and_remedy() -> None:
    line = Finding("disk", FAIL, "disk_full", "0.1 GiB free", "free some").line(8)
    assert line == "fail    disk      0.1 GiB free; free some"


def test_a_gripper_of_the_other_kind_is_told_what_to_write() -> None:
    fact = replace(ARM, actions={"/hand/cmd": (COMMAND, [PARALLEL])})
    found = of(judge_arm("ros2_control", JOINTS, fact, franka=False), "gripper").found
    assert found == (
        "the gripper's action /hand/cmd is a control_msgs/ParallelGripperCommand, expected a"
        " control_msgs/GripperCommand; set arm.gripper.kind: parallel_gripper_command"
    )
