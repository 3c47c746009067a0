"""The section `chain` of a robot file: the kinematic chain of an arm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from rosa_contract.setting import setting

MODIFIED, STANDARD = "modified", "standard"  # Denavit-Hartenberg parameters
FRAME_NUMBERS = 6  # x, y, z, roll, pitch, yaw


@dataclass(frozen=True)
class ChainSpec:
    """The kinematic chain of an arm, given in one of three ways. Each joint rotates about the z axis of its own frame.

    1. Modified (Craig) Denavit-Hartenberg parameters, a row per joint and one for the flange: row i rotates about x by
       `alpha_rad[i]`, translates along x by `a_m[i]`, rotates about z by the joint's angle (0 in the flange's row) and
       translates along z by `d_m[i]`. Standard parameters are converted to these when the file is loaded.
    2. `frames`.
    3. `urdf`, which is converted to `frames` when the file is loaded.
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
        """Number of joints of a chain that has been checked."""
        return max(len(self.frames), len(self.a_m)) - 1


def chain_problems(chain: ChainSpec, joints: int | None = None) -> Iterator[tuple[str, str, str]]:
    """What is wrong with a chain: (path below it, words, cause). `joints`: the required number of joints."""
    if chain.urdf:
        yield ".urdf", "only a robot file can name one: plain values have no folder to start from", "conflict"
        return
    for key in ("base", "tip"):
        if getattr(chain, key):
            yield f".{key}", f"is a link of a URDF file; add `urdf`, or remove `{key}`", "conflict"
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
    """Standard parameters as modified ones: a and alpha come after the joint there, so they move to the next row."""
    if chain is None or chain.convention == MODIFIED or chain.frames:
        return chain
    return replace(
        chain,
        a_m=(0.0, *chain.a_m),
        d_m=(*chain.d_m, 0.0),
        alpha_rad=(0.0, *chain.alpha_rad),
        convention=MODIFIED,
    )
