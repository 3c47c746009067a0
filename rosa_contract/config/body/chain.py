"""The section `chain` of a robot file: where the joints of an arm are, one after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from rosa_contract.setting import setting

MODIFIED, STANDARD = "modified", "standard"  # Denavit-Hartenberg parameters
FRAME_NUMBERS = 6  # x, y, z, roll, pitch, yaw


@dataclass(frozen=True)
class ChainSpec:
    """The kinematic chain of an arm, in one of three ways; each joint turns about the z axis of its own frame.

    As modified (Craig) Denavit-Hartenberg rows, one per joint and one for the flange: row i turns about x by
    `alpha_rad[i]`, shifts along x by `a_m[i]`, turns about z by the joint's angle (0 in the flange's row) and shifts
    along z by `d_m[i]`. Standard parameters in a file are read as these. Or as `frames`. Or as `urdf`, which is read as
    frames when the robot file is.
    """

    a_m: tuple[float, ...] = setting(
        "DH parameter a, translation along x, m: one per joint, then the flange", ()
    )
    d_m: tuple[float, ...] = setting(
        "DH parameter d, translation along z, m: one per joint, then the flange", ()
    )
    alpha_rad: tuple[float, ...] = setting(
        "DH parameter alpha, rotation about x, rad: one per joint, then the flange", ()
    )
    convention: str = setting(
        "Denavit-Hartenberg convention: modified (Craig), as published by Franka; standard, as published by"
        " Universal Robots: one value per joint and none for the flange",
        MODIFIED,
        choices=(MODIFIED, STANDARD),
    )
    frames: tuple[tuple[float, ...], ...] = setting(
        "instead of a_m, d_m and alpha_rad: pose x, y, z (m), roll, pitch, yaw (rad) of each joint frame in the"
        " previous one at joint angle 0, then the flange",
        (),
    )
    urdf: str = setting(
        "instead of these: a URDF file, as a path relative to the robot file's folder; `joints`,"
        " `limits.position_min_rad`, `position_max_rad` and `velocity_rad_s` may then be left out",
        "",
    )
    base: str = setting("with `urdf`: first link of the chain; default: the root link", "")
    tip: str = setting(
        "with `urdf`: last link of the chain, the flange; default: the only link without children", ""
    )
    tool_turn_rad: float = setting("rotation of the hand on the flange about z, rad", 0.0)
    tool_offset_m: float = setting(
        "distance along z from the flange to the point between the fingertips, m", 0.0
    )
    points: Mapping[str, int] = setting(
        "joint frames that must stay in the workspace, besides the flange and the tool: name -> number of the"
        " joint (1-based)",
        dict,
        at_least=1,
    )
    mounted: tuple[float, ...] = setting(
        "pose of the chain's base in the robot's base frame: x, y, z (m), roll, pitch, yaw (rad); default: the"
        " two coincide",
        (),
    )

    @property
    def dof(self) -> int:
        """Number of joints, once the chain was checked."""
        return max(len(self.frames), len(self.a_m)) - 1


def chain_problems(chain: ChainSpec, joints: int | None = None) -> Iterator[tuple[str, str, str]]:
    """What is wrong with a chain: the path below it, words, a cause. `joints`: how many it has to have."""
    if chain.urdf:
        yield ".urdf", "only a robot file can name one: values have no folder to look in", "conflict"
        return
    for key in ("base", "tip"):
        if getattr(chain, key):
            yield f".{key}", f"is a link of a URDF file; expected `urdf` besides, or no `{key}`", "conflict"
    rows = {name: getattr(chain, name) for name in ("a_m", "d_m", "alpha_rad")}
    if chain.frames:
        if any(rows.values()):
            yield ".frames", "expected either `frames` or a_m, d_m and alpha_rad, got both", "conflict"
        for index, frame in enumerate(chain.frames):
            if len(frame) != FRAME_NUMBERS:
                yield (
                    f".frames[{index}]",
                    f"expected x, y, z, roll, pitch, yaw, got {len(frame)} numbers",
                    "wrong_length",
                )
        rows = {"frames": chain.frames}
    modified = chain.convention == MODIFIED or bool(chain.frames)
    count = joints if joints is not None else max(1, max(map(len, rows.values())) - modified)
    wanted = count + 1 if modified else count
    for name, values in rows.items():
        if len(values) != wanted:
            expected = f"{wanted} values, one per joint{' and one for the flange' if modified else ''}"
            yield f".{name}", f"expected {expected}, got {len(values)}", "wrong_length"
    if chain.mounted and len(chain.mounted) != FRAME_NUMBERS:
        yield (
            ".mounted",
            f"expected x, y, z, roll, pitch, yaw, got {len(chain.mounted)} numbers",
            "wrong_length",
        )
    for name, joint in chain.points.items():
        if joint > count:
            yield f".points.{name}", f"must be a joint from 1 to {count}, got {joint}", "out_of_range"


def modified(chain: ChainSpec | None) -> ChainSpec | None:
    """Standard parameters as modified ones: what is along x comes after its joint, so it is in the next row."""
    if chain is None or chain.convention == MODIFIED or chain.frames:
        return chain
    return replace(
        chain,
        a_m=(0.0, *chain.a_m),
        d_m=(*chain.d_m, 0.0),
        alpha_rad=(0.0, *chain.alpha_rad),
        convention=MODIFIED,
    )
