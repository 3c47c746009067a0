"""Draws robots' timelines with Matplotlib. All lengths are in points; time runs to the right, lanes go down."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.textpath import TextPath

from rosa_contract.config.tasks import GOAL_COUPLED
from rosa_sim.timeline.lanes import SILENT, CallBar, RobotLanes, Span
from rosa_sim.timeline.rows import Label, TimelineRow, labels, levels, rows, title

WIDTH, MARGIN, LEFT = 960.0, 16.0, 108.0
LANE, GAP, LEVEL, AXIS, TITLE = 15.0, 3.0, 14.0, 20.0, 22.0
BETWEEN_ROWS = 14.0
SHORTEST, APART = 1.6, 1.2  # the least width of a call, and the gap to the next
TICK_APART = 3.0  # the least distance of a deadline's tick from the next call
DPI, MAX_PX = 150, 30_000
TEXT, SMALL, HEADING = 9.0, 7.5, 13.0
INK, FAINT, RULE = "#23272e", "#6b7280", "#d5d9df"

CALLS = {"in_time": "#2a9d8f", "missed": "#d1344b", "cancelled": "#a3abb5"}
STATES = {
    "idle": "#eceef1",
    "connecting": "#c9d3df",
    "inferring": "#9cc5ea",
    "executing": "#6db77a",
    "holding": "#f2bd57",
    "returning": "#bda4e6",
    "resetting": "#a189d8",
    "clearing": "#d3c2ef",
    "waiting_for_human": "#e8646f",
}
PLAN = "#dbe4f3"
ARM = {"holding": "#dfe3e8", "playing": "#6db77a", "moving": "#a189d8"}
SERVER = {"connected": "#d3e9e5", "lost": "#e8646f"}
MARKS = {
    "fallback": "#b36b00",
    "refused": "#a3195b",
    "discard": "#59636f",
    "retry": "#6a4cb0",
    "clear": "#2a9d8f",
    "alert": "#c1121f",
    "operator": "#00695c",
    "arm": "#7a3e00",
    "fault": "#8d6400",
    "other": INK,
}
FAULT, RED, UNKNOWN, GRAY = "#f6c945", "#c1121f", "#e3d9c6", "#9aa3ad"
UNWORDED = ("connected", "idle")  # not labelled
STOP_HATCH, SILENT_HATCH = "/////", "...."
LEGEND = {
    "robot": (
        ("waits for the server", STATES["connecting"]),
        ("asks for actions", STATES["inferring"]),
        ("carries them out", STATES["executing"]),
        ("holds: a fallback stopped it", STATES["holding"]),
        ("moves to a pose", STATES["resetting"]),
        ("waits for a human", STATES["waiting_for_human"]),
    ),
    "calls": (
        ("answer in time", CALLS["in_time"]),
        ("missed", CALLS["missed"]),
        ("cancelled", CALLS["cancelled"]),
        ("deadline", "|"),
        ("a fault is on", FAULT),
        ("emergency stop", STOP_HATCH),
        ("nothing was heard", SILENT_HATCH),
    ),
    "arm, server": (
        ("plays a chunk", ARM["playing"]),
        ("moves to a pose", ARM["moving"]),
        ("server connected", SERVER["connected"]),
        ("server lost", SERVER["lost"]),
    ),
}


def draw(robots: Sequence[RobotLanes], picture: Path, name: str) -> None:
    """Write the picture of `robots`, which share one clock; `name` is the run's."""
    shown = rows(robots)
    scale = (WIDTH - LEFT - MARGIN) / max([8.0, *(row.end_s - row.start_s for row in shown)])
    parts = [[_Group(robot, row, scale) for robot in robots] for row in shown]
    heights = [sum(group.height for group in groups) + AXIS + BETWEEN_ROWS for groups in parts]
    height = MARGIN + 2 * TITLE + sum(heights) + LANE * len(LEGEND) + MARGIN
    dpi = min(DPI, 72 * MAX_PX / height)  # coarser for a hundred episodes
    figure = Figure(figsize=(WIDTH / 72, height / 72), dpi=dpi, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(height, 0)
    axes.set_axis_off()
    _heading(axes, robots, name)
    top = MARGIN + 2 * TITLE
    for row, groups, tall in zip(shown, parts, heights, strict=True):
        _row(axes, row, groups, top, scale)
        top += tall
    _legend(axes, top)
    figure.savefig(picture)


def _heading(axes: Axes, robots: Sequence[RobotLanes], run: str) -> None:
    names = ", ".join(robot.name for robot in robots)
    _text(axes, MARGIN, MARGIN + 8, f"{names}: what happened and why", HEADING, weight="bold")
    ends = [episode.outcome or "not ended" for robot in robots for episode in robot.episodes]
    counts = ", ".join(f"{ends.count(end)} {end}" for end in dict.fromkeys(ends))
    text = f"{run};  {len(ends)} episode{'s' * (len(ends) != 1)}: {counts}" if ends else run
    _text(axes, MARGIN, MARGIN + 26, text, TEXT, colour=FAINT)


def _row(axes: Axes, row: TimelineRow, groups: Sequence[_Group], top: float, scale: float) -> None:
    right = LEFT + (row.end_s - row.start_s) * scale
    _axis(axes, row, top + TITLE, top + sum(group.height for group in groups), scale)
    at = top
    for group in groups:
        group.draw(axes, at, right, len(groups) > 1)
        at += group.height


def _axis(axes: Axes, row: TimelineRow, top: float, bottom: float, scale: float) -> None:
    step_s = next(step for step in (1, 2, 5, 10) if step * scale >= 30 or step == 10)
    count = int((row.end_s - row.zero_s) / step_s) + 1
    for tick in range(-1, count):
        x = LEFT + (row.zero_s + tick * step_s - row.start_s) * scale
        if x >= LEFT - 0.1:
            axes.plot([x, x], [top, bottom], color=RULE, lw=0.6, zorder=0)
            _text(axes, x, bottom + 8, f"{tick * step_s} s", SMALL, colour=FAINT, ha="center")


class _Group:
    """One robot in one row: its events, then its lanes."""

    def __init__(self, robot: RobotLanes, row: TimelineRow, scale: float) -> None:
        self.robot, self.row, self.scale = robot, row, scale
        marks = [mark for mark in robot.marks if row.start_s <= mark.time_s <= row.end_s]
        self.marks = marks
        self.labels = labels(marks)
        lefts = [min(self.x(label.time_s), WIDTH - MARGIN - _width(label.text)) for label in self.labels]
        order = sorted(range(len(lefts)), key=lefts.__getitem__)
        places = [(lefts[i] - 3, lefts[i] + _width(self.labels[i].text) + 8) for i in order]
        found = levels(places)
        self.lefts = lefts
        self.levels = dict(zip(order, found, strict=True))
        self.components = sorted(robot.calls, key=_rank)
        self.events_height = TITLE + LEVEL * (max(found, default=-1) + 1) + 6
        self.lanes = 3 + bool(robot.plans) + len(self.components)
        self.height = self.events_height + self.lanes * (LANE + GAP) + 6

    def x(self, time_s: float) -> float:
        inside = min(max(time_s, self.row.start_s), self.row.end_s)
        return LEFT + (inside - self.row.start_s) * self.scale

    def draw(self, axes: Axes, top: float, right: float, named: bool) -> None:
        lanes = top + self.events_height
        bottom = lanes + self.lanes * (LANE + GAP) - GAP
        for span in self._inside(self.robot.faults):
            left = self.x(span.start_s)
            box = Rectangle((left, lanes - 3), self.x(span.end_s) - left, bottom - lanes + 6)
            box.set(facecolor=FAULT, alpha=0.28, edgecolor="none", zorder=0.5)
            axes.add_patch(box)
        words = _cut(title(self.robot, self.row, named), WIDTH - 2 * MARGIN, TEXT + 1)
        _text(axes, MARGIN, top + TITLE / 2, words, TEXT + 1, weight="bold")
        at = self._spans(axes, lanes, "robot", self.robot.states, STATES)
        at = self._plans(axes, at) if self.robot.plans else at
        arm, at = at, self._spans(axes, at, "arm", self.robot.arm, ARM)
        for span in self._inside(self.robot.stopped):
            self._box(axes, arm, span, "none", edge=RED, hatch=STOP_HATCH)
        at = self._spans(axes, at, "server", self.robot.server, SERVER)
        for component in self.components:
            self._calls(axes, at, component, self.robot.calls[component], right)
            at += LANE + GAP
        self._marks(axes, top, lanes, bottom)

    def _plans(self, axes: Axes, top: float) -> float:
        """The words of System 2, cut where there is too little room."""
        _text(axes, LEFT - 8, top + LANE / 2, "plan", TEXT, ha="right")
        for span in self._inside(self.robot.plans):
            left, width = self._box(axes, top, span, PLAN, edge="white")
            if width > 4 * SMALL:
                _text(axes, left + 3, top + LANE / 2, _cut(span.what, width - 6, SMALL), SMALL, zorder=6)
        return top + LANE + GAP

    def _inside(self, spans: Sequence[Span]) -> list[Span]:
        return [span for span in spans if span.start_s < self.row.end_s and span.end_s > self.row.start_s]

    def _spans(
        self, axes: Axes, top: float, name: str, spans: Sequence[Span], colours: dict[str, str]
    ) -> float:
        _text(axes, LEFT - 8, top + LANE / 2, name, TEXT, ha="right")
        for span in self._inside(spans):
            if span.what == SILENT:
                self._box(axes, top, span, "white", edge=GRAY, hatch=SILENT_HATCH)
                continue
            left, width = self._box(axes, top, span, colours.get(span.what, UNKNOWN))
            words = span.what.replace("_", " ")
            if span.what not in UNWORDED and _width(words, SMALL) + 6 < width:
                text = _text(axes, left + width / 2, top + LANE / 2, words, SMALL, ha="center", zorder=6)
                text.set_bbox({"facecolor": colours.get(span.what, UNKNOWN), "edgecolor": "none", "pad": 0.8})
        return top + LANE + GAP

    def _box(
        self, axes: Axes, top: float, span: Span, face: str, edge: str = "none", hatch: str = ""
    ) -> tuple[float, float]:
        left = self.x(span.start_s)
        width = self.x(span.end_s) - left
        box = Rectangle((left, top), width, LANE, facecolor=face, edgecolor=edge, lw=0.6, hatch=hatch)
        axes.add_patch(box)
        return left, width

    def _calls(self, axes: Axes, top: float, name: str, bars: Sequence[CallBar], right: float) -> None:
        _text(axes, LEFT - 8, top + LANE / 2, name, TEXT, ha="right")
        axes.plot([LEFT, right], [top + LANE / 2] * 2, color=RULE, lw=0.6, zorder=0.6)
        for bar, following in zip(bars, [*bars[1:], None], strict=True):
            if bar.start_s >= self.row.end_s or bar.end_s <= self.row.start_s:
                continue
            left = self.x(bar.start_s)
            width = max(SHORTEST, self.x(bar.end_s) - left - APART)
            box = Rectangle((left, top + 2), width, LANE - 4, edgecolor="none")
            box.set(facecolor=CALLS.get(bar.ending, INK), zorder=2)
            axes.add_patch(box)
            x = self.x(bar.deadline_s)
            # At or inside the next call's bar the tick of one that had ended would seem to be that bar's.
            answered = bar.end_s < bar.deadline_s
            taken = answered and following is not None and self.x(following.start_s) < x + TICK_APART
            if self.row.start_s <= bar.deadline_s <= self.row.end_s and not taken:
                axes.plot([x, x], [top + LANE - 5, top + LANE + 1], color=INK, lw=0.9, zorder=3)

    def _marks(self, axes: Axes, top: float, lanes: float, bottom: float) -> None:
        for mark in self.marks:
            x, colour = self.x(mark.time_s), MARKS[mark.kind]
            strong = mark.kind in ("alert", "operator", "fault", "arm")
            axes.plot([x, x], [lanes - 3, bottom], color=colour, lw=1.1 if strong else 0.6, zorder=4)
            axes.plot([x], [lanes - 3], marker="v", ms=4.5, color=colour, zorder=5, mew=0)
        for index, label in enumerate(self.labels):
            middle = top + TITLE + LEVEL * (self.levels[index] + 0.5)
            self._label(axes, label, self.lefts[index], middle, lanes - 3)

    def _label(self, axes: Axes, label: Label, left: float, middle: float, end: float) -> None:
        x, colour = self.x(label.time_s), MARKS[label.kind]
        axes.plot([x, x], [middle - 5, end], color=colour, lw=0.6, zorder=4)
        text = _text(axes, left + 3, middle, label.text, TEXT, colour=colour, zorder=6)
        text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1.0})
        if label.kind in ("alert", "operator"):
            text.set_fontweight("bold")


def _rank(component: str) -> tuple[int, str]:
    """System 2, then System 1, then the others by name."""
    order = [*sorted(GOAL_COUPLED, reverse=True)]
    return (order.index(component) if component in order else len(order), component)


def _legend(axes: Axes, top: float) -> None:
    for line, (lane, entries) in enumerate(LEGEND.items()):
        x, middle = LEFT, top + LANE * (line + 0.5)
        _text(axes, LEFT - 8, middle, lane, SMALL, colour=FAINT, ha="right")
        for text, look in entries:
            box = Rectangle((x, middle - 4), 10, 8, lw=0.6, edgecolor="none", facecolor="none")
            if look == "|":
                axes.plot([x + 5, x + 5], [middle - 4, middle + 4], color=INK, lw=1.0)
            elif look in (STOP_HATCH, SILENT_HATCH):
                box.set(hatch=look, edgecolor=RED if look == STOP_HATCH else GRAY)
            else:
                box.set(facecolor=look)
            axes.add_patch(box)
            _text(axes, x + 14, middle, text, SMALL, colour=FAINT)
            x += 14 + _width(text, SMALL) + 14


def _text(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    size: float,
    colour: str = INK,
    ha: str = "left",
    weight: str = "normal",
    zorder: float = 3,
) -> Text:
    return axes.text(
        x, y, text, size=size, color=colour, ha=ha, va="center_baseline", weight=weight, zorder=zorder
    )


@cache
def _width(text: str, size: float = TEXT) -> float:
    """Width of `text` in points, in bold, which is wider."""
    return float(TextPath((0, 0), text, prop=FontProperties(size=size, weight="bold")).get_extents().width)


def _cut(text: str, room: float, size: float) -> str:
    """`text`, shortened to fit."""
    while _width(text, size) > room:
        text = text[:-2].rstrip(" .;,…") + "…"
    return text
