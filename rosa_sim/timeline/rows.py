"""How a run is cut into rows that stay readable, and where labels go so that none covers another. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rosa_sim.timeline.lanes import Mark, RobotLanes, Span, TaskSpan

ROW_S = 24.0  # s, the longest row
LONGER = 0.15  # the last row of an episode may be longer by this share
PAD_S = 0.5  # s, shown before a task begins and after it ended
SAME_S = 3.0  # s, events of one kind that follow each other sooner share a label
MAX_LEVELS = 7


@dataclass(frozen=True)
class TimelineRow:
    """One row of the picture. Its time axis counts from `zero_s`, the start of what it shows a part of."""

    start_s: float
    end_s: float
    zero_s: float
    note: str  # that it goes on from the row before, and what was left out


@dataclass(frozen=True)
class Label:
    """The text of one or several equal events, which begins at the first of them."""

    time_s: float
    kind: str
    text: str


def rows(robots: Sequence[RobotLanes], row_s: float = ROW_S) -> list[TimelineRow]:
    """A row per episode (of several robots: per time in which one works); a long one goes on in the next row."""
    found: list[TimelineRow] = []
    for start_s, end_s in _windows(robots):
        zero_s = min((e.start_s for r in robots for e in r.episodes if e.start_s >= start_s), default=start_s)
        count = max(1, math.ceil((end_s - start_s) / row_s - LONGER))
        quiet_s = 0.0
        for index in range(count):
            from_s = start_s + index * row_s
            to_s = min(end_s, from_s + row_s) if index < count - 1 else end_s
            if index and _quiet(robots, from_s, to_s):
                quiet_s += to_s - from_s
                continue
            left_out = f", after {quiet_s:.0f} s without an event" if quiet_s else ""
            note = f"continued{left_out}" if index else ""
            found.append(TimelineRow(from_s, to_s, zero_s, note))
            quiet_s = 0.0
    return found


def _windows(robots: Sequence[RobotLanes]) -> list[tuple[float, float]]:
    """The times in which a robot has a task, with a margin; the whole recording when none ever has."""
    spans = [span for robot in robots for span in robot.states]
    first_s, last_s = min((s.start_s for s in spans), default=0.0), max((s.end_s for s in spans), default=0.0)
    tasks = sorted(
        (max(first_s, e.start_s - PAD_S), min(last_s, e.end_s + PAD_S))
        for robot in robots
        for e in robot.episodes
    ) or [(first_s, last_s)]
    windows: list[tuple[float, float]] = []
    for start_s, end_s in tasks:
        before_s = windows[-1][1] if windows else start_s
        if start_s < before_s - 2 * PAD_S:  # two robots at the same time
            windows[-1] = (windows[-1][0], max(before_s, end_s))
        elif start_s < before_s:  # two tasks close to each other: only their margins overlap
            middle_s = (start_s + before_s) / 2
            windows[-1] = (windows[-1][0], middle_s)
            windows.append((middle_s, end_s))
        else:
            windows.append((start_s, end_s))
    return windows


def title(robot: RobotLanes, row: TimelineRow, named: bool) -> str:
    """What the robot does in a row: its episodes there, with its name where there are several robots."""
    inside = [
        e for e in robot.episodes if e.start_s < row.end_s - PAD_S / 2 and e.end_s > row.start_s + PAD_S / 2
    ]
    text = ";  ".join(map(_episode, inside)) or "no task"
    who = f"{robot.name}:  " if named else ""
    return who + text + (f"  ({row.note})" if row.note else "")


def _episode(episode: TaskSpan) -> str:
    tries = f" in {episode.attempts} attempts" if episode.attempts > 1 else ""
    why = f" ({episode.why})" if episode.why else ""
    ending = f"{episode.outcome or 'not ended'}{why} after {episode.end_s - episode.start_s:.1f} s{tries}"
    return f"episode {episode.number}: {episode.task.replace('_', ' ')}, {ending}"


def _quiet(robots: Sequence[RobotLanes], start_s: float, end_s: float) -> bool:
    """Nothing begins or ends in this time."""

    def inside(time_s: float) -> bool:
        return start_s <= time_s < end_s

    for robot in robots:
        calls = [bar for bars in robot.calls.values() for bar in bars]
        spans: list[Span] = [*robot.states, *robot.arm, *robot.server, *robot.faults]
        if any(inside(mark.time_s) for mark in robot.marks) or any(inside(bar.start_s) for bar in calls):
            return False
        if any(inside(span.start_s) for span in spans) or any(inside(e.end_s) for e in robot.episodes):
            return False
    return True


def labels(marks: Sequence[Mark], same_s: float = SAME_S) -> list[Label]:
    """One label for each mark, or for all of a series of equal ones; a good component needs no words."""
    series: list[list[Mark]] = []
    newest: dict[tuple[str, str], list[Mark]] = {}
    for mark in marks:
        if mark.kind == "clear":
            continue
        same = newest.get((mark.kind, mark.text))
        if same and mark.time_s - same[-1].time_s <= same_s:
            same.append(mark)
        else:
            newest[mark.kind, mark.text] = [mark]
            series.append(newest[mark.kind, mark.text])
    return [
        Label(marks[0].time_s, marks[0].kind, marks[0].text + (f"  ×{len(marks)}" if len(marks) > 1 else ""))
        for marks in series
    ]


def levels(places: Sequence[tuple[float, float]]) -> list[int]:
    """For labels as (left, right), by their left ends: a level for each, 0 at the top, so that none covers another.

    A label stands below all earlier ones that reach over it, so that no line from a label down to its event crosses a
    text; where that would need more than `MAX_LEVELS`, it takes the first level with room.
    """
    chosen: list[int] = []
    for index, (left, _) in enumerate(places):
        over = {chosen[i] for i in range(index) if places[i][1] > left}
        level = max(over, default=-1) + 1
        if level >= MAX_LEVELS:
            level = next(free for free in range(len(places)) if free not in over)
        chosen.append(level)
    return chosen
