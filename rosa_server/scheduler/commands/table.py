"""A schedule as text that a factory engineer can read on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from rosa_server.scheduler.placement.schedule import Schedule, ServerPlan
from rosa_server.scheduler.placement.standby import failover_table
from rosa_server.scheduler.problem import Problem, StreamClass
from rosa_server.scheduler.running.migration import Migration


def as_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows, the first being the header, in aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def render(schedule: Schedule, problem: Problem, expected_hz: float = 0.0) -> str:
    """The whole schedule of `problem`, or the refusal. `expected_hz`: actions per second as it is carried out."""
    robots = served(schedule)
    if not schedule.feasible and not schedule.servers:
        lines = [f"NOT FEASIBLE: {robots} on {schedule.gpu_type}"]
        return "\n".join(lines + [f"  - {refusal.reason}" for refusal in schedule.reasons])
    standby = sum(server.standby for server in schedule.servers)
    split = ", ".join(f"{name} {count}" for name, count in schedule.servers_by_component().items())
    parts = [
        ("" if schedule.feasible else "NOT FEASIBLE: ")
        + f"{robots} on {schedule.gpus - standby} x {schedule.gpu_type} ({split}), {standby} standby,"
        f" {schedule.idle_servers} unused, by {schedule.scheduler}",
        f"{schedule.action_throughput_hz:.1f} actions/s"
        + (
            ""
            if schedule.objective == schedule.action_throughput_hz
            else f", weighted {schedule.objective:.1f}"
        )
        + ("" if schedule.capped else ", robots send as fast as they can")
        + _more(schedule, expected_hz),
    ]
    if schedule.reasons:
        parts.append("PROBLEMS\n" + "\n".join(f"  - {refusal.reason}" for refusal in schedule.reasons))
    parts += [
        _rates(schedule, problem),
        *_turns(schedule),
        as_table([SERVER_COLUMNS, *map(_server_row, identical_groups(schedule.servers))]),
    ]
    if schedule.limits:
        parts.append("What limits the rates\n" + "\n".join(f"  - {line}" for line in schedule.limits))
    if standby:
        covered = failover_table(schedule).items()
        rows = [
            (
                names([name for name, _ in group]),
                " then ".join(covers) or "none: its robots fall back locally",
            )
            for covers, group in groupby(covered, key=lambda item: item[1])
        ]
        parts.append(as_table([("if one of these fails", "its streams go to"), *rows]))
    return "\n\n".join(parts)


def _turns(schedule: Schedule) -> list[str]:
    """Which models share GPUs."""
    found: dict[str, list[str]] = {}
    for server in schedule.servers:
        if server.gpu:
            found.setdefault(server.gpu, []).append("+".join(server.components))
    return [
        f"Models take turns, one batch at a time: {', '.join(words)} on {gpu}" for gpu, words in found.items()
    ]


def counted(count: int, thing: str) -> str:
    """`1 robot`, `2 robots`."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def served(schedule: Schedule) -> str:
    """`32 robots`, or `8 of 32 robots` for a baseline whose servers do not suffice for all."""
    count, asked = sum(schedule.robots.values()), len(schedule.routing)
    return counted(count, "robot") if asked <= count else f"{count} of {counted(asked, 'robot')}"


def identical_groups(servers: Sequence[ServerPlan]) -> list[list[ServerPlan]]:
    """Neighbouring servers that differ in their names only, together."""
    return [list(group) for _, group in groupby(servers, key=lambda server: replace(server, id=""))]


def names(ids: Sequence[str]) -> str:
    """`gpu0 to gpu2, gpu5`: numbers that follow each other are joined, whatever order the names come in."""
    runs: list[list[tuple[str, int]]] = []
    for stem, number in sorted(_numbered(name) for name in ids):
        if runs and number >= 0 and runs[-1][-1] == (stem, number - 1):
            runs[-1].append((stem, number))
        else:
            runs.append([(stem, number)])
    ends = [list(dict.fromkeys((run[0], run[-1]))) for run in runs]
    return ", ".join(
        " to ".join(stem if number < 0 else f"{stem}{number}" for stem, number in end) for end in ends
    )


def _numbered(name: str) -> tuple[str, int]:
    """`gpu12` -> (`gpu`, 12); -2 for a name without a number, or with one that would be written otherwise."""
    stem = name.rstrip("0123456789")
    digits = name[len(stem) :]
    return (stem, int(digits)) if digits and digits == str(int(digits)) else (name, -2)


def _more(schedule: Schedule, expected_hz: float) -> str:
    if expected_hz <= schedule.action_throughput_hz * 1.001:
        return ""
    return f" for any arrivals, {expected_hz:.1f} expected as the server carries it out (below)"


def render_migration(migration: Migration) -> str:
    """The steps from one schedule to another, in order."""
    lines = []
    for number, step in enumerate(migration.steps, start=1):
        rates = ", ".join(f"{task} {rate:.2f} Hz" for task, rate in step.rates_hz)
        what = {
            "lower_rates": f"robots act at {rates}",
            "raise_rates": f"robots act at {rates}",
            "start": f"load {step.model} on {step.server} and wait until it is warm",
            "switch": f"route {len(step.routes)} streams to their new servers",
            "stop": f"unload {step.model} from {step.server}, which has no streams any more",
            "drain": f"take {step.server} from {len(step.routes)} streams, which fall back locally until a later step",
        }[step.action]
        busy = f"; {names(step.overloads)} cannot keep every SLO from here on" if step.overloads else ""
        lines.append(f"  {number}. {what}{busy}")
    streams = len(migration.interrupted)
    gap = (
        f"{streams} streams are without a server meanwhile"
        if streams
        else "no stream is without a server meanwhile"
    )
    if not any(step.overloads for step in migration.steps):
        gap += ", and every SLO is kept"
    return f"Steps from the older schedule ({gap}):\n" + "\n".join(lines)


def _rates(schedule: Schedule, problem: Problem) -> str:
    rows = [
        ("task", "robots", "component", "calls/s per robot", "period ms", "mean ms", "p99 ms", "slo ms"),
    ]
    for task, rates in schedule.rates_hz.items():
        for index, (component, rate) in enumerate(rates.items()):
            mean, p99 = _latency(schedule, task, component)
            first = (task, str(schedule.robots[task])) if index == 0 else ("", "")
            period = f"{1000 / rate:.0f}" if rate > 0 else "-"
            slo = f"{problem.needs[StreamClass(task, component)].slo_ms:g}"
            rows.append((*first, component, f"{rate:.3g}", period, mean, p99, slo))
    return as_table(rows)


def _latency(schedule: Schedule, task: str, component: str) -> tuple[str, str]:
    """Stream-weighted mean of the means, and the worst p99, over the servers of a component."""
    key = StreamClass(task, component)
    total, streams, worst = 0.0, 0, 0.0
    for server in schedule.servers:
        count = server.streams.get(key, 0)
        if count and component in server.mean_ms:
            total += count * server.mean_ms[component]
            streams += count
            worst = max(worst, server.p99_ms[component])
    return (f"{total / streams:.0f}", f"{worst:.0f}") if streams else ("-", "-")


SERVER_COLUMNS = (
    "server", "model", "answers", "batching", "robots on each", "req/s", "used", "mean ms", "p99 ms"
)  # fmt: skip


def _server_row(group: Sequence[ServerPlan]) -> tuple[str, ...]:
    server, ids = group[0], names([one.id for one in group])
    if server.standby:
        return (ids, server.model, f"standby for {len(server.covers)} of the others", "", "", "", "", "", "")
    batching = "continuous" if server.batching == "continuous" else f"{server.batching} {server.batch}"
    batching = f"{batching} {server.engine}".strip()
    return (
        ids,
        server.model,
        "+".join(server.components),
        batching,
        ", ".join(_stream(server, key, count) for key, count in server.streams.items()),
        f"{server.rate_hz:.1f}",
        f"{server.utilisation:.0%}",
        "/".join(f"{value:.0f}" for value in server.mean_ms.values()),
        "/".join(f"{value:.0f}" for value in server.p99_ms.values()),
    )


def _stream(server: ServerPlan, key: StreamClass, count: int) -> str:
    """`5 pick`; with the component where the server answers several."""
    return f"{count} {key.task}" if len(server.components) == 1 else f"{count} {key.task} ({key.component})"
