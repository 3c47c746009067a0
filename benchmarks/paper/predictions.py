"""Our scheduler on the paper's workloads: rates and allocation, baselines, System 1's batches, and our options."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.paper.published import (
    BASELINES,
    FLEETS,
    LIBRARY,
    OTHER_HZ,
    P4_HZ,
    PERIODS_MS,
    SECTIONS,
    TABLE_3,
    UNCAPPED,
    Row,
    allocation,
    workload,
)
from rosa_server.scheduler.placement.schedule import Schedule
from rosa_server.scheduler.problem import Need, Problem, TaskClass
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.search.relaxation import upper_bound
from rosa_server.scheduler.search.solve import solve
from rosa_sim.fleet.baselines import solve_baseline
from rosa_sim.fleet.uncapped import uncapped

STATISTICS = ("mean", "p99")  # of the latency in equation (4)


class Choice(NamedTuple):
    """A cell of Figure 14."""

    batch: int
    gain: float  # action rate over that with batches of one

    def __str__(self) -> str:
        return f"batch {self.batch}, {self.gain:.2f}x"


def rate_rows() -> list[Row]:
    """Allocation and throughput, with equation (4) on mean latencies and on p99."""
    points = [("p4", robots, hz) for robots, hz in P4_HZ.items()]
    points += [(name, robots, hz) for (name, robots), hz in OTHER_HZ.items()]
    rows: list[Row] = []
    for name, robots, published in points:
        row: Row = {"Table 3, 4.2, 4.3, actions/s": f"{name.upper()}, {robots} robots", "paper": published}
        row["published in"] = SECTIONS[name, robots]
        for statistic in STATISTICS:
            schedule = solve(workload(name, robots), LIBRARY, Options.paper(loop_statistic=statistic))
            row[f"ours, {statistic} round"] = schedule.action_throughput_hz
            row[f"{statistic}: off by"] = f"{schedule.action_throughput_hz / published - 1:+.1%}"
        batches = {s.batch for s in schedule.servers if s.components == ("system1",)}
        row["S1:S2:safety:monitor"] = allocation(schedule)
        row["paper's"] = TABLE_3[robots] if name == "p4" else "-"
        row["S1 batches"] = sorted(batches)
        rows.append(row)
    return rows


def baseline_rows() -> list[Row]:
    """Baselines and uncapped sending: throughput and whether it is SLO-qualified."""
    rows: list[Row] = []
    for name, robots, hz, qualified, source in BASELINES:
        found = solve_baseline(workload("p4", robots), LIBRARY, name)
        rows.append(_baseline_row(f"{name}, {robots} robots", found, hz, qualified, source))
    for robots, hz, qualified, source in UNCAPPED:
        problem, options = workload("p4", robots), Options.paper()
        found = uncapped(problem, LIBRARY, solve(problem, LIBRARY, options), options)
        rows.append(_baseline_row(f"ROSA uncapped, {robots} robots", found, hz, qualified, source))
    return rows


def _baseline_row(what: str, found: Schedule, hz: float | None, qualified: bool, source: str) -> Row:
    return {
        "P4 uncapped, actions/s": what,
        "paper": "-" if hz is None else hz,
        "ours": found.action_throughput_hz,
        "SLO-qualified in the paper": "yes" if qualified else "no",
        "here": "yes" if found.feasible else "no",
        "section": source,
        "what breaks": "; ".join(refusal.reason for refusal in found.reasons) or "-",
    }


def batching_rows() -> list[Row]:
    """Figure 14: best batch and gain over batch one on one server, without an SLO."""
    rows: list[Row] = []
    for robots in FLEETS:
        row: Row = {"Figure 14, System 1's batch: robots": robots}
        for period in PERIODS_MS:
            need = Need("system1", "nvidia/GR00T-N1.6-3B", 600_000.0, calls_per_action=1.0)
            problem = Problem(1, "NVIDIA H200", (TaskClass("act", robots, period / 1000, (need,)),))
            best = solve(problem, LIBRARY, Options.paper())
            one = solve(problem, LIBRARY, Options.paper(batch_sizes=(1,)))
            gain = best.action_throughput_hz / one.action_throughput_hz
            row[f"period {period} ms"] = Choice(best.servers[0].batch, gain)
        rows.append(row)
    return rows


def ours_rows() -> list[Row]:
    """The paper's scheduler against ours and its options, on all its workloads."""
    variants = {
        "paper": Options.paper(),
        "level packing": Options.paper(packing="level"),
        "and guided": Options(fair_share=0.0),
        "and fair share (default)": Options(),
        "default + sharing": Options(share_components=True),
        "default + dynamic": Options(dynamic_batching=True),
        "default + both": Options(share_components=True, dynamic_batching=True),
    }
    rows: list[Row] = []
    for name in ("p4", "mix2", "mix4"):
        for robots in (16, 32, 64):
            problem = workload(name, robots)
            row: Row = {"schedulers, weighted actions/s": f"{name.upper()}, {robots} robots"}
            for label, options in variants.items():
                row[label] = solve(problem, LIBRARY, options).objective
            for label, options in (("bound", Options()), ("bound, dynamic", Options(dynamic_batching=True))):
                row[label] = upper_bound(problem, LIBRARY, options) or 0.0
            for baseline in ("equal_partition", "weighted_partition"):
                found = solve_baseline(problem, LIBRARY, baseline)
                row[baseline] = found.objective if found.feasible else 0.0
            rows.append(row)
    return rows
