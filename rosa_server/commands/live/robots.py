"""`rosa robots`: who is connected to a running server, where it is served, how close to its deadlines, and what is at
work on the server.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from rosa_server.commands.live.running import add_server, running
from rosa_server.serving.watching.hub import ABOUT, ROBOTS, STATE

LOOK_S = 3.0
NOBODY = "no robot is connected"
TITLES = (
    "robot",
    "task",
    "slot",
    "component",
    "served by",
    "asks /s",
    "planned /s",
    "in time",
    "left of SLO",
    "silent s",
)


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "robots",
        help="list the robots of a running server, their rates and deadline margins",
        description="Watch a running server on this machine for a few seconds and list its robots: calls per second"
        " for each component, the planned rate, the share answered in time, and the smallest share of the"
        " SLO left when an answer left the server. Then list operations in progress, and what is drained"
        " or removed.",
    )
    parser.add_argument("--seconds", type=float, default=LOOK_S, help="how long to watch")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_server(parser)
    return parser


def main(arguments: argparse.Namespace) -> int:
    with running(arguments.server) as server:
        news = list(server.news(max(1.5, arguments.seconds)))
    listed = rows(news)
    if arguments.json:
        print(json.dumps(listed, indent=1))
    else:
        print("\n".join([table(listed) if listed else NOBODY, *at_work(news)]))
    return 0


def rows(news: list[tuple[bytes, Any]]) -> list[dict[str, Any]]:
    """One per component of each robot. Rates are differences of what was told first and last of it."""
    tasks: dict[str, Any] = {}
    first: dict[tuple[str, str], tuple[float, list[Any]]] = {}
    last: dict[tuple[str, str], tuple[float, list[Any], list[Any]]] = {}
    quiet: dict[str, list[Any]] = {}
    for topic, told in news:
        if topic == ABOUT:
            tasks = told["tasks"]
        for robot in told["robots"] if topic == ROBOTS else ():
            quiet[robot[0]] = robot
            for answers in robot[5]:
                key = robot[0], answers[0]
                first.setdefault(key, (told["at_s"], answers))
                worst_ms = min(answers[5], last[key][1][5]) if key in last else answers[5]
                last[key] = told["at_s"], [*answers[:5], worst_ms], robot
    found = []
    for (name, component), (at_s, answers, robot) in sorted(last.items()):
        before_s, before = first[name, component]
        _, slo_ms, answered, in_time, _, worst_ms = answers
        model, _, planned_hz = tasks.get(robot[1], {}).get(component, ["", 0.0, 0.0])
        calls, seconds = answered - before[2], at_s - before_s
        found.append(
            {
                "robot": name,
                "task": robot[1],
                "slot": robot[2],
                "component": component,
                "model": model,
                "server": robot[6].get(component, ""),
                "calls_per_s": round(calls / seconds, 2) if seconds > 0 else None,
                "planned_per_s": planned_hz,
                "in_time": round((in_time - before[3]) / calls, 3) if calls else None,
                "slo_ms": slo_ms,
                "worst_left": round(worst_ms / slo_ms, 3) if slo_ms else None,
                "silent_s": round(robot[3], 1),
            }
        )
    silent = [
        {"robot": name, "task": one[1], "slot": one[2], "silent_s": round(one[3], 1)}
        for name, one in sorted(quiet.items())
        if not one[5]
    ]
    return found + silent


def at_work(news: list[tuple[bytes, Any]]) -> list[str]:
    """A line for each operation, and for what is kept away, as the server told last."""
    told: dict[str, Any] = next(
        (told["at_work"] for topic, told in reversed(news) if topic == STATE and told.get("at_work")), {}
    )
    lines = [
        f"{one['what']} {one['target']} by {one['by']}, for {one['for_s']:.0f} s: {one['doing']}"
        for one in told.get("operations", [])
    ]
    for kept, back in (("drained", "undrain"), ("removed", "admit")):
        lines += [f"{name} is {kept}; `rosa {back} {name}` gives it back" for name in told.get(kept, [])]
    return lines


def table(listed: list[dict[str, Any]]) -> str:
    """For people."""

    def share(value: float | None) -> str:
        return "-" if value is None else f"{value:.0%}"

    def rate(value: float | None) -> str:
        return f"{value:.2f}" if value else "-"

    lines = [TITLES] + [
        (
            one["robot"],
            one["task"],
            one["slot"] or "-",
            one.get("component", "-"),
            one.get("server") or "-",
            rate(one.get("calls_per_s")),
            rate(one.get("planned_per_s")),
            share(one.get("in_time")),
            share(one.get("worst_left")),
            str(one["silent_s"]),
        )
        for one in listed
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
