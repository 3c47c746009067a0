"""Where the model's places are seen from, and of which tool they are: fixed frames between the two. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rosa_contract.config.adapter import FLANGE, Adapter, BaseFrame
from rosa_contract.config.body.chain import ChainSpec
from rosa_contract.rotations import matrix

Array = NDArray[np.float64]


def _here() -> Array:
    return np.eye(4)


@dataclass(frozen=True, eq=False)
class Between:
    """One arm's tool as its robot file has it, and the tool that the model speaks of, in the frame of its places."""

    base: Array = field(default_factory=_here)  # (4, 4): the robot's base in the model's frame
    tool: Array = field(default_factory=_here)  # (4, 4): the model's tool in that of the robot file

    def to_model(self, position: Array, rotation: Array) -> tuple[Array, Array]:
        """Place `(3,)` m and rotation `(3, 3)` of the robot file's tool in its base frame -> those of the model."""
        turned = self.base[:3, :3] @ rotation
        place = self.base[:3, :3] @ position + self.base[:3, 3] + turned @ self.tool[:3, 3]
        return place, turned @ self.tool[:3, :3]

    def to_robot(self, positions: Array, rotations: Array) -> tuple[Array, Array]:
        """Rows of the model, `(n, 3)` and `(n, 3, 3)` -> those of the robot file's tool; the inverse of `to_model`."""
        turned = self.base[:3, :3].T @ rotations @ self.tool[:3, :3].T
        places = (positions - self.base[:3, 3]) @ self.base[:3, :3]
        return places - turned @ self.tool[:3, 3], turned


def between(spec: Adapter, chain: ChainSpec) -> Between:
    """What `tool_frame` and `base_frame` say of an arm."""
    made = Between()
    if spec.base_frame is not None:
        made = Between(_placed(spec.base_frame), made.tool)
    if spec.tool_frame is not None:
        tool = _placed(spec.tool_frame)
        if spec.tool_frame.on == FLANGE:
            mounted = BaseFrame((0.0, 0.0, chain.tool_offset_m), (0.0, 0.0, np.degrees(chain.tool_turn_rad)))
            tool = np.linalg.inv(_placed(mounted)) @ tool
        made = Between(made.base, tool)
    return made


def _placed(frame: BaseFrame) -> Array:
    """`(4, 4)`."""
    made = np.eye(4)
    made[:3, 3], made[:3, :3] = frame.position_m, matrix("rpy", np.radians(frame.rpy_deg))
    return made
