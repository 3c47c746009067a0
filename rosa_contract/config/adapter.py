"""The section `models.<name>.adapter` of a factory file: converts what robots send to what a model takes, and back.

It is implemented in `rosa_server/models/adapters/`; docs/bring_your_own.md explains how to write one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rosa_contract.config.conventions import AS_IS, GRIPPERS, OF_RANGE, UNITS
from rosa_contract.setting import setting

FITS = EXACT, STRETCH, PAD, CROP = "exact", "stretch", "pad", "crop"
COLOURS = RGB, BGR = "rgb", "bgr"
MODES = ABSOLUTE, DELTA, STEP_DELTA, VELOCITY = "absolute", "delta", "step_delta", "velocity"
TARGETS = JOINTS, GRIPPER, TOOL_POSITION, TOOL_ROTATION, NOTHING = (
    "joints",
    "gripper",
    "tool_position",
    "tool_rotation",
    "nothing",
)
ROTATIONS = ("axis_angle", "rpy", "quaternion_xyzw", "quaternion_wxyz", "rotation_6d")
FRAMES = BASE, TOOL = "base", "tool"
ENDS = TOOL, FLANGE = "tool", "flange"
JOINT_UNITS = (*UNITS, OF_RANGE)
SIDES = SERVER, ROBOT = "server", "robot"
METHODS = MEAN_STD, QUANTILES, MIN_MAX = "mean_std", "q01_q99", "min_max"


@dataclass(frozen=True)
class CameraInput:
    """One image that the model takes."""

    camera: str = setting("robot camera that provides this image")
    height: int | None = setting(
        "image height that the model takes, px; default: the model's own", None, at_least=1, at_most=4096
    )
    width: int | None = setting(
        "image width that the model takes, px; default: the model's own", None, at_least=1, at_most=4096
    )
    fit: str = setting(
        "what happens to an image of another size: exact: the robot is refused; stretch: scale to size, ignoring"
        " the aspect ratio; pad: scale to fit and pad with black; crop: scale to fill and crop the centre",
        EXACT,
        choices=FITS,
    )
    colours: str = setting("colour order that the model takes", RGB, choices=COLOURS)
    turn_deg: int = setting(
        "rotate the image counterclockwise, before anything else: 0, 90, 180 or 270; for a camera that is mounted"
        " upside down, or a model trained on rotated images",
        0,
        at_least=0,
        at_most=270,
    )
    history: int = setting(
        "number of images, one from each of the robot's latest calls, oldest first: `(history, height, width,"
        " 3)`; 1: only the newest, `(height, width, 3)`",
        1,
        at_least=1,
        at_most=16,
    )
    max_height: int = setting(
        "maximum height of the robot's image, px; ignored with `fit: exact`", 1200, at_least=1, at_most=4096
    )
    max_width: int = setting(
        "maximum width of the robot's image, px; ignored with `fit: exact`", 1920, at_least=1, at_most=4096
    )


@dataclass(frozen=True)
class StatePart:
    """A part of a state array that the model takes; the parts are concatenated."""

    of: str = setting(
        "source: `joint_position` or `gripper_width` of the robot, or `tool_position` or `tool_rotation`,"
        " computed by forward kinematics from the chain of `robot`; empty: the constants in `values`",
        "",
    )
    values: tuple[float, ...] = setting("constants; only without `of`", ())
    take: tuple[int, ...] = setting(
        "indices (0-based) of the values to take, in the model's order; default: all", (), at_least=0
    )
    unit: str = setting(
        "unit that the model takes; default: rad or m. range_m100_100: -100 and 100 are the ends of the joint's"
        " range, from `limits` of the robot file; LeRobot's unit without `use_degrees`",
        AS_IS,
        choices=JOINT_UNITS,
    )
    zeros: tuple[float, ...] = setting(
        "offset per value: the rad or m at which the model's value is 0; default: 0", ()
    )
    signs: tuple[float, ...] = setting("1 or -1 per value; -1 flips the sign; default: 1", ())
    gripper: str = setting(
        "for `of: gripper_width`: the model's gripper convention (docs/bring_your_own.md)",
        AS_IS,
        choices=(AS_IS, *GRIPPERS),
    )
    rotation: str = setting(
        "for `of: tool_rotation`: the model's rotation representation", ROTATIONS[0], choices=ROTATIONS
    )
    arm: str = setting(
        "for `of: tool_position` and `tool_rotation`: name of the arm, on a robot with several `arms`", ""
    )


@dataclass(frozen=True)
class ActionPart:
    """Some columns of the model's answer, and what they command."""

    to: str = setting(
        "what the columns command; tool_position and tool_rotation need the chain of `robot`; nothing: the"
        " columns are ignored",
        choices=TARGETS,
    )
    take: tuple[str, ...] = setting("names of the columns, in order")
    joints: tuple[int, ...] = setting(
        "for `to: joints`: joint indices (0-based), one per column; default: the first joints", (), at_least=0
    )
    grippers: tuple[int, ...] = setting(
        "for `to: gripper`: gripper indices (0-based), one per column, on a robot with several; default: the"
        " first grippers",
        (),
        at_least=0,
    )
    arm: str = setting(
        "for `to: tool_position` and `tool_rotation`: name of the arm, on a robot with several `arms`", ""
    )
    mode: str = setting(
        "absolute: target position; delta: change from the observed position; step_delta: change from the"
        " previous row; velocity: per second, applied for `step_s`",
        ABSOLUTE,
        choices=MODES,
    )
    unit: str = setting(
        "unit that the model returns; default: rad or m; range_m100_100: as in `state`",
        AS_IS,
        choices=JOINT_UNITS,
    )
    scale: float = setting("factor on the values, after the conversion from `unit` to rad or m", 1.0)
    clip: float | None = setting(
        "clip the model's values to the range -clip to clip, before `signs`, `unit` and `scale`; default: no"
        " clipping",
        None,
        above=0,
    )
    zeros: tuple[float, ...] = setting(
        "offset per value, with `mode: absolute`: the rad or m at which the model's value is 0; default: 0",
        (),
    )
    signs: tuple[float, ...] = setting("1 or -1 per value; -1 flips the sign; default: 1", ())
    gripper: str = setting(
        "for `to: gripper`: the model's gripper convention (docs/bring_your_own.md)",
        AS_IS,
        choices=(AS_IS, *GRIPPERS),
    )
    binary: bool = setting(
        "for `to: gripper`: open or close fully, whichever is nearer to the commanded width", False
    )
    rotation: str = setting(
        "for `to: tool_rotation`: the model's rotation representation", ROTATIONS[0], choices=ROTATIONS
    )
    frame: str = setting(
        "frame of tool deltas and velocities: the robot's base frame or the tool frame", BASE, choices=FRAMES
    )


@dataclass(frozen=True)
class Actions:
    """What the model's answer commands. Each column has a name and a target, which may be `nothing`."""

    columns: Mapping[str, tuple[str, ...]] = setting(
        "for each array that the model returns: a name for every column; you choose the names, and each is used"
        " once",
        dict,
    )
    parts: tuple[ActionPart, ...] = setting("what each column commands", ())
    horizon: int | None = setting(
        "number of rows to use, starting with the first; default: all", None, at_least=1, at_most=1024
    )
    step_s: float | None = setting(
        "duration of a row, s; default: the model's `step_s`, or else the rows fill `action_period_ms`",
        None,
        above=0,
        at_most=10,
    )
    resolved_by: str = setting(
        "where deltas, velocities and tool poses are converted to joint positions: server; or robot, with the"
        " robot's own `chain` and gripper, so that different kinds of robots can share the model",
        SERVER,
        choices=SIDES,
    )


@dataclass(frozen=True)
class Normalisation:
    """Normalisation, for a model whose own code does not do it."""

    file: str = setting("JSON file with the statistics; relative paths start at this file's folder")
    method: str = setting(
        "mean_std: (value - mean) / std; q01_q99: the 1st and 99th percentiles become -1 and 1; min_max: the"
        " minimum and maximum become -1 and 1",
        MEAN_STD,
        choices=METHODS,
    )
    state: Mapping[str, str] = setting(
        "state array -> path of its statistics in the file, such as norm_stats/state", dict
    )
    actions: Mapping[str, str] = setting(
        "array that the model returns -> path of its statistics in the file", dict
    )


@dataclass(frozen=True)
class BaseFrame:
    """Pose of the robot's base in the model's reference frame."""

    position_m: tuple[float, ...] = setting("x, y, z, m", (0.0, 0.0, 0.0), length=3)
    rpy_deg: tuple[float, ...] = setting(
        "roll, pitch, yaw, deg: rotations about the fixed x, y and z axes, in this order",
        (0.0, 0.0, 0.0),
        length=3,
    )


@dataclass(frozen=True)
class ToolFrame(BaseFrame):
    """Pose of the model's tool frame in one of the robot file's frames."""

    on: str = setting(
        "frame in which the pose is given: tool: the robot file's tool frame, between the fingertips; flange:"
        " where the hand is mounted",
        TOOL,
        choices=ENDS,
    )


@dataclass(frozen=True)
class Adapter:
    """Converts between robots and a model that was trained for others. What is not mapped passes unchanged."""

    preset: str = setting(
        "name of a shipped adapter; keys given here override it (docs/bring_your_own.md)", ""
    )
    robot: str = setting(
        "robot file with the gripper, number of joints and chain; relative paths start at this file's folder. All"
        " robots of the tasks must be of this kind",
        "",
    )
    cameras: Mapping[str, CameraInput] = setting(
        "the model's images by name; default: the robot's cameras under their own names", dict
    )
    state: Mapping[str, tuple[StatePart, ...]] = setting(
        "the model's state arrays by name; default: the robot's, under their own names", dict
    )
    tool_frame: ToolFrame | None = setting(
        "the model's tool frame, if it differs from the robot file's: all tool poses and deltas, in state and"
        " actions, refer to it",
        None,
    )
    base_frame: BaseFrame | None = setting(
        "pose of the robot's base in the model's reference frame, if the model does not use the robot's base"
        " frame, for example a simulator's world frame",
        None,
    )
    unused: tuple[str, ...] = setting(
        "the robot's cameras and states that the model does not take; any other unmapped one is an error",
        (),
    )
    prompt: str = setting(
        "prompt for the model: {prompt}, {prompt_lower}, {robot} and {component} are filled in, \\n is a line"
        " break",
        "{prompt}",
    )
    actions: Actions | None = setting(
        "what the model returns; default: joint positions, rad, then the gripper width, m", None
    )
    normalisation: Normalisation | None = setting(
        "statistics of the training data, for a model whose own code does not normalise", None
    )
    gripper_closed_m: float | None = setting(
        "gripper width of the robots when closed, m; default: that of `robot`, or 0", None, at_least=0
    )
    gripper_open_m: float | None = setting(
        "gripper width of the robots when open, m; default: that of `robot`, or 0.08", None, above=0
    )


def anchored(adapter: Adapter, folder: Path) -> Adapter:
    """The same, with relative paths resolved against `folder`."""
    norm = adapter.normalisation
    return replace(
        adapter,
        robot=adapter.robot and str(folder / adapter.robot),
        normalisation=norm and replace(norm, file=str(folder / norm.file)),
    )
