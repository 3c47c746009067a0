"""What `kairos.py` measured against what is published, and what was tried against what ships."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rosa_contract.config.gateway import FIRST_COME, KAIROS, MIN_ATTAINED_SERVICE, REMAINING_WORK, Gateway
from rosa_sim.kairos.traces import WORKLOADS

FCFS, LAS = FIRST_COME, MIN_ATTAINED_SERVICE
NEW_FIRST = (
    "kairos, new tasks first"  # within their bucket, and without ageing: another reading of Algorithm 1
)
KNOWN = "remaining_work, lengths known"  # from tasks that ended before the run began
BOUND = "clairvoyant"
EDGE_ONLY, CLOUD_ONLY, BOTH = "edge only", "cloud only", "edge and cloud"
# The cloud's server runs nothing while its batch and its answers travel.
HELD_ONLY, HELD_BOTH = "cloud only, held during round trips", "edge and cloud, held during round trips"
# Trials beside remaining_work (`kairos_trials.py`).
GITTINS, NO_KINDS = "Gittins index", "kinds unknown"
LIKE_RANK, HELD_BACK = "batches of like rank", "held back for a full batch"
DRAINS = "smaller batches while few wait"
OPEN_AGE, HALF_AGE = "age as in open fleets", "half the age weight of closed fleets"
LOADS = (0.5, 1.0, 2.0, 3.0, 4.0)
PEAK = LOADS[-1]
DEEP = (8.0, 16.0, 32.0)  # besides, where two tiers are full as well
COMPARED = (2.0, 3.0)  # at which our own order is compared with Kairos
BUCKETS = (2, 5, 10, 20, 0)
FLEET_CLAIMS = (
    (10, 20.4, 21.4),
    (50, 33.9, 37.8),
    (100, 41.0, 42.8),
)  # Figure 14: robots, against both baselines
TIER_CLAIMS = ((36.9, 47.7), (51.9, 67.9))  # Figure 13: lower than the edge alone, than the cloud alone
PLACES = {
    "open": "online",
    "wide": "trials",
    "fleet": "fleet",
    "closed": "closed",
}  # trials -> part to compare with
NOISE = 3.0  # per cent
SLOWER_MS = 108  # of the edge, for one call
KEYS = {"p25_s": "P25", "mean_s": "average", "p95_s": "P95"}

# Table 2: workload and model -> per cent lower than FIFO, than Autellix; each of Kairos, without the dynamic horizon,
# and without the scheduler: P25, average, P95.
Gains = tuple[tuple[float, float, float], ...]
TABLE_2: dict[str, tuple[Gains, Gains]] = {
    "LIBERO/SmolVLA": (
        ((39.5, 31.8, 34.6), (21.1, 10.9, 9.9), (3.9, 16.8, 29.0)),
        ((41.9, 33.1, 36.1), (24.2, 12.5, 11.9), (8.0, 15.1, 25.5)),
    ),
    "LIBERO/XVLA": (
        ((74.5, 51.4, 45.2), (39.4, 17.8, 4.5), (44.6, 41.9, 37.5)),
        ((74.9, 53.7, 46.7), (40.3, 21.6, 7.1), (43.2, 39.4, 36.1)),
    ),
    "LIBERO/Pi0.5": (
        ((76.4, 65.6, 51.9), (57.0, 33.0, 5.7), (58.0, 54.9, 49.6)),
        ((77.4, 66.5, 52.0), (59.0, 34.6, 5.9), (55.8, 53.9, 49.8)),
    ),
    "MetaWorld/SmolVLA": (
        ((86.9, 60.5, 43.0), (59.0, 34.1, 4.3), (49.9, 43.7, 39.3)),
        ((88.4, 63.6, 48.2), (63.5, 39.3, 13.2), (44.5, 41.3, 36.0)),
    ),
    "Isaac/GR00T N1.5": (
        ((59.2, 41.6, 29.0), (41.7, 24.5, 7.6), (24.0, 25.4, 23.4)),
        ((61.6, 43.3, 29.2), (45.2, 26.7, 7.9), (27.5, 24.2, 22.9)),
    ),
    "Bimanual/Pi0.5": (
        ((53.3, 39.9, 22.2), (47.9, 28.1, 4.1), (24.9, 24.3, 18.9)),
        ((55.9, 42.3, 24.6), (50.8, 31.0, 7.0), (23.9, 23.1, 19.8)),
    ),
    "RoboTwin/Fast-WAM": (
        ((57.9, 33.0, 25.7), (29.0, 8.1, 8.0), (46.5, 32.5, 21.7)),
        ((62.4, 36.6, 25.2), (36.6, 12.9, 7.3), (44.2, 34.2, 22.5)),
    ),
    "Bridge/mimic-video": (
        ((52.2, 40.1, 28.5), (51.0, 27.2, 2.8), (36.6, 31.4, 24.5)),
        ((54.6, 41.6, 28.7), (53.4, 29.1, 4.9), (34.9, 30.4, 25.9)),
    ),
}
SAME = (
    "part",
    "workload",
    "load",
    "robots",
    "horizon",
    "scenario",
    "largest_batch",
)  # what two rows are compared by
PAPERS = tuple(workload for workload in WORKLOADS if workload.published)
SYSTEMS = ("Kairos", "static horizons", "dynamic horizons alone")


def find(rows: list[dict[str, Any]], **what: Any) -> dict[str, Any]:
    return next(one for one in rows if all(one.get(key) == value for key, value in what.items()))


def saved(new: dict[str, Any], old: dict[str, Any], key: str = "mean_s") -> float:
    """By how many per cent a latency is lower."""
    return round(100 * (1 - float(new[key]) / float(old[key])), 1)


def published() -> list[dict[str, Any]]:
    """Both halves of Table 2, and what they say of Autellix against FIFO: the quotient of what is left of each."""
    rows = []
    for pair, halves in TABLE_2.items():
        for number, system in enumerate(SYSTEMS):
            row: dict[str, Any] = {"part": "published", "workload": pair, "system": system}
            for against, half in zip(("fifo", "autellix"), halves, strict=True):
                row |= {
                    f"{key}_vs_{against}": value
                    for key, value in zip(KEYS.values(), half[number], strict=True)
                }
            fifo, autellix = halves[0][number], halves[1][number]
            if (
                system == SYSTEMS[0]
            ):  # the only column that is of one system in both halves, with the same horizons
                for key, a, b in zip(KEYS.values(), fifo, autellix, strict=True):
                    row[f"autellix_to_fifo_{key}"] = round((100 - a) / (100 - b), 2)
            rows.append(row)
    return rows


def between(against: int, system: int, key: int) -> tuple[float, float]:
    """The published range over the eight pairs."""
    values = [halves[against][system][key] for halves in TABLE_2.values()]
    return min(values), max(values)


def spread(values: Sequence[float]) -> str:
    """From the least to the greatest."""
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


class Aims:
    """The list of aims, each with what was measured."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []

    def within(
        self,
        words: str,
        values: list[float],
        low: float,
        high: float,
        unit: str = " %",
        highest: Sequence[float] = (),
    ) -> None:
        """Two-sided: every value lies in the published range. `highest`: what no schedule exceeds, for each value."""
        text = f"{spread(values)}{unit}"
        where = [
            word for word, is_so in (("below", min(values) < low), ("above", max(values) > high)) if is_so
        ]
        text += f", {' and '.join(where)} the range" if where else ""
        if highest:
            text += f"; no schedule: more than {spread(highest)}{unit}"
        found = {"aim": f"{words} {low:g} to {high:g}{unit}", "value": text, "holds": not where}
        if highest:
            found["reachable"] = all(one >= low for one in highest)
        self.found.append(found)

    def reached(self, words: str) -> None:
        """Of all aims so far."""
        short = [one["aim"] for one in self.found if "below" in one["value"]]
        self.found.append(
            {
                "aim": words,
                "value": f"{len(self.found) - len(short)} of {len(self.found)}",
                "holds": not short,
            }
        )

    def at_least(self, words: str, values: list[float], low: float, highest: Sequence[float] = ()) -> None:
        """One-sided: our own. `highest`: what no schedule exceeds, for each value."""
        found: dict[str, Any] = {"aim": words, "value": f"{spread(values)} %", "holds": min(values) >= low}
        if highest:
            found["value"] += f"; no schedule: more than {spread(highest)} %"
            found["reachable"] = all(one >= low for one in highest)
        self.found.append(found)


def aims(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Kairos's claims, two-sided; then what an order of our own shall be worth."""
    out = Aims()
    _calibration(out, rows)
    _table_2(out, rows)
    out.reached("every one of the above reaches the lower end of its range")
    _fleets(out, rows)
    _tiers(out, rows)
    _ablations(out, rows)
    _ours(out, rows)
    _factories(out, rows)
    _trials(out, rows)
    return out.found


def _online(
    rows: list[dict[str, Any]], workload: str, load: float, order: str, horizon: str
) -> dict[str, Any]:
    return find(rows, part="online", workload=workload, load=load, order=order, horizon=horizon)


def _calibration(out: Aims, rows: list[dict[str, Any]]) -> None:
    derived = [row for row in published() if "autellix_to_fifo_P25" in row]
    for key, what in KEYS.items():
        ranges = [row[f"autellix_to_fifo_{what}"] for row in derived]
        values = []
        for workload in PAPERS:
            las, fcfs = (_online(rows, workload.name, PEAK, order, "static") for order in (LAS, FCFS))
            values.append(round(las[key] / fcfs[key], 2))
        out.within(f"calibration: Autellix's {what} is FIFO's times", values, min(ranges), max(ranges), "")


def _table_2(out: Aims, rows: list[dict[str, Any]]) -> None:
    for against, order in enumerate((FCFS, LAS)):
        for system, (name, own, horizon) in enumerate(
            (
                (KAIROS, KAIROS, "dynamic"),
                (KAIROS, KAIROS, "static"),
                ("dynamic horizons alone", order, "dynamic"),
            )
        ):
            for number, (key, what) in enumerate(KEYS.items()):
                values = [
                    saved(
                        _online(rows, workload.name, PEAK, own, horizon),
                        _online(rows, workload.name, PEAK, order, "static"),
                        key,
                    )
                    for workload in PAPERS
                ]
                horizons = "" if own is order else f" with {horizon} horizons"
                words = f"{name}{horizons}, peak load: {what} lower than {order} with static ones by"
                out.within(words, values, *between(against, system, number))


def _fleets(out: Aims, rows: list[dict[str, Any]]) -> None:
    for robots, low, high in FLEET_CLAIMS:
        baselines = [
            find(rows, part="fleet", robots=robots, order=order, horizon="static") for order in (FCFS, LAS)
        ]

        def gains(old: list[dict[str, Any]] = baselines, **what: Any) -> list[float]:
            new = find(rows, **what, horizon="dynamic")
            return [saved(new, one) for one in old]

        what: dict[str, Any] = {"robots": robots}
        out.within(
            f"kairos, {robots} robots back to back: average lower than both baselines by",
            gains(part="fleet", **what, order=KAIROS),
            *(low, high),
            highest=gains(part="bound", of="fleet", **what),
        )
        tries = [
            gain
            for one in rows
            if (one.get("robots"), one.get("horizon")) == (robots, "dynamic")
            and (one["part"] == "fleet" or one.get("of") == "fleet")
            and one["part"] != "bound"
            for gain in (saved(one, old) for old in baselines)
        ]
        out.found[-1]["value"] += f"; all that was tried: {spread(tries)} %"
    old = [find(rows, part="edge", edge_ms=SLOWER_MS, order=order) for order in (FCFS, LAS)]
    new = find(rows, part="edge", edge_ms=SLOWER_MS, order=KAIROS)
    words = (
        "kairos, 10 robots, an edge slower by 8 % (chosen by this aim): average lower than both baselines by"
    )
    out.within(words, [saved(new, one) for one in old], *FLEET_CLAIMS[0][1:])
    new = find(rows, part="trials", of="fleet", robots=100, order=HALF_AGE, horizon="dynamic")
    out.at_least(
        f"remaining_work, lengths known, {HALF_AGE}, 100 robots: average lower than both baselines by at least 41 %",
        [saved(new, one) for one in baselines],
        FLEET_CLAIMS[-1][1],
    )


def _tiers(out: Aims, rows: list[dict[str, Any]]) -> None:
    """As published, with a cloud server that is held while a batch travels; and as ROSA serves them: not less."""
    for loads, both, others in (
        (DEEP, HELD_BOTH, (EDGE_ONLY, HELD_ONLY)),
        ((PEAK,), BOTH, (EDGE_ONLY, CLOUD_ONLY)),
    ):
        for other, (low, high) in zip(others, TIER_CLAIMS, strict=True):
            values, highest = [], []
            for load in loads:
                old = find(rows, part="tiers", load=load, servers=other)
                values.append(saved(find(rows, part="tiers", load=load, servers=both), old))
                highest.append(saved(find(rows, part="bound", of="tiers", load=load, servers=both), old))
            at = f"loads {loads[0]:g} to {loads[-1]:g}" if len(loads) > 1 else f"load {loads[0]:g}"
            words = f"kairos, {both}, {at}: average lower than {other} by"
            if both == BOTH:
                out.at_least(f"{words} at least {low:g} %", values, low, highest)
            else:
                out.within(words, values, low, high, highest=highest)


def _ablations(out: Aims, rows: list[dict[str, Any]]) -> None:
    ablated = {
        "part": "ablation",
        "ageing_s": Gateway.order_ageing_s,
        "within": "longest first",
        "horizon": "dynamic",
    }
    by_buckets = {n: find(rows, **ablated, buckets=n or "none")["mean_s"] for n in BUCKETS}
    excess = [100 * (by_buckets[n] / min(by_buckets.values()) - 1) for n in (5, 10)]
    text = ", ".join(f"{n or 'none'}: {mean:.1f} s" for n, mean in by_buckets.items())
    words = "kairos: 5 to 10 buckets are the best for the average (within 2 %), dynamic horizons"
    out.found.append({"aim": words, "value": text, "holds": max(excess) <= 2})
    ablated |= {"buckets": Gateway.order_buckets}
    longest, arrival = find(rows, **ablated), find(rows, **{**ablated, "within": "first come"})
    words = "kairos, longest first within a bucket: P95 lower than in order of arrival by"
    out.within(words, [saved(longest, arrival, "p95_s")], 0.1, 17.9)


def _ours(out: Aims, rows: list[dict[str, Any]]) -> None:
    for horizon in ("static", "dynamic"):
        more, tail = [], []
        for workload in WORKLOADS:
            for load in COMPARED:
                first = _online(rows, workload.name, load, FCFS, horizon)
                best = max(
                    saved(_online(rows, workload.name, load, order, horizon), first)
                    for order in (KAIROS, NEW_FIRST)
                )
                own = _online(rows, workload.name, load, KNOWN, horizon)
                more.append(round(saved(own, first) - best, 1))
                over_ten = {"part": "tail", "workload": workload.name, "load": load, "horizon": horizon}
                own, first = (find(rows, **over_ten, order=order) for order in (KNOWN, FCFS))
                tail.append(saved(own, first, "p95_s"))
        out.at_least(
            f"{KNOWN}, loads 2 and 3, {horizon} horizons: at least 10 points of the average more than the best reading"
            " of Kairos",
            more,
            10.0,
        )
        out.at_least(f"the same: P95 lower than {FCFS}'s, over ten seeds", tail, 0.0)
    for key, what in (("mean_s", "average"), ("p95_s", "P95")):
        worst: list[float] = []
        for row in rows:
            if row["part"] in ("tail", "fleet", "closed", "batches") and row["order"] in (
                REMAINING_WORK,
                KNOWN,
            ):
                same = {name: row[name] for name in SAME if name in row}
                worst.append(saved(row, find(rows, **same, order=FCFS), key))
        words = (
            f"{REMAINING_WORK}, cold and with lengths known: {what} in no row over 3 % worse than {FCFS}'s"
            " (parts tail, fleet, closed, batches)"
        )
        out.at_least(words, worst, -3.0)
    hourly = []
    for row in rows:
        if row["part"] in ("fleet", "closed") and row["order"] in (REMAINING_WORK, KNOWN):
            same = {name: row[name] for name in SAME if name in row}
            hourly.append(round(-saved(row, find(rows, **same, order=FCFS), "tasks_per_hour"), 1))
    out.at_least(
        f"{REMAINING_WORK}, robots back to back and all day: tasks per hour at most 3 % fewer than {FCFS}'s",
        hourly,
        -3.0,
    )


def _factories(out: Aims, rows: list[dict[str, Any]]) -> None:
    """Factories with deadlines lose nothing by the default."""
    found: list[float] = []
    for own in rows:
        if own["part"] == "factory" and own["order"] == REMAINING_WORK:
            first = find(rows, part="factory", scenario=own["scenario"], order=FCFS)
            found += [
                saved(own, first),
                saved(own, first, "p95_s"),
                round(-saved(own, first, "qualified_hz"), 1),
            ]
    words = f"{REMAINING_WORK}, P1 to P4 and Mix4: average, P95 and actions in time at most 3 % worse than {FCFS}'s"
    out.at_least(words, found, -3.0)


def tried(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every trial beside `remaining_work` in the same place: by how many per cent its mean and its P95 are lower, from
    the worst to the best place."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for one in rows:
        if one["part"] != "trials" or one["of"] not in PLACES or one["order"] in (FCFS, REMAINING_WORK):
            continue
        same = {name: one[name] for name in SAME if name in one and name != "part"}
        own = KNOWN if one["lengths_known"] else REMAINING_WORK
        what = {"part": "trials", "of": "wide", "order": REMAINING_WORK}
        ours = find(
            rows, **same, **what if one["of"] == "wide" else {"part": PLACES[one["of"]], "order": own}
        )
        gains = found.setdefault((one["order"], one["of"]), {"mean": [], "P95": [], "tasks_per_hour": []})
        gains["mean"].append(saved(one, ours))
        gains["P95"].append(saved(one, ours, "p95_s"))
        gains["tasks_per_hour"].append(round(-saved(one, ours, "tasks_per_hour"), 1))
    return [
        {"trial": trial, "of": of, "places": len(gains["mean"])}
        | {key: [min(values), max(values)] for key, values in gains.items()}
        for (trial, of), gains in found.items()
    ]


def _trials(out: Aims, rows: list[dict[str, Any]]) -> None:
    """None of them should ship instead."""
    by_trial: dict[str, list[dict[str, Any]]] = {}
    for one in tried(rows):
        by_trial.setdefault(one["trial"], []).append(one)
    for trial, places in by_trial.items():
        texts = [
            f"{one['of']}: average {spread(one['mean'])} %, P95 {spread(one['P95'])} % lower"
            for one in places
        ]
        worst = min(min(*one["mean"], *one["P95"]) for one in places)
        best = max(max(*one["mean"], *one["P95"]) for one in places)
        words = f"{trial}: not better than remaining_work by {NOISE:g} % somewhere and nowhere worse, or it would ship"
        out.found.append({"aim": words, "value": "; ".join(texts), "holds": worst < -NOISE or best <= NOISE})
