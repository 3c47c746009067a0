"""ROSA's scheduler with the derived H200 profiles, against every schedule that the ROSA paper publishes.

    python benchmarks/paper_schedules.py

Prints the tables and writes benchmarks/results/paper_schedules.json and .png.

The profiles were fitted to latencies and throughputs of sections 4.2 and 4.3, not to Table 3. Fitted points are marked.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rosa_contract.config import load_factory
from rosa_server.scheduler.baselines import solve_baseline, uncapped
from rosa_server.scheduler.bound import upper_bound
from rosa_server.scheduler.catalog import Catalog, Options
from rosa_server.scheduler.library import ProfileLibrary
from rosa_server.scheduler.packing import Packer
from rosa_server.scheduler.placement import demands_of, kinds_of, latencies_ms, loop_rate_hz, workers_of
from rosa_server.scheduler.problem import Need, Problem, TaskClass, problem_from
from rosa_server.scheduler.schedule import Schedule
from rosa_server.scheduler.solve import solve

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "paper_schedules"
LIBRARY = ProfileLibrary()
ORDER = ("system1", "system2", "safety", "monitor")
TABLE_3 = {8: "5:1:1:1", 16: "5:1:1:1", 32: "5:1:1:1", 64: "4:1:2:1"}
# Actions/s. 8, 32, 64: section 4.2 and 4.3. 16 is not published: 1.26 (Figure 12) times the best static allocation,
# which is bound by its two System 1 servers, as at 32 robots, where it is 89.4 / 2.20.
P4_HZ = {8: 23.9, 16: 1.26 * 89.4 / 2.20, 32: 89.4, 64: 78.8}
OTHER_HZ = {("p2", 32): 106.9, ("p3", 32): 106.9}
PERIODS_MS, FLEETS = (50, 100, 200, 400, 800), (1, 2, 4, 8, 16, 32)
WITHIN = 0.15

Row = dict[str, object]


def workload(name: str, robots: int) -> Problem:
    return problem_from(load_factory(ROOT / "configs" / "paper" / f"{name}.yaml")).scaled_to(robots)


def allocation(schedule: Schedule) -> str:
    """S1:S2:safety:monitor as in Table 3."""
    counts = schedule.servers_by_component()
    return ":".join(str(counts.get(component, 0)) for component in ORDER)


def rate_rows() -> list[Row]:
    """Allocation and throughput, with equation (4) on mean latencies and on p99."""
    rows: list[Row] = []
    points = [("p4", robots, hz) for robots, hz in P4_HZ.items()] + [
        (n, r, hz) for (n, r), hz in OTHER_HZ.items()
    ]
    for name, robots, published in points:
        row: Row = {
            "what": f"{name.upper()}, {robots} robots",
            "paper_hz": published,
            "robots": robots,
            "task": name,
        }
        for statistic in ("mean", "p99"):
            schedule = solve(workload(name, robots), LIBRARY, Options.paper(loop_statistic=statistic))
            row[f"{statistic}_hz"] = schedule.action_throughput_hz
            row[f"{statistic}_off"] = schedule.action_throughput_hz / published - 1
            row["allocation"] = allocation(schedule)
            batches = {s.batch for s in schedule.servers if s.components == ("system1",)}
            row["system1_batches"] = sorted(batches)
        row["paper_allocation"] = TABLE_3[robots] if name == "p4" else ""
        rows.append(row)
    return rows


def baseline_rows() -> list[Row]:
    """Baselines and uncapped sending: throughput and whether it is SLO-qualified."""
    published = [
        ("equal_partition", 8, 29.5, True, "4.2"),
        ("equal_partition", 32, None, False, "4.2, 4.3"),
        ("weighted_partition", 16, None, False, "4.3"),
        ("weighted_partition", 64, None, False, "4.3: safety SLO infeasible"),
        ("gpu_per_model", 2, 7.4, True, "4.2, fitted"),
        ("gpu_per_robot", 8, None, False, "4.2: no qualified point"),
    ]
    rows: list[Row] = []
    for name, robots, hz, qualified, source in published:
        found = solve_baseline(workload("p4", robots), LIBRARY, name)
        rows.append(_baseline_row(f"{name}, {robots} robots", found, hz, qualified, source))
    for robots, hz, qualified in ((32, 107.3, True), (64, 145.5, False)):
        options = Options.paper()
        found = uncapped(
            workload("p4", robots), LIBRARY, solve(workload("p4", robots), LIBRARY, options), options
        )
        source = "4.3" if robots == 32 else "4.3, raw rate fitted"
        rows.append(_baseline_row(f"ROSA uncapped, {robots} robots", found, hz, qualified, source))
    return rows


def _baseline_row(what: str, found: Schedule, hz: float | None, qualified: bool, source: str) -> Row:
    return {
        "what": what,
        "paper_hz": hz,
        "hz": found.action_throughput_hz,
        "paper_qualified": qualified,
        "qualified": found.feasible,
        "source": source,
        "reason": "; ".join(found.reasons),
    }


def static_hz(robots: int, shares: Sequence[int]) -> float:
    """P4 throughput under a fixed allocation with ROSA's batching and rate control (Figure 12); 0 = infeasible."""
    problem = workload("p4", robots)
    catalog = Catalog(problem, LIBRARY, Options.paper())
    cls = problem.classes[0]
    counts = dict(zip(ORDER, shares, strict=True))
    low, high = 0.0, 1 / cls.action_s
    for _ in range(14):
        rate = (low + high) / 2
        workers = []
        for kind in kinds_of(problem, share_components=False):
            packer = Packer(catalog, kind, demands_of(problem, kind, {cls.name: rate}))
            bins = packer.pack(counts[kind.components[0]])
            placed = None if bins is None else workers_of(catalog, kind, bins)
            if placed is None:
                break
            workers += placed
        else:
            if rate <= loop_rate_hz(cls, latencies_ms(workers)):
                low = rate
                continue
        high = rate
    return low * robots


def static_rows() -> list[Row]:
    published = {8: "similar", 16: "1.26", 32: "2.20", 64: ""}
    rows: list[Row] = []
    for robots in TABLE_3:
        ours = solve(workload("p4", robots), LIBRARY, Options.paper()).action_throughput_hz
        equal, weighted = static_hz(robots, (2, 2, 2, 2)), static_hz(robots, (1, 3, 1, 3))
        rows.append(
            {
                "robots": robots,
                "rosa_hz": ours,
                "equal_hz": equal,
                "weighted_hz": weighted,
                "gain": ours / max(equal, weighted),
                "paper_gain": published[robots],
            }
        )
    return rows


def batching_rows() -> list[Row]:
    """Figure 14: best batch and gain over batch one on one server, without an SLO."""
    rows: list[Row] = []
    for robots in FLEETS:
        row: Row = {"robots": robots}
        for period in PERIODS_MS:
            need = Need("system1", "nvidia/GR00T-N1.6-3B", 600_000.0, calls_per_action=1.0)
            problem = Problem(1, "NVIDIA H200", (TaskClass("act", robots, period / 1000, (need,)),))
            best = solve(problem, LIBRARY, Options.paper())
            one = solve(problem, LIBRARY, Options.paper(batch_sizes=(1,)))
            row[f"{period} ms"] = [
                best.servers[0].batch,
                best.action_throughput_hz / one.action_throughput_hz,
            ]
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
            row: Row = {"what": f"{name.upper()}, {robots} robots"}
            for label, options in variants.items():
                row[label] = solve(problem, LIBRARY, options).objective
            for label, options in (("bound", Options()), ("bound, dynamic", Options(dynamic_batching=True))):
                row[label] = upper_bound(problem, LIBRARY, options) or 0.0
            row["equal_partition"] = _qualified(solve_baseline(problem, LIBRARY, "equal_partition"))
            row["weighted_partition"] = _qualified(solve_baseline(problem, LIBRARY, "weighted_partition"))
            rows.append(row)
    return rows


def _qualified(schedule: Schedule) -> float:
    return schedule.objective if schedule.feasible else 0.0


def aims_of(rates: list[Row], batching: list[Row], baselines: list[Row]) -> list[Row]:
    p4 = [row for row in rates if row["task"] == "p4"]
    same = [row for row in p4 if row["allocation"] == row["paper_allocation"]]
    aims: list[Row] = [
        {
            "aim": "Table 3's allocation at 8, 16, 32, 64 robots",
            "value": f"{len(same)} of {len(p4)}",
            "holds": len(same) == len(p4),
        }
    ]
    for statistic, note in (("mean", "equation (4), mean latency"), ("p99", "4.2's P99-safe prediction")):
        worst = max(p4, key=lambda row: abs(float(str(row[f"{statistic}_off"]))))
        off = float(str(worst[f"{statistic}_off"]))
        aims.append(
            {
                "aim": f"P4 rates within 15 % of the paper's, {note}",
                "value": f"{off:+.1%} at {worst['what']}",
                "holds": abs(off) <= WITHIN,
            }
        )
    cell = next(row for row in batching if row["robots"] == 16)["50 ms"]
    light = next(row for row in batching if row["robots"] == 1)
    assert isinstance(cell, list)
    aims.append(
        {
            "aim": "Figure 14: batch 16 at 16 robots and 50 ms (2.46x in the paper)",
            "value": f"batch {cell[0]}, {cell[1]:.2f}x",
            "holds": cell[0] == 16,
        }
    )
    ones = [light[f"{period} ms"] for period in PERIODS_MS]
    aims.append(
        {
            "aim": "Figure 14: batch one for one robot",
            "value": str([c[0] for c in ones if isinstance(c, list)]),
            "holds": all(isinstance(c, list) and c[0] == 1 for c in ones),
        }
    )
    right = [row for row in baselines if row["qualified"] == row["paper_qualified"]]
    aims.append(
        {
            "aim": "baselines are SLO-qualified where the paper's are",
            "value": f"{len(right)} of {len(baselines)}",
            "holds": len(right) == len(baselines),
        }
    )
    return aims


def markdown(
    rates: list[Row],
    baselines: list[Row],
    static: list[Row],
    batching: list[Row],
    ours: list[Row],
    aims: list[Row],
) -> str:
    def table(head: Sequence[str], body: list[list[str]]) -> str:
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in body])

    parts = [
        "Profiles: `configs/profiles/h200/`, derived (nothing here was measured on an H200). Throughputs in actions/s."
    ]
    parts.append(
        table(
            ["aim", "result", "holds"],
            [[str(a["aim"]), str(a["value"]), "yes" if a["holds"] else "**no**"] for a in aims],
        )
    )
    parts.append(
        "**Rates and allocation** (S1:S2:safety:monitor on 8 servers; Table 3 and sections 4.2, 4.3)\n\n"
        + table(
            [
                "workload",
                "paper",
                "ours, mean round",
                "off",
                "ours, p99 round",
                "off",
                "allocation",
                "Table 3",
                "S1 batches",
            ],
            [
                [
                    str(r["what"]),
                    f"{r['paper_hz']:.1f}",
                    f"{r['mean_hz']:.1f}",
                    f"{r['mean_off']:+.0%}",
                    f"{r['p99_hz']:.1f}",
                    f"{r['p99_off']:+.0%}",
                    str(r["allocation"]),
                    str(r["paper_allocation"]),
                    str(r["system1_batches"]),
                ]
                for r in rates
            ],
        )
    )
    parts.append(
        "**Baselines and uncapped sending, P4**\n\n"
        + table(
            ["schedule", "paper", "ours", "qualified: paper", "ours", "source"],
            [
                [
                    str(r["what"]),
                    "-" if r["paper_hz"] is None else f"{r['paper_hz']:.1f}",
                    f"{r['hz']:.1f}",
                    "yes" if r["paper_qualified"] else "no",
                    "yes" if r["qualified"] else "no",
                    str(r["source"]),
                ]
                for r in baselines
            ],
        )
    )
    parts.append(
        "**Static allocations with ROSA's batching and rates, P4** (Figure 12)\n\n"
        + table(
            ["robots", "ROSA", "2:2:2:2", "1:3:1:3", "ROSA over the best static", "paper"],
            [
                [
                    str(r["robots"]),
                    f"{r['rosa_hz']:.1f}",
                    f"{r['equal_hz']:.1f}",
                    f"{r['weighted_hz']:.1f}",
                    f"{r['gain']:.2f}",
                    str(r["paper_gain"]),
                ]
                for r in static
            ],
        )
    )
    parts.append(
        "**Best System 1 batch and gain over batch one, one server, no SLO** (Figure 14)\n\n"
        + table(
            ["robots", *(f"{p} ms" for p in PERIODS_MS)],
            [
                [
                    str(r["robots"]),
                    *(f"{c[0]} ({c[1]:.2f}x)" for p in PERIODS_MS if isinstance(c := r[f"{p} ms"], list)),
                ]
                for r in batching
            ],
        )
    )
    names = [key for key in ours[0] if key != "what"]
    parts.append(
        "**The paper's scheduler and ours** (predicted weighted actions/s; bound: what no schedule exceeds with one"
        " component per server, static or dynamic batching; baselines: 0 = not SLO-qualified)\n\n"
        + table(["workload", *names], [[str(r["what"]), *(f"{r[n]:.1f}" for n in names)] for r in ours])
    )
    return "\n\n".join(parts) + "\n"


def plot(rates: list[Row], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    p4 = [row for row in rates if row["task"] == "p4"]
    figure, axes = pyplot.subplots(figsize=(6.5, 3.6))
    for offset, (key, label) in enumerate(
        (("paper_hz", "paper"), ("mean_hz", "ours, mean round"), ("p99_hz", "ours, p99 round"))
    ):
        axes.bar(
            [i + 0.27 * (offset - 1) for i in range(len(p4))],
            [float(str(r[key])) for r in p4],
            0.25,
            label=label,
        )
    axes.set_xticks(range(len(p4)), [f"{r['robots']} robots\n{r['allocation']}" for r in p4])
    axes.set_ylabel("actions/s")
    axes.set_title("P4 on 8 servers, allocation S1:S2:safety:monitor", fontsize=9)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    rates, baselines, static, batching, ours = (
        rate_rows(),
        baseline_rows(),
        static_rows(),
        batching_rows(),
        ours_rows(),
    )
    aims = aims_of(rates, batching, baselines)
    text = markdown(rates, baselines, static, batching, ours, aims)
    print(text)
    rows = [
        {"table": name, **row}
        for name, table in (
            ("rates", rates),
            ("baselines", baselines),
            ("static", static),
            ("batching", batching),
            ("ours", ours),
        )
        for row in table
    ]
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "name": "paper_schedules",
        "command": "python benchmarks/paper_schedules.py",
        "machine": f"{platform.machine()}, prediction only",
        "date": datetime.now(UTC).date().isoformat(),
        "rows": rows,
        "aims": aims,
    }
    RESULT.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    plot(rates, RESULT.with_suffix(".png"))


if __name__ == "__main__":
    main()
