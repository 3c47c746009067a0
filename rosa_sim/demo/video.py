"""The video of a run, rendered afterwards from the recorded states, so that it costs the running robot nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from rosa_sim.cell.layout.hardware import PICK_PLACE
from rosa_sim.cell.render import SceneRenderer

SIZE = (640, 480)  # width, height
RATE_HZ = 15
FONT = cv2.FONT_HERSHEY_SIMPLEX
INSET = 144  # px, side of the robot's own camera pictures
WHITE, GREEN, AMBER, RED = (255, 255, 255), (120, 230, 120), (255, 190, 60), (255, 90, 80)
COLOURS = {"executing": GREEN, "inferring": WHITE, "waiting_for_human": RED, "holding": AMBER}
BAR = 52  # px, the strip at the bottom that says what the robot does
BANNER_LINES = 3
DARK_RED, DARK_AMBER, DARK_GREEN, DARK_BLUE = (150, 20, 20), (150, 90, 0), (20, 100, 50), (20, 50, 110)


@dataclass(frozen=True)
class Shot:
    """One recorded instant: the state of the cell, what the robot reported, and what was done to it."""

    time_s: float
    seed: int
    qpos: NDArray[np.float64]
    title: str
    state: str
    note: str
    alert: str = ""  # why the robot waits for a human; empty while it does not
    decided: str = ""  # what an operator has just decided; empty soon after
    fault: str = ""  # the fault that is switched on; empty when none is
    plan: str = ""  # the last words of System 2; empty where there is none


def render(
    shots: Sequence[Shot],
    path: Path,
    progress: Callable[[int, int], None] = lambda done, total: None,
    scene: str = PICK_PLACE,
) -> Path:
    """Write `shots` as an H.264 video at `RATE_HZ`; `progress(done, total)` is called for each picture."""
    picked = resample(shots)
    sizes = {"overview": SIZE, "front": (INSET, INSET), "wrist": (INSET, INSET)}
    renderer = SceneRenderer(sizes, scene=scene)
    try:
        with av.open(str(path), "w") as container:
            stream = container.add_stream(
                "libx264", rate=RATE_HZ, options={"crf": "26", "preset": "veryfast"}
            )
            stream.width, stream.height = SIZE
            stream.pix_fmt = "yuv420p"
            for index, shot in enumerate(picked):
                picture = compose(renderer, shot)
                for packet in stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")):
                    container.mux(packet)
                progress(index + 1, len(picked))
            for packet in stream.encode():
                container.mux(packet)
    finally:
        renderer.close()
    return path


def resample(shots: Sequence[Shot]) -> list[Shot]:
    """The newest shot at each frame; a pause between two episodes, or a jump of the clock, is left out."""
    picked: list[Shot] = []
    next_s = -np.inf
    for shot in shots:
        if shot.time_s >= next_s or shot.time_s < next_s - 1:
            picked.append(shot)
            on_time = 0 <= shot.time_s - next_s < 1 / RATE_HZ
            next_s = (next_s if on_time else shot.time_s) + 1 / RATE_HZ
    return picked


def compose(renderer: SceneRenderer, shot: Shot) -> NDArray[np.uint8]:
    """One frame of the video (height, width, 3) uint8 RGB: the scene, the cameras, and the texts."""
    pictures = renderer.render(shot.seed, shot.qpos)
    picture = pictures["overview"].copy()
    for index, name in enumerate(("front", "wrist")):
        top = 8 + index * (INSET + 8)
        picture[top : top + INSET, SIZE[0] - INSET - 8 : SIZE[0] - 8] = pictures[name]
        _text(picture, name, (SIZE[0] - INSET - 4, top + 14), 0.42, WHITE)
    if shot.plan:
        _banner(picture, [f"plan: {shot.plan}"], DARK_BLUE, top=8, right=SIZE[0] - INSET - 16)
    if shot.fault:
        _banner(picture, [f"fault on: {shot.fault}"], DARK_AMBER, top=8, right=SIZE[0] - INSET - 16)
    if shot.alert:
        lines = wrap(f"WAITS FOR A HUMAN: {shot.alert}", SIZE[0] - 20, 0.5)[:BANNER_LINES]
        _banner(picture, lines, DARK_RED, bottom=SIZE[1] - BAR)
    elif shot.decided:
        _banner(picture, wrap(shot.decided, SIZE[0] - 20, 0.5)[:1], DARK_GREEN, bottom=SIZE[1] - BAR)
    cv2.rectangle(picture, (0, SIZE[1] - BAR), SIZE, (20, 20, 20), -1)
    _text(picture, shot.title, (10, SIZE[1] - 32), 0.5, WHITE)
    _text(picture, shot.state, (SIZE[0] - 170, SIZE[1] - 32), 0.5, COLOURS.get(shot.state, WHITE))
    _text(picture, shot.note[:86], (10, SIZE[1] - 11), 0.42, (200, 200, 200))
    return picture


def _banner(
    picture: NDArray[np.uint8],
    lines: Sequence[str],
    colour: tuple[int, int, int],
    *,
    top: int | None = None,
    bottom: int | None = None,
    right: int = SIZE[0],
) -> None:
    """Lines of text on a coloured strip that begins at `top` or ends at `bottom` (px)."""
    height = 22 * len(lines) + 8
    if top is None:
        top = (SIZE[1] if bottom is None else bottom) - height
    cv2.rectangle(picture, (0, top), (right, top + height), colour, -1)
    for index, line in enumerate(lines):
        _text(picture, line, (10, top + 20 + 22 * index), 0.5, WHITE)


def wrap(text: str, width: int, size: float) -> list[str]:
    """`text` in lines of at most `width` px at font size `size`; a word that is longer has its own line."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and cv2.getTextSize(longer, FONT, size, 1)[0][0] <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _text(
    picture: NDArray[np.uint8], text: str, at: tuple[int, int], size: float, colour: tuple[int, int, int]
) -> None:
    cv2.putText(picture, text, at, FONT, size, (0, 0, 0), 3, cv2.LINE_AA)
    cv2.putText(picture, text, at, FONT, size, colour, 1, cv2.LINE_AA)
