"""What a robot says about its body, so that a panel draws each with its own: link lengths and workspace, as YAML."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import yaml

from rosa_contract.config.body.chain import ChainSpec, chain_problems
from rosa_contract.config.robot import RobotSpec, WorkspaceSpec
from rosa_contract.config.strict import Reader, parse_yaml
from rosa_contract.kinematics.chain import Chain
from rosa_contract.setting import setting

TOPIC = "robot_shape"
MAX_CHARS = 20_000
Zone = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class ArmShape:
    """The parts of an arm that are drawn."""

    joints: int = setting(
        "how many of the robot's joints, after those of the arms before it", at_least=1, at_most=64
    )
    chain: ChainSpec | None = setting("link lengths", None)
    workspace: WorkspaceSpec | None = setting("box that the arm stays in", None)


@dataclass(frozen=True)
class RobotShape:
    """The parts of a robot file that are drawn."""

    arms: tuple[ArmShape, ...] = setting("its arms, in the order of their joints")


@dataclass(frozen=True)
class DrawnArm:
    """What of an arm can be drawn: `joints` are its columns in an action."""

    joints: slice
    chain: Chain | None
    zone: Zone | None  # lowest and highest corner of the workspace


def shape_text(spec: RobotSpec) -> str:
    """The shape of a robot for the topic `robot_shape`."""
    arms = [_plain(asdict(ArmShape(one.count, one.chain, one.workspace))) for one in spec.limbs]
    return yaml.safe_dump({"arms": arms}, sort_keys=False)


def read_shape(text: str, source: str) -> list[DrawnArm]:
    """The arms of a robot. Raises `ConfigError` for anything else."""
    reader = Reader(source)
    if len(text) > MAX_CHARS:
        reader.fail("", f"expected at most {MAX_CHARS} characters, got {len(text)}", "too_large")
        reader.finish()
    shape = reader.section(RobotShape, "", parse_yaml(text, source))
    reader.finish()
    assert isinstance(shape, RobotShape)
    for index, arm in enumerate(shape.arms):
        for where, words, cause in chain_problems(arm.chain, arm.joints) if arm.chain is not None else ():
            reader.fail(f"arms[{index}].chain{where}", words, cause)
    reader.finish()
    drawn, first = [], 0
    for arm in shape.arms:
        box, mine = arm.workspace, slice(first, first + arm.joints)
        chain = Chain(arm.chain) if arm.chain is not None else None
        drawn.append(DrawnArm(mine, chain, (box.min_m, box.max_m) if box is not None else None))
        first = mine.stop
    return drawn


def _plain(value: Any) -> Any:
    """As YAML has it: lists, no tuples, and nothing that is not there."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items() if one is not None}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value
