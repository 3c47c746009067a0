"""The layout around a robot as plain shapes: lengths in m; colours as red, green, blue, opacity, each up to 1.

Two kinds. The *board* above the robot holds what a person clicks and why: it faces the viewer, and is sent again only
when it changes. The *scene* holds what changes all the time: state, lights, path, zone, notices.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from rosa_client.operator.choices import CAREFUL, END, GO, STOP, OfferedChoice, choices
from rosa_client.operator.lights import CLOSE, IN_TIME, MISSING, UNKNOWN, lights
from rosa_client.operator.robot_view import RobotView

Point = tuple[float, float, float]
Colour = tuple[float, float, float, float]
CUBE, SPHERE, TEXT, LINE_STRIP, LINE_LIST = "cube", "sphere", "text", "line_strip", "line_list"

ORIGIN = (0.0, 0.0, 0.0)
WHITE, GREY, AMBER = (1.0, 1.0, 1.0, 1.0), (0.5, 0.5, 0.5, 1.0), (1.0, 0.75, 0.1, 1.0)
GREEN, RED, CYAN = (0.1, 0.75, 0.2, 1.0), (0.9, 0.1, 0.1, 1.0), (0.1, 0.8, 0.95, 1.0)
ZONE = (0.3, 0.6, 0.9, 0.6)
TONE = {GO: (0.1, 0.5, 0.2, 1.0), CAREFUL: (0.6, 0.45, 0.05, 1.0), END: (0.35, 0.35, 0.4, 1.0)}
LIGHT = {IN_TIME: GREEN, CLOSE: AMBER, MISSING: RED, UNKNOWN: GREY}

BOARD_Z_M = 1.30  # over the arm, whose elbow and wrist stay below
BUTTON_M = (0.02, 0.62, 0.10)  # thick, wide, high
ROW_M = 0.12
LETTER_M, SMALL_M = 0.07, 0.05
LINE_M = 1.15  # height of a line in letter heights
LETTERS_PER_LINE = 44
MAX_LINES = 6
IN_FRONT_M = -0.03  # towards the viewer: a board's x axis points away from them
LIGHTS_AT = (-0.25, 0.55, 0.10)
NOTICES_AT = (-0.25, -0.55, 0.35)
SPACING_M = 1.6  # between robots without a configured place


@dataclass(frozen=True)
class Base:
    """Where a robot's base stands in the panel's frame: m, and its turn about z in rad."""

    x_m: float = 0.0
    y_m: float = 0.0
    z_m: float = 0.0
    yaw_rad: float = 0.0

    def place(self, point: Sequence[float]) -> Point:
        """A point of the base frame in the panel's frame."""
        c, s = math.cos(self.yaw_rad), math.sin(self.yaw_rad)
        x, y, z = (float(value) for value in point)
        return (self.x_m + c * x - s * y, self.y_m + s * x + c * y, self.z_m + z)


@dataclass(frozen=True)
class Shape:
    """One thing to draw. `group` and `number` name it; `points` are of lines only, `text` of text only."""

    group: str
    number: int
    kind: str
    position: Point
    size: Point
    colour: Colour
    text: str = ""
    points: tuple[Point, ...] = ()


@dataclass(frozen=True)
class Button:
    """A button and its shapes, relative to its board."""

    key: str
    title: str
    shapes: tuple[Shape, ...]


@dataclass(frozen=True)
class Board:
    """The board above a robot: buttons, the same choices as a menu, and the text that explains them."""

    name: str
    title: str
    position: Point
    words: tuple[Shape, ...]
    buttons: tuple[Button, ...]


def plain(text: str) -> str:
    """Printable ASCII: what RViz's font has."""
    return (
        "".join(c if c.isprintable() or c == "\n" else " " for c in text).encode("ascii", "replace").decode()
    )


def wrap(text: str) -> str:
    """`text` broken into lines that fit a board, shortened when there would be too many."""
    short = textwrap.shorten(plain(text), MAX_LINES * LETTERS_PER_LINE, placeholder=" ...")
    return "\n".join(textwrap.wrap(short, LETTERS_PER_LINE))


def board(view: RobotView, base: Base) -> Board:
    """The board of one robot. The emergency stop is its lowest button, always at the same place."""
    offered = choices(view)
    rows = [OfferedChoice(STOP, "EMERGENCY STOP", STOP), *reversed(offered)]
    buttons = [_button(choice, row) for row, choice in enumerate(rows)]
    words = []
    if view.alert is not None:
        cause = view.alert.cause.replace("_", " ")
        text = f"ALERT {view.alert.id}: {plain(cause)}\n{wrap(view.alert.reason)}".rstrip()
        middle_m = len(rows) * ROW_M + _height_m(text, LETTER_M) / 2
        words.append(_text("alert", 0, (IN_FRONT_M, 0.0, middle_m), LETTER_M, AMBER, text))
    return Board(
        view.namespace, plain(view.label), base.place((0, 0, BOARD_Z_M)), tuple(words), tuple(buttons)
    )


def stop_all_board(bases: Sequence[Base]) -> Board:
    """One button for all robots, beside the first of their row."""
    first = min(bases, key=lambda base: base.y_m)
    position = (first.x_m, first.y_m - SPACING_M, first.z_m + BOARD_Z_M)
    button = _button(OfferedChoice(STOP, "EMERGENCY STOP: ALL", STOP), 0)
    return Board("/", "all robots", position, (), (button,))


def _button(choice: OfferedChoice, row: int) -> Button:
    z_m = row * ROW_M
    colour = RED if choice.tone == STOP else TONE[choice.tone]
    body = Shape("button", 0, CUBE, (0.0, 0.0, z_m), BUTTON_M, colour)
    words = _text("button", 1, (IN_FRONT_M, 0.0, z_m), SMALL_M, WHITE, plain(choice.title))
    return Button(choice.key, plain(choice.title), (body, words))


def scene(
    view: RobotView,
    base: Base,
    now_s: float,
    zones: Sequence[tuple[Sequence[float], Sequence[float]]] = (),
) -> list[Shape]:
    """What is drawn for one robot besides its board. `zones`: lowest and highest corner of each workspace, base
    frame."""
    shapes = [_state(view, base, now_s), *_lights(view, base, now_s)]
    shapes += [_zone(view, base, zone, number) for number, zone in enumerate(zones)]
    if view.path_m is not None and not view.silent_for_s(now_s):
        group = _group(view, "path")
        for number, path in enumerate(view.path_m):
            points = tuple(base.place(point) for point in path)
            line = Shape(group, 2 * number, LINE_STRIP, ORIGIN, (0.008, 0.0, 0.0), CYAN, points=points)
            shapes += [line, Shape(group, 2 * number + 1, SPHERE, points[-1], (0.03, 0.03, 0.03), CYAN)]
    if notices := view.notices(now_s):
        words = plain("\n".join(notices))
        shapes.append(_text(_group(view, "notices"), 0, base.place(NOTICES_AT), SMALL_M, AMBER, words))
    return shapes


def _state(view: RobotView, base: Base, now_s: float) -> Shape:
    status, silent_s = view.status, view.silent_for_s(now_s)
    lines, colour = [view.label], WHITE
    if status is not None and status.task:
        lines[0] += f": {status.task}"
        lines.append(f"{status.state.replace('_', ' ')}, round {status.round}, attempt {status.attempt}")
    elif status is not None:
        lines.append(str(status.state).replace("_", " "))
    if silent_s:
        lines.append(f"no sign of life for {silent_s:.0f} s")
        colour = GREY
    if view.stopped:
        lines.append("EMERGENCY STOP IS LATCHED")
        colour = RED
    elif view.arm is not None and (view.arm.fault or view.arm.cut_short):
        lines.append(f"arm: {view.arm.fault or view.arm.cut_short}")
    if arm_silent_s := view.arm_silent_for_s(now_s):
        lines.append(f"the arm has been silent for {arm_silent_s:.0f} s")
    if outcome := view.shown_outcome(now_s):
        lines.append(outcome)
    elif view.last_audit is not None:
        lines.append(f"last: {view.last_audit.line()}")
    text = "\n".join(wrap(line) for line in lines)
    words_on_board = board(view, base).words
    below_m = (len(choices(view)) + 1) * ROW_M + sum(_height_m(w.text, LETTER_M) for w in words_on_board)
    position = base.place((0, 0, BOARD_Z_M + below_m + _height_m(text, LETTER_M) / 2))
    return _text(_group(view, "state"), 0, position, LETTER_M, colour, text)


def _lights(view: RobotView, base: Base, now_s: float) -> list[Shape]:
    shapes = []
    for index, light in enumerate(lights(view, now_s)):
        x, y, z = LIGHTS_AT
        z += 0.17 * index
        ball = (0.07, 0.07, 0.07)
        position, above = base.place((x, y, z)), base.place((x, y, z + 0.075))
        shapes.append(Shape(_group(view, "lights"), 2 * index, SPHERE, position, ball, LIGHT[light.level]))
        words = plain(f"{light.name}: {light.text}")
        shapes.append(_text(_group(view, "lights"), 2 * index + 1, above, SMALL_M, WHITE, words))
    return shapes


def _zone(view: RobotView, base: Base, zone: tuple[Sequence[float], Sequence[float]], number: int) -> Shape:
    """The twelve edges of a box."""
    ends = list(zip(*zone, strict=True))  # per axis: lowest and highest
    points = []
    for axis in range(3):
        a, b = (other for other in range(3) if other != axis)
        for first in ends[a]:
            for second in ends[b]:
                for value in ends[axis]:
                    corner = [0.0, 0.0, 0.0]
                    corner[axis], corner[a], corner[b] = value, first, second
                    points.append(base.place(corner))
    colour = RED if view.stopped else ZONE
    return Shape(
        _group(view, "zone"), number, LINE_LIST, ORIGIN, (0.006, 0.0, 0.0), colour, points=tuple(points)
    )


def _group(view: RobotView, part: str) -> str:
    return f"{view.namespace.strip('/')}/{part}"


def _text(group: str, number: int, position: Point, letter_m: float, colour: Colour, text: str) -> Shape:
    return Shape(group, number, TEXT, position, (0.0, 0.0, letter_m), colour, text)


def _height_m(text: str, letter_m: float) -> float:
    return (text.count("\n") + 1) * LINE_M * letter_m + 0.04
