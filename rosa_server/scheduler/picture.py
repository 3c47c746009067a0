"""A schedule as a picture: robots of each task on the left, servers as boxes on the right, streams as flows between."""

from __future__ import annotations

from pathlib import Path

from rosa_server.scheduler.schedule import Schedule

COLOURS = {"system1": "#3b75af", "system2": "#c2722b", "safety": "#b03a3a", "monitor": "#4b8b4b"}
OTHER, STANDBY = "#7a6a9a", "#bbbbbb"


def draw(schedule: Schedule, path: str | Path) -> None:
    """Write the picture; the format follows the file's ending (png, svg, pdf)."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.patches import FancyBboxPatch

    servers, tasks = schedule.servers, list(schedule.robots)
    height = max(len(servers), 2 * len(tasks))
    figure, axes = pyplot.subplots(figsize=(11, 1.2 + 0.62 * height))
    axes.set_xlim(0, 10)
    axes.set_ylim(-0.2, height + 0.2)
    axes.axis("off")
    spot = {task: height * (1 - (i + 0.5) / len(tasks)) for i, task in enumerate(tasks)}
    for task, y in spot.items():
        axes.add_patch(
            FancyBboxPatch((0.1, y - 0.45), 2.3, 0.9, boxstyle="round,pad=0.02", fc="#eeeeee", ec="#444444")
        )
        rate = schedule.rates_hz.get(task, {}).get("system1", 0.0)
        axes.text(
            1.25,
            y,
            f"{schedule.robots[task]} x {task}\n{rate:.2f} actions/s each",
            ha="center",
            va="center",
            fontsize=8,
        )
    widest = max((sum(s.streams.values()) for s in servers), default=1) or 1
    for i, server in enumerate(servers):
        y = height * (1 - (i + 0.5) / len(servers))
        colour = STANDBY if server.standby else COLOURS.get(server.components[0], OTHER)
        axes.add_patch(
            FancyBboxPatch(
                (5.6, y - 0.28), 4.3, 0.56, boxstyle="round,pad=0.02", fc=colour, ec="#333333", alpha=0.35
            )
        )
        if not server.standby:
            axes.add_patch(
                FancyBboxPatch(
                    (5.6, y - 0.28),
                    4.3 * min(1.0, server.utilisation),
                    0.56,
                    boxstyle="round,pad=0.02",
                    fc=colour,
                    ec="none",
                    alpha=0.45,
                )
            )
        worst = "/".join(f"{value:.0f}" for value in server.p99_ms.values())
        words = (
            f"{server.id}: standby for {len(server.covers)} servers"
            if server.standby
            else f"{server.id}: {'+'.join(server.components)}, {server.rate_hz:.1f} req/s,"
            f" {'continuous' if server.batching == 'continuous' else f'batch {server.batch}'}, p99 {worst} ms"
        )
        axes.text(7.75, y + 0.08, words, ha="center", va="center", fontsize=8)
        axes.text(7.75, y - 0.14, server.model, ha="center", va="center", fontsize=6.5, color="#333333")
        for key, count in server.streams.items():
            task, component = key.rsplit("/", 1)
            axes.plot(
                [2.45, 5.55],
                [spot[task], y],
                color=COLOURS.get(component, OTHER),
                alpha=0.6,
                linewidth=0.8 + 6 * count / widest,
                solid_capstyle="round",
            )
    axes.set_title(
        f"{sum(schedule.robots.values())} robots, {len(servers)} x {schedule.gpu_type},"
        f" {schedule.action_throughput_hz:.1f} actions/s (box fill: share of maximum throughput; line width: robots)",
        fontsize=9,
    )
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
