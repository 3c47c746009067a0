"""A chain from a URDF file is the one that the makers publish, and whatever is wrong with a file is named."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rosa_contract.config.body.chain import ChainSpec
from rosa_contract.config.body.urdf import UrdfError, parse_chain, read_chain
from rosa_contract.config.robot import load_robot
from rosa_contract.errors import ConfigError
from rosa_contract.kinematics.chain import Chain
from rosa_contract.rotations import matrix

ROOT = Path(__file__).parents[5]
ROBOTS, PANDA = ROOT / "configs" / "robots", ROOT / "hardware" / "panda" / "panda.urdf"

# Origins of ur_description's UR5e with its default kinematics, as its URDF has them.
UR5E = """<robot name="ur5e">
  <link name="base_link"/><link name="base_link_inertia"/><link name="shoulder_link"/><link name="upper_arm_link"/>
  <link name="forearm_link"/><link name="wrist_1_link"/><link name="wrist_2_link"/><link name="wrist_3_link"/>
  <link name="flange"/><link name="tool0"/>
  <joint name="base" type="fixed"><parent link="base_link"/><child link="base_link_inertia"/>
    <origin rpy="0 0 3.141592653589793" xyz="0 0 0"/></joint>
  {}
  <joint name="wrist_3-flange" type="fixed"><parent link="wrist_3_link"/><child link="flange"/>
    <origin rpy="0 -1.5707963267948966 -1.5707963267948966" xyz="0 0 0"/></joint>
  <joint name="flange-tool0" type="fixed"><parent link="flange"/><child link="tool0"/>
    <origin rpy="1.5707963267948966 0 1.5707963267948966" xyz="0 0 0"/></joint>
</robot>"""
MOVING = [
    ("shoulder_pan_joint", "base_link_inertia", "shoulder_link", "0 0 0", "0 0 0.1625"),
    ("shoulder_lift_joint", "shoulder_link", "upper_arm_link", "1.570796327 0 0", "0 0 0"),
    ("elbow_joint", "upper_arm_link", "forearm_link", "0 0 0", "-0.425 0 0"),
    ("wrist_1_joint", "forearm_link", "wrist_1_link", "0 0 0", "-0.3922 0 0.1333"),
    ("wrist_2_joint", "wrist_1_link", "wrist_2_link", "1.570796327 0 0", "0 -0.0997 0"),
    (
        "wrist_3_joint",
        "wrist_2_link",
        "wrist_3_link",
        "1.570796326589793 3.141592653589793 3.141592653589793",
        "0 0.0996 0",
    ),
]


def joint(name: str, parent: str, child: str, rpy: str = "0 0 0", xyz: str = "0 0 0", more: str = "") -> str:
    return (
        f'<joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin rpy="{rpy}" xyz="{xyz}"/><axis xyz="0 0 1"/>'
        f'<limit lower="-3" upper="3" velocity="2" effort="1"/>{more}</joint>'
    )


def small(*joints: str, links: str = "abc") -> bytes:
    names = "".join(f'<link name="{name}"/>' for name in links)
    return f'<robot name="r">{names}{"".join(joints)}</robot>'.encode()


def chain_of(raw: bytes, base: str = "", tip: str = "") -> Chain:
    return Chain(ChainSpec(frames=parse_chain(raw, base, tip).frames))


def test_the_panda_s_is_that_of_its_published_parameters() -> None:
    spec = load_robot(ROBOTS / "panda.yaml")
    assert spec.chain is not None
    read = read_chain(PANDA, "panda_link0", "panda_link8")
    assert read.joints == spec.joints
    assert read.min_rad == spec.limits.position_min_rad and read.max_rad == spec.limits.position_max_rad
    assert read.velocity_rad_s == spec.limits.velocity_rad_s
    mine, theirs = Chain(ChainSpec(frames=read.frames)), Chain(spec.chain)
    rng = np.random.default_rng(5)
    for q_rad in rng.uniform(spec.limits.position_min_rad, spec.limits.position_max_rad, (40, 7)):
        np.testing.assert_allclose(mine.flange(q_rad), theirs.flange(q_rad), atol=1e-9)
        np.testing.assert_allclose(mine.places(q_rad.tolist()), mine.points(q_rad), atol=1e-12)
    tool = Chain(ChainSpec(frames=read_chain(PANDA, tip="panda_tool").frames))
    np.testing.assert_allclose(tool.flange(q_rad), theirs.frames(q_rad)[-1], atol=1e-9)


def test_the_ur5e_s_is_that_of_its_published_parameters() -> None:
    spec = load_robot(ROBOTS / "ur5e.yaml")
    assert spec.chain is not None
    raw = UR5E.format("".join(joint(*one) for one in MOVING)).encode()
    mine, theirs = chain_of(raw, tip="tool0"), Chain(spec.chain)
    assert parse_chain(raw, tip="tool0").joints == spec.joints
    turn = np.diag([-1.0, -1.0, 1.0, 1.0])  # base_link is turned by half a turn against the controller's base
    for q_rad in np.random.default_rng(6).uniform(-3.0, 3.0, (40, 6)):
        np.testing.assert_allclose(mine.flange(q_rad), turn @ theirs.flange(q_rad), atol=1e-6)


@settings(max_examples=60, deadline=None)
@example([0.0, 1e-5, -1.75, 0.0, 0.0, 1.0, *[0.0] * 5, 1.0], [0.0, 0.0])  # nearly upside down
@example([1e-9, -1e-8, -1.0, 0.0, 1e-13, -1.0, *[0.3] * 6], [0.5, -1.0])
@given(
    st.lists(st.floats(-3.0, 3.0), min_size=12, max_size=12),
    st.lists(st.floats(-2.0, 2.0), min_size=2, max_size=2),
)
def test_any_axis_turns_as_urdf_says(values: list[float], q_rad: list[float]) -> None:
    """Two joints with any origins and axes: translation, rotation, then a turn about the axis, one after another."""
    axes = [np.array(values[i : i + 3]) for i in (0, 3)]
    if min(map(np.linalg.norm, axes)) < 0.1:
        return
    rpy = [values[6:9], values[9:12]]
    texts = [[" ".join(map(repr, one)) for one in (rpy[i], values[6 - 3 * i : 9 - 3 * i])] for i in (0, 1)]
    joints = [
        joint(f"j{i}", "ab"[i], "bc"[i], *texts[i]).replace(
            'axis xyz="0 0 1"', f'axis xyz="{" ".join(map(repr, axes[i].tolist()))}"'
        )
        for i in (0, 1)
    ]
    expected = np.eye(4)
    for i in (0, 1):
        step = np.eye(4)
        step[:3, 3], step[:3, :3] = values[6 - 3 * i : 9 - 3 * i], matrix("rpy", np.array(rpy[i]))
        turn = np.eye(4)
        turn[:3, :3] = matrix("axis_angle", axes[i] / np.linalg.norm(axes[i]) * q_rad[i])
        expected = expected @ step @ turn
    np.testing.assert_allclose(chain_of(small(*joints)).flange(q_rad), expected, atol=1e-7)


def test_fixed_joints_are_folded_and_a_continuous_one_is_limited_to_a_turn() -> None:
    fixed = '<joint name="f" type="fixed"><parent link="b"/><child link="c"/><origin xyz="0 0 0.2"/></joint>'
    turns = joint("j", "a", "b", xyz="0 0 0.1").replace("revolute", "continuous")
    read = parse_chain(small(turns, fixed))
    assert read.joints == ("j",)
    assert read.frames == ((0, 0, 0.1, 0, 0, 0), (0, 0, 0.2, 0, 0, 0))
    assert read.max_rad == (2 * np.pi,) and read.min_rad == (-2 * np.pi,)


GOOD = joint("j", "a", "b")
BOMB = b"""<?xml version="1.0"?><!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]><robot name="&c;"><link name="a"/></robot>"""


@pytest.mark.parametrize(
    ("raw", "cause", "says"),
    [
        (BOMB, "syntax", "has a document type"),
        (BOMB.decode().replace('<?xml version="1.0"?>', "").encode("utf-16"), "syntax", "has a document type"),
        (b'<!DOCTYPE r SYSTEM "file:///etc/passwd"><robot/>', "syntax", "has a document type"),
        (b"<robot", "syntax", "is not XML"),
        (b'<?xml version="1.0" encoding="utf8mb4"?><robot/>', "syntax", "is not XML: unknown encoding: utf8mb4"),
        (b'<?xml version="1.0" encoding="shift_jis"?><robot/>', "syntax", "is not XML: multi-byte encodings"),
        (b"<sdf/>", "wrong_type", "expected <robot>, got <sdf>"),
        (b'<robot xmlns:xacro="x"><xacro:macro/></robot>', "syntax", "xacro FILE > robot.urdf"),
        (b"<robot>" + b"<link>" * 40 + b"</link>" * 40 + b"</robot>", "too_large", "nested deeper than 32"),
        (small(GOOD, GOOD), "duplicate_key", "joint j occurs twice"),
        (small(joint("j", "a", "b", more="<origin/>")), "duplicate_key", "joint j: <origin> occurs twice"),
        (small(joint("j", "a", "b", more="<limit lower='-6'/>")), "duplicate_key", "joint j: <limit> occurs twice"),
        (small(GOOD, joint("k", "c", "b")), "conflict", "link b is the child of two joints, j and k"),
        (small(joint("j", "b", "c", xyz="0 0"), links="abc"), "missing", "`chain.base` is missing"),
        (small(joint("j", "a", "b", xyz="0 nan 0"), links="ab"), "wrong_type", "joint j: origin.xyz: expected three"),
        (small(joint("j", "a", "b", more="<mimic joint='k'/>"), links="ab"), "conflict", "joint j mimics k"),
        (small(GOOD.replace("revolute", "prismatic"), links="ab"), "out_of_range", "joint j is prismatic; expected"),
        (small(GOOD.replace('xyz="0 0 1"', 'xyz="0 0 0"'), links="ab"), "out_of_range", "axis.xyz: expected a"),
        (small(GOOD.replace('upper="3"', ""), links="ab"), "missing", "joint j: limit: expected lower < upper"),
        (small(GOOD.replace('"2"', '"-2"'), links="ab"), "out_of_range", "joint j: limit.velocity: must be > 0"),
        (small(links="a"), "missing", "expected revolute or continuous joints from link a to link a"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_named(raw: bytes, cause: str, says: str) -> None:
    with pytest.raises(UrdfError) as caught:
        parse_chain(raw)
    assert says in str(caught.value)
    assert caught.value.cause == cause


def test_a_base_and_a_tip_that_are_not_there_are_named() -> None:
    raw = small(GOOD, joint("k", "b", "c"))
    with pytest.raises(
        UrdfError, match=r"tip: there is no link 'cc' \(did you mean|tip: there is no link 'cc'"
    ):
        parse_chain(raw, tip="cc")
    with pytest.raises(UrdfError, match="expected a chain from link a back to link c; it ends at a"):
        parse_chain(raw, base="c", tip="a")
    forked = small(GOOD, joint("k", "a", "c"))
    with pytest.raises(
        UrdfError,
        match=r"`chain\.tip` is missing: expected exactly one link that has no children, got b, c",
    ):
        parse_chain(forked)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 600))
def test_whatever_the_bytes_it_raises_nothing_else(rubbish: bytes, at: int) -> None:
    whole = small(GOOD, joint("k", "b", "c"))
    for raw in (rubbish, whole[:at] + rubbish + whole[at:]):
        with contextlib.suppress(UrdfError):
            parse_chain(raw)


# -- in a robot file --


def robot(tmp_path: Path, raw: bytes, **changes: Any) -> Path:
    (tmp_path / "arm.urdf").write_bytes(raw)
    document = {
        "name": "two",
        "chain": {"urdf": "arm.urdf"},
        "limits": {"acceleration_rad_s2": [5, 5], "jerk_rad_s3": [50, 50]},
        "home_rad": [0, 0],
        "safe_rad": [0.1, 0.1],
        "arm_driver": "echo",
        "gripper": {"kind": "none"},
        "cameras": {"front": {"width": 64, "height": 64}},
        "camera_driver": "external",
    }
    path = tmp_path / "robot.yaml"
    path.write_text(yaml.safe_dump({**document, **changes}))
    return path


LIMITS = {
    "position_min_rad": [-1, -1],
    "position_max_rad": [1, 1],
    "velocity_rad_s": [2, 2],
    "acceleration_rad_s2": [5, 5],
    "jerk_rad_s3": [50, 50],
}
TWO = small(GOOD, joint("k", "b", "c", xyz="0.3 0 0"))


def test_what_a_robot_file_leaves_out_comes_from_its_urdf_file(tmp_path: Path) -> None:
    spec = load_robot(robot(tmp_path, TWO))
    assert spec.joints == ("j", "k")
    assert spec.limits.position_max_rad == (3.0, 3.0) and spec.limits.velocity_rad_s == (2.0, 2.0)
    assert spec.chain is not None and not spec.chain.urdf
    np.testing.assert_allclose(Chain(spec.chain).tool([0.0, 0.0]), [0.3, 0.0, 0.0], atol=1e-12)
    (tmp_path / "dh.yaml").write_text("extends: rosa:panda.yaml\nchain: {urdf: ''}\n")
    assert load_robot(tmp_path / "dh.yaml").chain == load_robot(ROBOTS / "panda.yaml").chain, "the default"
    below = tmp_path / "below"
    below.mkdir()
    (below / "other.yaml").write_text("extends: ../robot.yaml\nname: other\n")
    assert load_robot(below / "other.yaml").chain == spec.chain, "its path is seen from the file that says it"


@pytest.mark.parametrize(
    ("changes", "path", "says"),
    [
        (
            {"joints": ["j", "x"]},
            "joints",
            "expected the joints of arm.urdf from base to tip, j, k, got j, x",
        ),
        (
            {"limits": {"position_max_rad": [3, 3.2], "acceleration_rad_s2": [5, 5], "jerk_rad_s3": [5, 5]}},
            "limits.position_max_rad[1]",
            "expected at most 3, the limit of joint k in arm.urdf, got 3.2",
        ),
        ({"chain": {"urdf": "arm.urdf", "tip": "d"}}, "chain.urdf", "tip: there is no link 'd'"),
        ({"chain": {"urdf": "none.urdf"}}, "chain.urdf", "cannot be read"),
        (
            {"chain": {"urdf": "arm.urdf", "frames": [[0] * 6] * 3}},
            "chain.urdf",
            "expected either `urdf` or frames, got both",
        ),
        (
            {"chain": {"urdf": "arm.urdf", "a_m": [0] * 3, "d_m": [0] * 3, "alpha_rad": [0] * 3}},
            "chain.urdf",
            "expected either `urdf` or a_m, d_m, alpha_rad, got both",
        ),
        (
            {"chain": {"frames": [[0] * 6] * 3, "tip": "c"}, "joints": ["j", "k"], "limits": LIMITS},
            "chain.tip",
            "is a link of a URDF file",
        ),
        ({"chain": {"urdf": 7}}, "chain.urdf", "expected text, got 7"),
    ],
)
def test_what_a_robot_file_says_otherwise_is_named(
    tmp_path: Path, changes: Any, path: str, says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_robot(robot(tmp_path, TWO, **changes))
    assert path in [problem.path for problem in caught.value.problems]
    assert says in str(caught.value)
