"""A schedule as a picture: robots of each task on the left, servers as boxes on the right, streams as flows between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rosa_server.scheduler.commands.table import counted, identical_groups, names, served
from rosa_server.scheduler.placement.schedule import Schedule, ServerPlan

COLOURS = {"system1": "#3b75af", "system2": "#c2722b", "safety": "#b03a3a", "monitor": "#4b8b4b"}
OTHER, STANDBY = "#7a6a9a", "#bbbbbb"
MAX_BOXES = 24  # beyond, identical neighbours share a box
TASK, SERVER = (0.1, 2.3), (5.6, 4.3)  # left edge and width of a box


def draw(schedule: Schedule, path: str | Path) -> None:
    """Write the picture; the format follows the file's ending (png, svg, pdf)."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    tasks = list(schedule.robots)
    groups = [[server] for server in schedule.servers]
    if len(groups) > MAX_BOXES:
        groups = identical_groups(schedule.servers)
    height = max(len(groups), 2 * len(tasks))
    figure, axes = pyplot.subplots(figsize=(11, 1.2 + 0.62 * height))
    axes.set_xlim(0, 10)
    axes.set_ylim(-0.2, height + 0.2)
    axes.axis("off")
    task_y = {task: height * (1 - (i + 0.5) / len(tasks)) for i, task in enumerate(tasks)}
    group_y = [height * (1 - (i + 0.5) / len(groups)) for i in range(len(groups))]
    for task, y in task_y.items():
        _task_box(axes, schedule, task, y)
    for group, y in zip(groups, group_y, strict=True):
        _server_box(axes, group, y)
    _flows(axes, groups, task_y, group_y)
    standby = sum(server.standby for server in schedule.servers)
    axes.set_title(
        f"{served(schedule)}, {schedule.gpus} x {schedule.gpu_type}"
        + (f" ({standby} standby)" if standby else "")
        + f", {schedule.action_throughput_hz:.1f} actions/s. Filled: share of maximum throughput. On a line: robots",
        fontsize=9,
    )
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def _box(axes: Any, left: float, width: float, y: float, half: float, **style: Any) -> None:
    from matplotlib.patches import FancyBboxPatch

    axes.add_patch(FancyBboxPatch((left, y - half), width, 2 * half, boxstyle="round,pad=0.02", **style))


def _task_box(axes: Any, schedule: Schedule, task: str, y: float) -> None:
    _box(axes, *TASK, y, 0.45, fc="#eeeeee", ec="#444444")
    rate = schedule.rates_hz.get(task, {}).get("system1", 0.0)
    words = f"{schedule.robots[task]} x {task}\n{rate:.2f} actions/s each"
    axes.text(TASK[0] + TASK[1] / 2, y, words, ha="center", va="center", fontsize=8)


def _server_box(axes: Any, group: list[ServerPlan], y: float) -> None:
    server, ids = group[0], names([one.id for one in group]) + (", each" if len(group) > 1 else "")
    colour = STANDBY if server.standby else _colour(server.components[0])
    left, width = SERVER
    _box(axes, left, width, y, 0.28, fc=colour, ec="#333333", alpha=0.35)
    if server.standby:
        words = f"{ids}: standby for {counted(len(server.covers), 'server')}"
    else:
        _box(axes, left, width * min(1.0, server.utilisation), y, 0.28, fc=colour, ec="none", alpha=0.45)
        batching = "continuous" if server.batching == "continuous" else f"batch {server.batch}"
        worst = "/".join(f"{value:.0f}" for value in server.p99_ms.values())
        words = (
            f"{ids}: {'+'.join(server.components)}, {server.rate_hz:.1f} req/s ({server.utilisation:.0%}), {batching},"
            f" p99 {worst} ms"
        )
    middle = left + width / 2
    axes.text(middle, y + 0.08, words, ha="center", va="center", fontsize=8)
    axes.text(middle, y - 0.14, server.model, ha="center", va="center", fontsize=6.5, color="#333333")


def _flows(axes: Any, groups: list[list[ServerPlan]], task_y: dict[str, float], group_y: list[float]) -> None:
    """A line per task, component and box; those of one box, and those of one task, end beside each other."""
    ends = [
        (
            key.task,
            key.component,
            index,
            count * len(group),
            place,
            len(group[0].streams),
        )
        for index, group in enumerate(groups)
        for place, (key, count) in enumerate(group[0].streams.items())
    ]
    widest = max((count for *_, count, _, _ in ends), default=1)
    of_task = {task: [end for end in ends if end[0] == task] for task in task_y}
    right_x = SERVER[0] - 0.05
    for task, lines in of_task.items():
        for number, (_, component, index, count, place, places) in enumerate(lines):
            y = group_y[index] + 0.2 * _spread(place, places)
            axes.plot(
                [TASK[0] + TASK[1] + 0.05, right_x],
                [task_y[task] + 0.4 * _spread(number, len(lines)), y],
                color=_colour(component),
                alpha=0.6,
                linewidth=0.8 + 4 * count / widest,
                solid_capstyle="round",
            )
            axes.text(
                right_x - 0.1, y, str(count), ha="center", va="center", fontsize=6.5, color=_colour(component),
                bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none"},
            )  # fmt: skip


def _spread(place: int, places: int) -> float:
    """From 1 for the first to -1 for the last of several; 0 for one alone."""
    return 0.0 if places < 2 else 1 - 2 * place / (places - 1)


def _colour(component: str) -> str:
    return COLOURS.get(component, OTHER)
