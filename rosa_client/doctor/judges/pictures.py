"""A camera: whether its pictures come at their rate, in their size, sharp, well lit and changing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import cv2
import numpy as np

from rosa_client.doctor.judges.finding import FAIL, WARN, Finding, fine, inactive, skipped
from rosa_client.sensing.clock_difference import SAMPLES, clock_difference
from rosa_client.sensing.frozen_picture import fingerprint
from rosa_client.sensing.picture_size import wrong_size
from rosa_contract.config.cameras import CameraSpec
from rosa_contract.wire.images import EncodedImage, Rgb

OK_SHARE, WARN_SHARE = (
    0.9,
    0.7,
)  # of the rate in the robot file; the camera node's diagnostics use the second too
# Variance of the Laplacian of the grey picture, brought to 96 pixels of height first, so that it depends little on the
# resolution. The simulated cell has 700 to 3,900; blurred by 2 % of its height 9 to 23.
SHARP = 30.0
SHARPNESS_HEIGHT_PX = 96
DARK, BRIGHT = 12.0, 243.0  # mean grey of a covered lens, and of one that looks into the sun
CAMERA_NODE = "camera_node"
ENOUGH = 5  # pictures; with fewer, equal ones say nothing


@dataclass(frozen=True)
class PicturesFact:
    """What came of one camera within `seconds`."""

    camera: str
    publishers: int
    topic: str = ""
    unmatched: str = ""  # why its publisher is not heard: another type, or a weaker QoS than is asked for
    count: int = 0
    seconds: float = 0.0
    largest_gap_s: float = 0.0
    size: tuple[int, int] = (0, 0)  # (width, height) of the newest, px
    distinct: int = 0  # pictures that differ from all others, of those that were looked at
    sharpness: float = 0.0  # median, as `sharpness_of`
    brightness: float = 0.0  # median of the mean grey, 0..255
    changed: float = 0.0  # median of the mean difference between neighbours, grey levels
    problem: str = ""  # why a picture could not be read
    node_state: str = (
        ""  # of its camera node's life cycle, such as inactive; empty: not known, or another's node
    )
    stamps: Sequence[tuple[float, float]] = ()  # (arrival, age by the header) of the latest, s


def sharpness_of(rgb: Rgb) -> float:
    """Variance of the Laplacian of `rgb` (height, width, 3) at `SHARPNESS_HEIGHT_PX`."""
    grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
    scale = SHARPNESS_HEIGHT_PX / grey.shape[0]
    if scale < 1:
        grey = cv2.resize(grey, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    return float(cv2.Laplacian(grey, cv2.CV_64F).var())


def pictures_fact(
    nothing: PicturesFact,
    times_s: Sequence[float],
    pictures: Sequence[tuple[EncodedImage, Rgb]],
    stamps: Sequence[tuple[float, float]],
    problem: str = "",
) -> PicturesFact:
    """From `times_s`, when each picture arrived, `pictures`, those that were looked at: (as it came, decoded (height,
    width, 3)), and `stamps` as in the fact.

    `nothing`: what is known without a picture.
    """
    if not pictures:
        return replace(nothing, problem=problem)
    greys = [cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY).astype(np.float64) for _, rgb in pictures]
    differences = [float(np.abs(a - b).mean()) for a, b in pairwise(greys) if a.shape == b.shape]
    height, width = pictures[-1][1].shape[:2]
    return replace(
        nothing,
        count=len(times_s),
        largest_gap_s=max(np.diff(times_s), default=nothing.seconds),
        size=(width, height),
        distinct=len({fingerprint(image) for image, _ in pictures}),
        sharpness=float(np.median([sharpness_of(rgb) for _, rgb in pictures])),
        brightness=float(np.median([grey.mean() for grey in greys])),
        changed=float(np.median(differences)) if differences else 0.0,
        problem=problem,
        stamps=stamps[-SAMPLES:],
    )


def judge_pictures(fact: PicturesFact, spec: CameraSpec, max_age_s: float) -> Finding:
    """The worst of what is wrong with one camera, in one line. `max_age_s`: older pictures stop the arm."""
    check = f"camera.{fact.camera}"
    if not fact.count:
        return _nothing(check, fact)
    rate_hz = fact.count / fact.seconds
    seen = f"{rate_hz:.1f} of {spec.rate_hz:g} Hz, sharpness {fact.sharpness:.0f}"
    if fact.problem:
        return Finding(check, FAIL, "unreadable", fact.problem, "compare `encoding` in the robot file")
    if words := wrong_size(fact.size, spec):
        return Finding(check, FAIL, "wrong_size", words, "correct `width` and `height`, or the camera's mode")
    clock = clock_difference(fact.stamps, max_age_s)
    if clock is not None and not clock.ahead:
        words = f"{seen}, but {clock.words}"
        return Finding(check, FAIL, "clock_difference", words, "the arm stops when pictures are too old")
    if fact.distinct == 1 and fact.count >= ENOUGH:
        words = f"{fact.count} pictures in {fact.seconds:.1f} s are all the same: a frozen camera"
        return Finding(
            check, FAIL, "frozen", words, "move something in view and ask again; then plug it in again"
        )
    if rate_hz < OK_SHARE * spec.rate_hz:
        level = WARN if rate_hz >= WARN_SHARE * spec.rate_hz else FAIL
        words = f"{seen}: too slow, with a gap of {1000 * fact.largest_gap_s:.0f} ms"
        return Finding(
            check, level, "slow", words, "give each camera its own USB controller, or lower rate_hz"
        )
    if clock is not None:
        words = f"{seen}, but {clock.words}"
        return Finding(check, WARN, "clock_difference", words, "how old its pictures are is unknown")
    if not DARK <= fact.brightness <= BRIGHT:
        cause, how = ("dark", "black") if fact.brightness < DARK else ("bright", "overexposed")
        words = f"{seen}, but the pictures are {how} (mean grey {fact.brightness:.0f} of 255)"
        return Finding(check, WARN, cause, words, "take off the cap, check light and exposure")
    if fact.sharpness < SHARP:
        words = f"{seen}: out of focus, dirty, or looking at an empty surface"
        return Finding(check, WARN, "blurred", words, "focus, clean the lens, look at the picture")
    return fine(check, f"{seen}, changing by {fact.changed:.1f} grey levels a picture")


def _nothing(check: str, fact: PicturesFact) -> Finding:
    if fact.problem:
        return Finding(check, FAIL, "unreadable", fact.problem, "see docs/add_a_robot.md")
    if not fact.publishers:
        words = f"nobody publishes its pictures on {fact.topic}"
        return Finding(
            check, FAIL, "no_publisher", words, "start the robot's nodes, or this camera's own node"
        )
    if fact.unmatched:
        words = f"its pictures on {fact.topic} {fact.unmatched}"
        do = "correct `encoding`, `topic` or `reliability` of the camera in the robot file"
        return Finding(check, FAIL, "unmatched", words, do)
    if found := inactive(check, CAMERA_NODE, fact.node_state):
        return found
    words = f"its node is there, but no picture came on {fact.topic} in {fact.seconds:.1f} s"
    return Finding(check, FAIL, "no_picture", words, "check cable and device; the log of its node says more")


def not_asked(camera: str, why: str) -> Finding:
    """Pictures could not be looked at."""
    return skipped(f"camera.{camera}", "not_asked", why)
