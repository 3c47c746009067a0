"""An adapter as the file says it, with its preset and its robot file: what a worker is told, and what is checked."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rosa_contract.config.adapter import Adapter
from rosa_contract.config.body.chain import ChainSpec
from rosa_contract.config.robot import GripperSpec, load_robot
from rosa_contract.config.strict import Reader, read_yaml
from rosa_contract.errors import ConfigError, ConfigProblem
from rosa_contract.kinematics.arm import Arm
from rosa_contract.wording import nearest

PRESETS = Path(__file__).parent / "presets"
SOURCE = "adapter"


@dataclass(frozen=True)
class ArmChain:
    """One arm of the robot: which of the joints are its own, from 0, and its links."""

    name: str  # empty: the robot's only one
    first: int
    last: int  # excluded
    chain: ChainSpec

    @property
    def joints(self) -> slice:
        return slice(self.first, self.last)


@dataclass(frozen=True)
class Resolved:
    """Everything that an adapter needs, in plain values: `to_data` and `from_data` carry it to a worker."""

    spec: Adapter
    closed_m: tuple[float, ...] = (GripperSpec.min_m,)  # of each gripper
    open_m: tuple[float, ...] = (GripperSpec.max_m,)
    arms: tuple[ArmChain, ...] = ()  # empty: not known
    min_rad: tuple[float, ...] = ()  # of the robot file; empty without one
    max_rad: tuple[float, ...] = ()
    names: tuple[str, ...] = field(default=())  # of the joints

    @property
    def joints(self) -> int | None:
        """Joints of the robot; None: not known."""
        return len(self.min_rad) or None

    @property
    def arm_names(self) -> list[str]:
        return [one.name for one in self.arms]

    def kinematics(self) -> dict[str, tuple[slice, Arm]]:
        """Of each arm its joints and its kinematics."""
        return {
            one.name: (one.joints, Arm(one.chain, self.min_rad[one.joints], self.max_rad[one.joints]))
            for one in self.arms
        }

    def to_data(self) -> dict[str, Any]:
        """As JSON has it: mappings, lists, texts and numbers."""
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return plain


def from_data(data: Mapping[str, Any]) -> Resolved:
    """What `to_data` made. Raises `ConfigError`."""
    reader = Reader(SOURCE)
    made = reader.section(Resolved, "", dict(data))
    reader.finish()
    assert isinstance(made, Resolved)
    return made


def preset_names() -> list[str]:
    return sorted(path.stem for path in PRESETS.glob("*.yaml"))


def preset(name: str) -> Adapter:
    """A shipped adapter. Raises `ConfigError` for an unknown name."""
    if name not in preset_names():
        known = preset_names()
        words = f"no adapter preset {name!r}{nearest(name, known)}; there are {', '.join(known)}"
        raise ConfigError(SOURCE, [ConfigProblem("preset", "unknown_name", words)])
    path = PRESETS / f"{name}.yaml"
    reader = Reader(str(path))
    made = reader.section(Adapter, "", read_yaml(path))
    reader.finish()
    assert isinstance(made, Adapter)
    return made


def resolve(spec: Adapter) -> Resolved:
    """With its preset and its robot file. Raises `ConfigError` with paths below `adapter`."""
    if spec.preset:
        spec = merged(spec, preset(spec.preset))
    resolved = Resolved(spec)
    if spec.robot:
        try:
            robot = load_robot(spec.robot)
        except ConfigError as error:
            first = str(error.problems[0])
            words = f"{spec.robot}: {first}" + (" ..." if len(error.problems) > 1 else "")
            raise ConfigError(SOURCE, [ConfigProblem("robot", error.problems[0].cause, words)]) from None
        limits = robot.limits
        grippers = list(robot.grippers.values()) or [GripperSpec()]
        resolved = Resolved(
            spec,
            tuple(one.min_m for one in grippers),
            tuple(one.max_m for one in grippers),
            tuple(
                ArmChain(limb.name, limb.joints.start, limb.joints.stop, limb.chain)
                for limb in robot.limbs
                if limb.chain is not None
            ),
            limits.position_min_rad,
            limits.position_max_rad,
            robot.joints,
        )
    closed_m, open_m = spec.gripper_closed_m, spec.gripper_open_m
    return dataclasses.replace(
        resolved,
        closed_m=resolved.closed_m if closed_m is None else (closed_m,) * len(resolved.closed_m),
        open_m=resolved.open_m if open_m is None else (open_m,) * len(resolved.open_m),
    )


def merged(own: Any, base: Any) -> Any:
    """`own`, and what it leaves at its default from `base`: two objects of one dataclass, or two mappings."""
    values = {}
    for one in dataclasses.fields(base):
        mine, theirs = getattr(own, one.name), getattr(base, one.name)
        default = one.default if one.default_factory is dataclasses.MISSING else one.default_factory()
        if isinstance(theirs, Mapping):
            values[one.name] = {**theirs, **mine} | {
                key: merged(mine[key], theirs[key])
                for key in mine.keys() & theirs.keys()
                if dataclasses.is_dataclass(theirs[key])
            }
        elif dataclasses.is_dataclass(theirs) and dataclasses.is_dataclass(mine):
            values[one.name] = merged(mine, theirs)
        else:
            values[one.name] = theirs if mine == default else mine
    return dataclasses.replace(own, **values)
