"""The section `models.<name>.adapter` of a factory file: between what robots send and what a model takes and answers.

What it does is in `rosa_server/models/adapters/`; how to write one, in docs/bring_your_own.md.
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
    """One picture that the model takes."""

    camera: str = setting("the robot's camera that it is from")
    height: int | None = setting(
        "px that the model takes; default: as it says itself", None, at_least=1, at_most=4096
    )
    width: int | None = setting(
        "px that the model takes; default: as it says itself", None, at_least=1, at_most=4096
    )
    fit: str = setting(
        "a picture of another size: exact: the robot is refused; stretch: scaled, its sides each by their own; pad:"
        " scaled to fit, with black beside it; crop: scaled to fill, cut in the middle",
        EXACT,
        choices=FITS,
    )
    colours: str = setting("order of the colours that the model takes", RGB, choices=COLOURS)
    turn_deg: int = setting(
        "turned counterclockwise by this angle before anything else: 0, 90, 180 or 270; for a camera that is mounted"
        " upside down, or a model that was trained so",
        0,
        at_least=0,
        at_most=270,
    )
    history: int = setting(
        "latest pictures of the robot's calls, oldest first, `(history, height, width, 3)`; 1: the newest alone,"
        " `(height, width, 3)`",
        1,
        at_least=1,
        at_most=16,
    )
    max_height: int = setting(
        "with another fit than exact: the highest picture that is taken, px", 1200, at_least=1, at_most=4096
    )
    max_width: int = setting(
        "with another fit than exact: the widest picture that is taken, px", 1920, at_least=1, at_most=4096
    )


@dataclass(frozen=True)
class StatePart:
    """Some values of a state array that the model takes; the parts stand one after another."""

    of: str = setting(
        "the robot's state (`joint_position`, `gripper_width`), or `tool_position` or `tool_rotation`, which are"
        " computed from the joints with the chain of `robot`; empty: `values`",
        "",
    )
    values: tuple[float, ...] = setting("these numbers, always; only without `of`", ())
    take: tuple[int, ...] = setting(
        "which of the values, in this order, from 0; default: all", (), at_least=0
    )
    unit: str = setting(
        "unit that the model takes; default: rad or m. range_m100_100: -100 and 100 at the ends of a joint's range,"
        " which the robot file's `limits` say; LeRobot's own unit without `use_degrees`",
        AS_IS,
        choices=JOINT_UNITS,
    )
    zeros: tuple[float, ...] = setting("rad or m at which the model's values are 0; default: 0", ())
    signs: tuple[float, ...] = setting("1 or -1 per value: -1 where the model counts the other way", ())
    gripper: str = setting(
        "of `gripper_width`: how the model writes it (docs/bring_your_own.md)",
        AS_IS,
        choices=(AS_IS, *GRIPPERS),
    )
    rotation: str = setting("of `tool_rotation`: how the model writes it", ROTATIONS[0], choices=ROTATIONS)
    arm: str = setting("of `tool_position` and `tool_rotation`: which of the robot's `arms`", "")


@dataclass(frozen=True)
class ActionPart:
    """Some columns of the model's answer and what they order."""

    to: str = setting(
        "what they order; tool_position and tool_rotation need the chain of `robot`; nothing: they are left out on"
        " purpose",
        choices=TARGETS,
    )
    take: tuple[str, ...] = setting("names of columns of the model's answer, in this order")
    joints: tuple[int, ...] = setting(
        "to joints: which ones, from 0; default: the first as many", (), at_least=0
    )
    grippers: tuple[int, ...] = setting(
        "to gripper: which ones of a robot with several, from 0; default: the first as many", (), at_least=0
    )
    arm: str = setting("to tool_position and tool_rotation: which of the robot's `arms`", "")
    mode: str = setting(
        "absolute: where to be; delta: from where the robot was seen; step_delta: from the row before; velocity: per"
        " second, for `step_s`",
        ABSOLUTE,
        choices=MODES,
    )
    unit: str = setting(
        "unit that the model answers in; default: rad or m; range_m100_100 as of a state",
        AS_IS,
        choices=JOINT_UNITS,
    )
    scale: float = setting("rad or m of a 1 in the model's answer, after `unit`", 1.0)
    clip: float | None = setting(
        "values of the model's answer beyond this, above or below 0, count as this", None, above=0
    )
    zeros: tuple[float, ...] = setting(
        "with mode absolute: rad or m at which the model's values are 0; default: 0", ()
    )
    signs: tuple[float, ...] = setting("1 or -1 per value: -1 where the model counts the other way", ())
    gripper: str = setting("to gripper: how the model writes it", AS_IS, choices=(AS_IS, *GRIPPERS))
    binary: bool = setting("to gripper: it is opened or closed, whichever is nearer", False)
    rotation: str = setting("to tool_rotation: how the model writes it", ROTATIONS[0], choices=ROTATIONS)
    frame: str = setting("frame of tool deltas", BASE, choices=FRAMES)


@dataclass(frozen=True)
class Actions:
    """What the model's answer orders. Each column is named, and goes somewhere, or to `nothing`."""

    columns: Mapping[str, tuple[str, ...]] = setting(
        "the arrays of the model's answer and names of your choice for their columns, each once",
        dict,
    )
    parts: tuple[ActionPart, ...] = setting("where the columns go", ())
    horizon: int | None = setting(
        "rows that are used, from the first; default: all", None, at_least=1, at_most=1024
    )
    step_s: float | None = setting(
        "time of one row; default: the rows fill `action_period_ms`", None, above=0, at_most=10
    )
    resolved_by: str = setting(
        "what turns deltas, velocities and places of the tool into joint positions: server; or robot, with its own"
        " `chain` and its own gripper, so that robots of several kinds may share the model",
        SERVER,
        choices=SIDES,
    )


@dataclass(frozen=True)
class Normalisation:
    """For a model whose own code does not do it."""

    file: str = setting("JSON file with the statistics; a relative path starts at this file")
    method: str = setting(
        "mean_std: 0 is the mean, 1 a standard deviation above; q01_q99: -1 and 1 are the 1st and the 99th percentile;"
        " min_max: -1 and 1 are the smallest and the largest",
        MEAN_STD,
        choices=METHODS,
    )
    state: Mapping[str, str] = setting(
        "state array -> where its statistics are in the file, such as norm_stats/state", dict
    )
    actions: Mapping[str, str] = setting(
        "array of the model's answer -> where its statistics are in the file", dict
    )


@dataclass(frozen=True)
class BaseFrame:
    """Where the robot stands in the frame of the model's places."""

    position_m: tuple[float, ...] = setting("x, y, z", (0.0, 0.0, 0.0), length=3)
    rpy_deg: tuple[float, ...] = setting(
        "roll, pitch, yaw: about the fixed axes x, then y, then z", (0.0, 0.0, 0.0), length=3
    )


@dataclass(frozen=True)
class ToolFrame(BaseFrame):
    """The tool that the model speaks of, seen from one of the robot file's frames."""

    on: str = setting(
        "the frame: tool, the robot file's, between the fingertips; or flange, where the hand is mounted",
        TOOL,
        choices=ENDS,
    )


@dataclass(frozen=True)
class Adapter:
    """Between robots and a model that was made for others. What is not named here stays as it is."""

    preset: str = setting("name of a shipped adapter that this one changes (docs/bring_your_own.md)", "")
    robot: str = setting(
        "robot file: its gripper, number of joints and chain; a relative path starts at this file. Every robot of the"
        " tasks has to be of this kind",
        "",
    )
    cameras: Mapping[str, CameraInput] = setting(
        "the model's pictures; default: the robot's cameras under their own names", dict
    )
    state: Mapping[str, tuple[StatePart, ...]] = setting(
        "the model's state arrays; default: the robot's, under their own names", dict
    )
    tool_frame: ToolFrame | None = setting(
        "the model's tool, where it is another than the robot file's: all places, turns and steps of the tool, taken"
        " and answered, are of this one",
        None,
    )
    base_frame: BaseFrame | None = setting(
        "where the robot's base is, where the model's places are not seen from it, as those of a simulator's world",
        None,
    )
    unused: tuple[str, ...] = setting(
        "cameras and states of the robot that the model does not take; any other that it does not take is an error",
        (),
    )
    prompt: str = setting(
        "text that the model gets: {prompt}, {prompt_lower}, {robot} and {component} are filled in, \\n begins a line",
        "{prompt}",
    )
    actions: Actions | None = setting(
        "the model's answer; default: joint positions, rad, then the gripper's width, m", None
    )
    normalisation: Normalisation | None = setting(
        "statistics of the data that the model was trained on", None
    )
    gripper_closed_m: float | None = setting(
        "width of the robots' closed grippers; default: that of `robot`, or 0", None, at_least=0
    )
    gripper_open_m: float | None = setting(
        "width of the robots' open grippers; default: that of `robot`, or 0.08", None, above=0
    )


def anchored(adapter: Adapter, folder: Path) -> Adapter:
    """With paths that start at `folder`, where they are relative."""
    norm = adapter.normalisation
    return replace(
        adapter,
        robot=adapter.robot and str(folder / adapter.robot),
        normalisation=norm and replace(norm, file=str(folder / norm.file)),
    )
