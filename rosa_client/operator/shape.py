"""What a robot says about its body, so that a panel draws each with its own: link lengths and workspace, as YAML."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import yaml

from rosa_contract.config.robot import ChainSpec, RobotSpec, WorkspaceSpec
from rosa_contract.config.strict import Reader, parse_yaml
from rosa_contract.kinematics.chain import Chain
from rosa_contract.setting import setting

TOPIC = "robot_shape"
MAX_CHARS = 20_000
Zone = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class RobotShape:
    """The parts of a robot file that are drawn."""

    chain: ChainSpec | None = setting("link lengths", None)
    workspace: WorkspaceSpec | None = setting("box that the arm stays in", None)


def shape_text(spec: RobotSpec) -> str:
    """The shape of a robot for the topic `robot_shape`."""
    parts = {"chain": spec.chain, "workspace": spec.workspace}
    return yaml.safe_dump(
        {name: _plain(asdict(part)) for name, part in parts.items() if part is not None}, sort_keys=False
    )


def read_shape(text: str, source: str) -> tuple[Chain | None, Zone | None]:
    """The chain, and the lowest and highest corner of the workspace. Raises `ConfigError` for anything else."""
    reader = Reader(source)
    if len(text) > MAX_CHARS:
        reader.fail("", f"expected at most {MAX_CHARS} characters, got {len(text)}", "too_large")
        reader.finish()
    shape = reader.section(RobotShape, "", parse_yaml(text, source))
    chain = shape.chain if isinstance(shape, RobotShape) else None
    if chain is not None and not len(chain.a_m) == len(chain.d_m) == len(chain.alpha_rad) > 1:
        reader.fail("chain", "expected as many a_m as d_m and alpha_rad, at least two", "wrong_length")
    reader.finish()
    box = shape.workspace
    return Chain(chain) if chain is not None else None, (box.min_m, box.max_m) if box is not None else None


def _plain(values: dict[str, object]) -> dict[str, object]:
    return {name: list(one) if isinstance(one, tuple) else one for name, one in values.items()}
