"""What the orders of the queue are worth, for docs/scheduler.md: from benchmarks/results/kairos.json."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from typing import Any

from benchmarks import RESULTS

Row = dict[str, Any]
FCFS, KAIROS, NEW_FIRST = "first_come", "kairos", "kairos, new tasks first"
OURS, KNOWN, KNOWS = "remaining_work", "remaining_work, lengths known", "clairvoyant"
HORIZONS = ("static", "dynamic")
ORDERS = {
    FCFS: "`first_come`",
    "least_attained_service": "`least_attained_service`",
    KAIROS: "`kairos`",
    NEW_FIRST: "`kairos`, new tasks first",
    OURS: "`remaining_work`, from nothing",
    KNOWN: "`remaining_work`, 400 tasks before",
    KNOWS: "one that knows the future",
}
PUBLISHED = ("simulator", "bimanual")  # workloads whose horizons are published
PLACES = {
    "open": "tasks that come, loads 1 to 3",
    "wide": "batches of up to 8",
    "fleet": "sets of 200 tasks, 10 to 100 robots",
    "closed": "50 robots that work all day",
}


class Figures:
    """The rows, and what is asked of them."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows

    def all(self, **what: Any) -> list[Row]:
        return [row for row in self._rows if all(row.get(key) == value for key, value in what.items())]

    def one(self, **what: Any) -> Row:
        return self.all(**what)[0]

    def gains(self, chosen: Iterable[Row], key: str = "mean_s", **other: Any) -> list[float]:
        """By how many per cent the rows are lower than those that differ from them in `other`."""
        same = ("part", "workload", "load", "robots", "horizon")
        found = []
        for row in chosen:
            old = self.one(**({name: row[name] for name in same if name in row} | other))
            found.append(100 * (1 - row[key] / old[key]))
        return found


def span(values: Iterable[float], digits: int = 0) -> str:
    """From the least to the greatest, as a reader says it."""
    found = list(values)
    low, high = (
        f"{abs(value) if round(value, digits) == 0 else value:.{digits}f}"
        for value in (min(found), max(found))
    )
    return low if low == high else f"{low} to {high}"


def lines() -> list[str]:
    """All of it."""
    result = json.loads((RESULTS / "kairos.json").read_text())
    figures = Figures(result["rows"])
    return [
        *sentences(figures, result["aims"]),
        "",
        *open_table(figures),
        "",
        *closed_table(figures),
        "",
        *claims(result["aims"]),
        "",
        *tried(result["tried"]),
    ]


def sentences(figures: Figures, aims: list[Row]) -> list[str]:
    """The first things that one wants to know."""
    peak = max(row["load"] for row in figures.all(part="online"))

    def online(order: str, horizon: str, loads: tuple[float, ...], *workloads: str) -> list[Row]:
        rows = figures.all(part="online", order=order, horizon=horizon)
        return [
            row for row in rows if row["load"] in loads and (not workloads or row["workload"] in workloads)
        ]

    def over_first(order: str, horizon: str, key: str = "mean_s") -> list[float]:
        return figures.gains(online(order, horizon, (2.0, 3.0)), key, order=FCFS)

    reached = next(aim for aim in aims if aim["aim"].startswith("every one of the above"))
    above = sum("above the range" in aim["value"] for aim in aims[: aims.index(reached)])
    kairos = {
        horizon: figures.gains(online(KAIROS, horizon, (peak,), *PUBLISHED), order=FCFS, horizon="static")
        for horizon in HORIZONS
    }
    more = [
        ours - max(readings)
        for ours, *readings in zip(
            *(over_first(order, "static") for order in (KNOWN, KAIROS, NEW_FIRST)), strict=True
        )
    ]
    nobody = [
        100 * (1 - figures.one(part="bound", of="online", **same)["mean_s"] / row["mean_s"])
        for row in online(FCFS, "static", (2.0, 3.0))
        for same in [{name: row[name] for name in ("workload", "load", "horizon")}]
    ]
    tails = [row for order in (OURS, KNOWN) for row in figures.all(part="tail", order=order)]
    closed = [row for order in (OURS, KNOWN) for row in figures.all(part="closed", order=order)]
    hourly = [-gain for gain in figures.gains(closed, "tasks_per_hour", order=FCFS)]
    moved = [abs(gain) for gain in figures.gains(closed, order=FCFS)]
    slack = [
        100
        * (
            1
            - figures.one(part="bound", of="closed", robots=row["robots"], horizon=row["horizon"])["mean_s"]
            / row["mean_s"]
        )
        for row in figures.all(part="closed", order=FCFS)
    ]
    edge, both = (
        figures.one(part="tiers", load=peak, servers=servers) for servers in ("edge only", "edge and cloud")
    )
    learned = {
        ended: figures.one(part="learning", workload="simulator", ended_before=ended)["mean_s"]
        for ended in (0, 30, 100, 400)
    }
    worth = [100 * (learned[0] - learned[ended]) / (learned[0] - learned[400]) for ended in (30, 100)]
    tail = max(0.0, -min(figures.gains(tails, "p95_s", order=FCFS)))
    cloud = 100 * (1 - both["mean_s"] / edge["mean_s"])
    said = (
        f"`kairos` reaches the lower end of {reached['value']} ranges (Table 2, and Autellix's calibration) at the peak"
        f" load of {peak:g}, on both workloads whose horizons are published; {above} values lie above their range. Over"
        f" `first_come` with static horizons it brings {span(kairos['static'])} % of the mean, with dynamic ones"
        f" {span(kairos['dynamic'])} %.",
        f"`remaining_work` brings {span(over_first(KNOWN, 'static'))} % of the mean at loads 2 and 3 with static"
        f" horizons when 400 tasks have ended before: {span(more)} points more than the better reading of Kairos, with"
        f" a P95 lower by {span(over_first(KNOWN, 'static', 'p95_s'))} %. Starting from nothing it brings"
        f" {span(over_first(OURS, 'static'))} %. An order that knows the future brings"
        f" {span(over_first(KNOWS, 'static'))} %, and no schedule more than {span(nobody)} %"
        " (`rosa_sim/kairos/lower_bound.py`).",
        f"After 30 ended tasks it has {worth[0]:.0f} % of what known lengths are worth at load 3, after 100"
        f" {worth[1]:.0f} %.",
        f"Over ten seeds its P95 is nowhere more than {tail:.1f} % above that of `first_come`, whatever the load.",
        "In fleets that work all day (40 tasks for each robot) order moves the mean by little:"
        f" `remaining_work` by at most {max(moved):.1f} %, no schedule by more than {max(slack):.1f} %. It ends"
        f" {-min(hourly):.1f} % fewer to {max(hourly):.1f} % more tasks per hour than `first_come`, with a P95 lower by"
        f" {span(figures.gains(closed, 'p95_s', order=FCFS))} %.",
        f"A cloud server behind a link of 100 ms each way takes {cloud:.0f} % off the mean of an overloaded edge server"
        f" at load {peak:g}.",
    )
    return [line for one in said for line in textwrap.wrap(f"- {one}", 118, subsequent_indent="  ")]


COLUMNS: tuple[tuple[str, str], ...] = (
    ("mean s", "mean_s"),
    ("P95 s", "p95_s"),
    ("stands still s", "stall_s"),
    ("at most in a task s", "longest_stall_s"),
    ("longest wait of a call s", "longest_wait_s"),
)


def _table(figures: Figures, columns: tuple[tuple[str, str], ...], place: Row, bound: Row) -> list[str]:
    """Every order, static horizons / dynamic ones; last what no schedule is below."""

    def cell(key: str, **what: Any) -> str:
        values = (figures.one(**what, horizon=horizon)[key] for horizon in HORIZONS)
        return " / ".join(f"{value:,.{0 if key == 'tasks_per_hour' else 1}f}" for value in values)

    found = [f"| order | {' | '.join(name for name, _ in columns)} |", f"|---|{'---|' * len(columns)}"]
    for order, name in ORDERS.items():
        cells = [cell(key, **place, order=order) for _, key in columns]
        found.append(f"| {name} | {' | '.join(cells)} |")
    mean = cell("mean_s", part="bound", **bound)
    return [*found, f"| no schedule is below | {mean} |{' |' * (len(columns) - 1)}"]


def open_table(figures: Figures) -> list[str]:
    """Under overload."""
    where = {"workload": "simulator", "load": 3.0}
    return [
        "Tasks that come at three times what static horizons let the server carry (static horizons / dynamic ones;",
        "a robot *stands still* when it has nothing to carry out):",
        "",
        *_table(figures, COLUMNS, {"part": "online", **where}, {"of": "online", **where}),
    ]


def closed_table(figures: Figures) -> list[str]:
    """A fleet that always works."""
    columns = (*COLUMNS[:4], ("tasks per hour", "tasks_per_hour"))
    return [
        "Fifty robots that work all day:",
        "",
        *_table(figures, columns, {"part": "closed", "robots": 50}, {"of": "closed", "robots": 50}),
    ]


def claims(aims: list[Row]) -> list[str]:
    """Kairos's claims about fleets and tiers beside what is possible."""
    shown = [aim for aim in aims if "reachable" in aim]
    found = [
        "| claim about fleets and tiers | here | within its range | no schedule gains more than |",
        "|---|---|---|---|",
    ]
    for aim in shown:
        here, _, limit = aim["value"].partition("; no schedule: more than ")
        within = "yes" if aim["holds"] else "no" if aim["reachable"] else "no, out of reach"
        found.append(f"| {aim['aim']} | {here.split(',')[0]} | {within} | {limit.partition(';')[0]} |")
    return found


def tried(trials: list[Row]) -> list[str]:
    """What does not ship, beside `remaining_work` in the same places."""
    found = [
        "Tried instead of `remaining_work`: by how many per cent mean and P95 are lower (below 0: higher), from the",
        "worst place to the best. None is better somewhere by 3 % without being worse elsewhere, so none ships.",
        "",
        "| tried | where | mean | P95 |",
        "|---|---|---|---|",
    ]
    for one in trials:
        place = f"{PLACES[one['of']]} ({one['places']} rows)"
        found.append(f"| {one['trial']} | {place} | {span(one['mean'], 1)} | {span(one['P95'], 1)} |")
    return found
