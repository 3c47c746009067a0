"""The chain of a robot file, read from a URDF file: joint frames, names and limits, and nothing else.

URDF is XML, which can define entities that expand without bound and refer to other files. Both need a document type,
which no URDF has, so a file with one is refused before any of it is used. Fixed joints are folded into the next frame,
and a joint axis other than z into the joint's frame. Source: http://wiki.ros.org/urdf/XML/joint.
"""

from __future__ import annotations

import math
import xml.parsers.expat as expat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rosa_contract.errors import ConfigError, ConfigProblem
from rosa_contract.rotations import matrix, written
from rosa_contract.shipped import shipped
from rosa_contract.wording import nearest, shown

Array = NDArray[np.float64]

MAX_BYTES = 8 << 20
MAX_ELEMENTS = 100_000
MAX_DEPTH = 32
MAX_JOINTS = 64  # from base to tip
SHIPPED = "rosa:"
KEYS = ("urdf", "base", "tip")
WAYS = ("frames", "a_m", "d_m", "alpha_rad")  # to say a chain without a URDF file
TURNING = ("revolute", "continuous")
PARTS = ("parent", "child", "origin", "axis", "limit", "mimic")  # of a joint, each at most once
WITHIN_RAD = 1e-6
FULL_TURN_RAD = 2 * math.pi


class UrdfError(ValueError):
    """What is wrong with a URDF file; `cause` as of a `ConfigProblem`."""

    def __init__(self, cause: str, words: str) -> None:
        super().__init__(words)
        self.cause = cause


@dataclass
class Joint:
    """One joint as it is in the file."""

    name: str
    kind: str
    parts: dict[str, Mapping[str, str]] = field(default_factory=dict)  # element -> its attributes

    def says(self, part: str, attribute: str) -> str:
        """An attribute of one of its elements; raises `UrdfError` if it is missing."""
        found = self.parts.get(part, {}).get(attribute)
        if found is None:
            raise UrdfError("missing", f"joint {self.name}: expected <{part} {attribute}=...>, got none")
        return found

    def vector(self, part: str, attribute: str, default: Sequence[float]) -> Array:
        """Three finite numbers of an attribute, or `default` if it is missing."""
        text = self.parts.get(part, {}).get(attribute)
        return np.array(default, np.float64) if text is None else self._numbers(part, attribute, text, 3)

    def number(self, part: str, attribute: str) -> float | None:
        """A finite number of an attribute; None if it is missing."""
        text = self.parts.get(part, {}).get(attribute)
        return None if text is None else float(self._numbers(part, attribute, text, 1)[0])

    def _numbers(self, part: str, attribute: str, text: str, count: int) -> Array:
        try:
            values = np.array([float(one) for one in text.split()], np.float64)
        except ValueError:
            values = np.zeros(0)
        if len(values) != count or not np.isfinite(values).all():
            many = "three finite numbers" if count == 3 else "a finite number"
            raise UrdfError(
                "wrong_type", f"joint {self.name}: {part}.{attribute}: expected {many}, got {shown(text)}"
            )
        return values


@dataclass(frozen=True)
class UrdfChain:
    """From base to tip: `frames` like those of a `ChainSpec`, and the names and limits of the moving joints."""

    joints: tuple[str, ...]
    frames: tuple[tuple[float, ...], ...]
    min_rad: tuple[float, ...]
    max_rad: tuple[float, ...]
    velocity_rad_s: tuple[float | None, ...]


def with_urdf(document: Any, path: Path, origins: Mapping[str, str]) -> Any:
    """The values of a robot file with every `urdf` replaced by its `frames`.

    Joint names, and for a robot with one arm limits, are taken from the URDF file if they are missing, and must agree
    with it otherwise. `origins`: the file that each value is from; relative paths start there. Raises `ConfigError`.
    """
    if not isinstance(document, dict):
        return document
    made, problems = dict(document), list[ConfigProblem]()
    arms = document.get("arms")
    if isinstance(arms, dict):
        made["arms"] = {
            name: _resolved(arm, f"arms.{name}.", name, path, origins, problems) for name, arm in arms.items()
        }
    made = _resolved(made, "", "", path, origins, problems)
    if problems:
        raise ConfigError(str(path), problems)
    return made


def _resolved(
    owner: Any, below: str, arm: str, path: Path, origins: Mapping[str, str], problems: list[ConfigProblem]
) -> Any:
    chain = owner.get("chain") if isinstance(owner, dict) else None
    if not isinstance(chain, dict) or chain.get("urdf", "") == "":
        return owner
    told = {key: chain.get(key, "") for key in KEYS}
    for key, text in told.items():
        if not isinstance(text, str) or not text.isprintable():
            problems.append(
                ConfigProblem(f"{below}chain.{key}", "wrong_type", f"expected text, got {shown(text)}")
            )
            return owner
    name = told["urdf"]
    if both := [key for key in WAYS if chain.get(key)]:
        words = f"expected either `urdf` or {', '.join(both)}, got both"
        problems.append(ConfigProblem(f"{below}chain.urdf", "conflict", words))
        return owner
    folder = Path(origins.get(f"{below}chain.urdf", str(path))).parent
    file = shipped("hardware", name.removeprefix(SHIPPED)) if name.startswith(SHIPPED) else folder / name
    try:
        found = read_chain(file, told["base"], told["tip"])
    except UrdfError as error:
        problems.append(ConfigProblem(f"{below}chain.urdf", error.cause, f"{name}: {error}"))
        return owner
    left = {key: value for key, value in chain.items() if key not in KEYS}
    made = {**owner, "chain": {**left, "frames": [list(frame) for frame in found.frames]}}
    problems += _named(made, below, arm, name, found)
    return made if arm else _limited(made, name, found, problems)


def _named(owner: dict[str, Any], below: str, arm: str, name: str, found: UrdfChain) -> list[ConfigProblem]:
    """Joint names must be those of the URDF file; with several arms they may be prefixed with the arm's name."""
    told = owner.setdefault("joints", list(found.joints))
    if not isinstance(told, list):
        return []  # which is told with the other mistakes
    prefixed = [f"{arm}_{joint}" for joint in found.joints]
    if told in (list(found.joints), prefixed):
        return []
    given = ", ".join(map(str, told))
    words = f"expected the joints of {name} from base to tip, {', '.join(found.joints)}, got {given}"
    return [ConfigProblem(f"{below}joints", "conflict", words)]


def _limited(
    owner: dict[str, Any], name: str, found: UrdfChain, problems: list[ConfigProblem]
) -> dict[str, Any]:
    """Missing limits are taken from the URDF file; given ones must lie within them."""
    limits = owner.get("limits", {})
    if not isinstance(limits, dict):
        return owner
    made = dict(limits)
    made.setdefault("position_min_rad", list(found.min_rad))
    made.setdefault("position_max_rad", list(found.max_rad))
    if all(found.velocity_rad_s):
        made.setdefault("velocity_rad_s", list(found.velocity_rad_s))
    for index, joint in enumerate(found.joints):
        low, high, fastest = found.min_rad[index], found.max_rad[index], found.velocity_rad_s[index]
        ends = {
            "position_min_rad": (low, math.inf),
            "position_max_rad": (-math.inf, high),
            "velocity_rad_s": (-math.inf, fastest or math.inf),
        }
        for key, (lowest, highest) in ends.items():
            values = made.get(key)
            one = values[index] if isinstance(values, list) and index < len(values) else None
            if isinstance(one, int | float) and not lowest - WITHIN_RAD <= one <= highest + WITHIN_RAD:
                allowed = f"at least {lowest:g}" if math.isfinite(lowest) else f"at most {highest:g}"
                words = f"expected {allowed}, the limit of joint {joint} in {name}, got {one:g}"
                problems.append(ConfigProblem(f"limits.{key}[{index}]", "conflict", words))
    return {**owner, "limits": made}


def read_chain(path: Path, base: str = "", tip: str = "") -> UrdfChain:
    """The chain of a file. Raises `UrdfError`, which names the link or joint and what was expected."""
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UrdfError("unreadable", f"cannot be read: {error.strerror or error}") from None
    return parse_chain(raw, base, tip)


def parse_chain(raw: bytes, base: str = "", tip: str = "") -> UrdfChain:
    """Like `read_chain`, for a file in memory."""
    links, joints = _parsed(raw)
    over = {joint.says("child", "link"): joint for joint in joints}
    if len(over) < len(joints):
        twice = next(one for one in joints if over[one.says("child", "link")] is not one)
        link = twice.says("child", "link")
        raise UrdfError(
            "conflict",
            f"link {link} is the child of two joints, {twice.name} and {over[link].name}; expected one",
        )
    base = base or _only("base", [link for link in links if link not in over], "is the child of no joint")
    parents = {joint.says("parent", "link") for joint in joints}
    tip = tip or _only("tip", [link for link in links if link not in parents], "has no children")
    for key, link in (("base", base), ("tip", tip)):
        if link not in links:
            raise UrdfError("unknown_name", f"{key}: there is no link {shown(link)}{nearest(link, links)}")
    way: list[Joint] = []
    here = tip
    while here != base:
        joint = over.get(here)
        if joint is None or len(way) >= MAX_JOINTS or joint in way:
            ends = (
                f"it ends at {here}"
                if joint is None
                else f"it is longer than {MAX_JOINTS} joints or circular"
            )
            raise UrdfError("conflict", f"expected a chain from link {tip} back to link {base}; {ends}")
        way.append(joint)
        here = joint.says("parent", "link")
    return _folded(way[::-1], base, tip)


def _only(key: str, found: Sequence[str], which: str) -> str:
    if len(found) == 1:
        return found[0]
    names = ", ".join(found[:12]) or "none"
    raise UrdfError(
        "missing", f"`chain.{key}` is missing: expected exactly one link that {which}, got {names}"
    )


def _folded(way: Sequence[Joint], base: str, tip: str) -> UrdfChain:
    names, frames, lows, highs, speeds = [], list[tuple[float, ...]](), [], [], []
    after = np.eye(4)  # from the last frame that turns
    for joint in way:
        origin = np.eye(4)
        origin[:3, 3] = joint.vector("origin", "xyz", (0, 0, 0))
        origin[:3, :3] = matrix("rpy", joint.vector("origin", "rpy", (0, 0, 0)))
        after = after @ origin
        if joint.kind == "fixed":
            continue
        if joint.kind not in TURNING:
            raise UrdfError(
                "out_of_range",
                f"joint {joint.name} is {joint.kind}; expected {', '.join(TURNING)} or fixed from link {base} to link"
                f" {tip}. Fingers are the `gripper`, not the chain: choose a `tip` before them",
            )
        if "mimic" in joint.parts:
            raise UrdfError(
                "conflict",
                f"joint {joint.name} mimics {joint.parts['mimic'].get('joint', 'another')}: it has no position of its"
                f" own to command; expected none from link {base} to link {tip}",
            )
        upright = _upright(joint)
        frames.append(_row(after @ upright))
        after = upright.T
        names.append(joint.name)
        low, high = _range(joint)
        lows.append(low)
        highs.append(high)
        speeds.append(_speed(joint))
    if not names:
        raise UrdfError(
            "missing", f"expected {' or '.join(TURNING)} joints from link {base} to link {tip}, got none"
        )
    frames.append(_row(after))
    return UrdfChain(tuple(names), tuple(frames), tuple(lows), tuple(highs), tuple(speeds))


def _upright(joint: Joint) -> Array:
    """The rotation `(4, 4)` that takes z to the joint's axis."""
    axis = joint.vector("axis", "xyz", (1, 0, 0))
    long = float(np.linalg.norm(axis))
    if not 1e-6 < long < 1e6:
        raise UrdfError(
            "out_of_range", f"joint {joint.name}: axis.xyz: expected a direction, got a length of {long:g}"
        )
    x, y, z = axis / long
    made = np.eye(4)
    aside = x * x + y * y
    if aside < 1e-24:
        made[:3, :3] = np.diag([1.0, 1.0, 1.0] if z > 0 else [1.0, -1.0, -1.0])
    else:
        share = 1 / (1 + z) if z > 0 else (1 - z) / aside  # the same; 1 + z has no digits left near -z
        made[:3, :3] = [
            [1 - x * x * share, -x * y * share, x],
            [-x * y * share, 1 - y * y * share, y],
            [-x, -y, z],
        ]
    return made


def _range(joint: Joint) -> tuple[float, float]:
    low, high = joint.number("limit", "lower"), joint.number("limit", "upper")
    if joint.kind == "continuous":
        return -FULL_TURN_RAD, FULL_TURN_RAD
    if low is None or high is None or low >= high:
        raise UrdfError("missing", f"joint {joint.name}: limit: expected lower < upper, got {low} and {high}")
    return low, high


def _speed(joint: Joint) -> float | None:
    """rad/s; None if it is missing. Some files have 0 for an unknown one."""
    fastest = joint.number("limit", "velocity")
    if fastest is not None and fastest < 0:
        raise UrdfError("out_of_range", f"joint {joint.name}: limit.velocity: must be > 0, got {fastest:g}")
    return fastest


def _row(frame: Array) -> tuple[float, ...]:
    return (*frame[:3, 3].tolist(), *written("rpy", frame[:3, :3]).tolist())


def _parsed(raw: bytes) -> tuple[list[str], list[Joint]]:
    """Links and joints in file order. Only the names of links and the direct child elements of joints are kept."""
    if len(raw) > MAX_BYTES:
        raise UrdfError("too_large", f"is larger than {MAX_BYTES} bytes")
    links, joints, open_, count = list[str](), list[Joint](), list[str](), 0

    def begins(name: str, told: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > MAX_ELEMENTS or len(open_) >= MAX_DEPTH:
            raise UrdfError(
                "too_large", f"has over {MAX_ELEMENTS} elements or is nested deeper than {MAX_DEPTH}"
            )
        if name.startswith("xacro:"):
            raise UrdfError(
                "syntax", "is a xacro file; expected URDF: convert it with `xacro FILE > robot.urdf`"
            )
        if not open_ and name != "robot":
            raise UrdfError("wrong_type", f"expected <robot>, got <{name:.40}>")
        if len(open_) == 1 and name == "link":
            links.append(told.get("name", ""))
        elif len(open_) == 1 and name == "joint":
            joints.append(Joint(told.get("name", ""), told.get("type", "")))
        elif len(open_) == 2 and open_[1] == "joint" and name in PARTS:
            if name in joints[-1].parts:
                words = f"joint {joints[-1].name}: <{name}> occurs twice; expected one"
                raise UrdfError("duplicate_key", words)
            joints[-1].parts[name] = told
        open_.append(name)

    def document_type(*_: object) -> None:
        raise UrdfError("syntax", "has a document type (<!DOCTYPE ...>), which URDF does not need; remove it")

    parser = expat.ParserCreate()
    parser.StartElementHandler = begins
    parser.EndElementHandler = lambda _: open_.pop()
    parser.StartDoctypeDeclHandler = document_type
    try:
        parser.Parse(raw, True)
    except UrdfError:
        raise
    except (
        expat.ExpatError,
        LookupError,
        ValueError,
    ) as error:  # the others: an encoding that Python does not read
        raise UrdfError("syntax", f"is not XML: {error}") from None
    _check_unique("link", links)
    _check_unique("joint", [joint.name for joint in joints])
    return links, joints


def _check_unique(kind: str, names: Sequence[str]) -> None:
    seen = set[str]()
    for name in names:
        if not name or name in seen:
            which = f"{kind} {name} occurs twice" if name else f"a {kind} has no name"
            raise UrdfError("duplicate_key" if name else "missing", f"{which}; expected unique names")
        seen.add(name)
