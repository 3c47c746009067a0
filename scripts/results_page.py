"""docs/results.md from benchmarks/results/*.json: gains, missed aims, benchmarks, the paper's figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
ON_DERIVED_PROFILES = ("claims", "closed_loop", "exact", "gpus", "paper_schedules", "scheduler")
MAX_VALUE_CHARS = 160  # characters of a measured value at a glance
# How long a run takes on two shared cores. `make results` runs the quick ones.
QUICK = {
    "roofline": "1 s",
    "batching": "1 minute",
    "cancelled_frames": "5 s",
    "paper_schedules": "1 minute",
    "claims": "2 to 8 minutes",
}
SLOW = {
    "arm_interface": "1 minute",
    "asynchronous": "8 minutes",
    "calls_beside": "1 minute",
    "chaos": "two hours with `python scripts/compiled.py -m benchmarks.faults.chaos`, goes on where it was interrupted",
    "capacity": "6 minutes",
    "cases": "6 minutes, 2 with compiled cores",
    "closed_loop": "40 minutes, goes on where it was interrupted",
    "closed_loop_trials": "part of closed_loop",
    "dashboard": "3 minutes",
    "decode_ahead": "2 minutes",
    "decode_cost": "2 minutes",
    "demo": "2 minutes",
    "demo_sort_parts": "5 minutes",
    "exact": "2 minutes",
    "faults": "71 minutes, goes on where it was interrupted",
    "fleet": "20 minutes, 2 with compiled cores",
    "fleet_policies": "20 minutes, 3 with compiled cores",
    "random_factories": "40 minutes with compiled cores, goes on where it was interrupted",
    "frontends": "6 minutes",
    "gateway_cost": "2 minutes",
    **dict.fromkeys(
        ("gpu_pictures_cuda", "gpu_profiles_cuda", "kv_sharing_cuda", "pipelined_decode_cuda"),
        "10 minutes, `make gpu` on a machine with a GPU",
    ),
    "gpus": "5 minutes, goes on where it was interrupted",
    "fuzz": "10 minutes",
    "parsers": "an hour of processor time for each parser, adds up over runs",
    "horizon": "5 minutes",
    "against": "2 minutes",
    "networks": "4 minutes, as root",
    "nodes_against": "12 minutes",
    "hostile": "20 minutes",
    "hostile_frontends": "8 minutes",
    "kairos": "40 minutes",
    "kv_serving": "5 minutes",
    "live_calls": "4 minutes, on a quiet machine",
    "lerobot_act": "6 minutes, after `make train-act`",
    "kv_sharing": "4 minutes",
    "moved_state": "20 s",
    "policy": "3 minutes",
    "shared_prefixes": "10 s",
    "policy_limits": "7 minutes",
    "robot_side": "1 minute",
    "scale": "5 minutes",
    "cluster_cost": "half an hour; `--part ray` as root, in .venv-ray",
    "machine_faults": "hours, as root; goes on where it was interrupted",
    "chaos_nodes": "hours with `scripts/compiled.py`, goes on where it was interrupted",
    "scheduler": "20 minutes",
    "soak": "6 minutes, or as long as HOURS says",
    "path": "5 minutes",
    "pictures": "10 s",
    "pipelined_decode": "6 minutes",
    "token_policy": "5 minutes",
    "transport": "5 minutes",
    "vla": "5 minutes",
    "vla_verdicts": "1 minute",
    "one_model": "4 minutes",
    "wire": "2 minutes",
}
FIGURES = {
    "figure_06_shared": "Figure 6, single tasks against shared servers",
    "figure_07_dedicated": "Figure 7, single tasks against dedicated servers",
    "figure_08_mixed": "Figure 8, mixed tasks",
    "figure_09_latency": "Figure 9, System 1 on P4",
    "figure_10_rate_control": "Figure 10, with and without rates",
    "figure_11_gpus": "Figure 11, GPUs that partitions need for ROSA's rate on eight, by the scheduler",
    "figure_12_allocation": "Figure 12, allocations of Table 3",
    "figure_14_batches": "Figure 14, System 1's batch, by the scheduler",
}
PUBLISHED = ("rosa_published", "rosa_published_catch_up")  # two readings of the paper
NAMES = {
    **dict.fromkeys(PUBLISHED, "ROSA as published"),
    "gpu_per_robot": "one GPU per robot",
    "gpu_per_model": "one GPU per model",
    "equal_partition": "equal partition",
    "weighted_partition": "weighted partition",
}
HEAD = [
    "# Results",
    "",
    "Generated from `benchmarks/results/*.json` by `make docs`. A result file has the rows, the aims and whether each",
    "holds, the command, the machine and the date. What was tried for a missed aim is in [log.md](log.md).",
    "Absolute times are those of a small shared machine: compare within one result only. Schedules are predictions",
    "from profiles ([scheduler.md](scheduler.md#profiles)).",
    "",
]
Row = dict[str, Any]


def result(name: str) -> Row:
    """One file of results."""
    found: Row = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def page() -> str:
    """The whole page."""
    found = {path.stem: result(path.stem) for path in sorted(RESULTS.glob("*.json"))}
    return "\n".join(
        [*HEAD, *gains(found), "", *missed_aims(found), "", *benchmarks(found), "", *paper_figures(), ""]
    )


def gains(found: dict[str, Row]) -> list[str]:
    """ROSA beside the paper's systems: by how much it wins, and where it does not."""
    lines = [
        "## Gains",
        "",
        "ROSA against ROSA as published, in the better of two readings ([fleet.md](fleet.md)), and the paper's four",
        "baselines, on emulated H200 (derived profiles).",
        "",
        "| measured | where | ROSA | as published | best baseline | ROSA over the best baseline |",
        "|---|---|---|---|---|---|",
    ]
    for what, where, values in _comparisons(found):
        ours = values.pop("rosa")
        lower = what.startswith("GPUs")
        best_of = min if lower else max
        published = best_of(values.pop(name) for name in PUBLISHED if name in values)
        rival = best_of(values, key=lambda name: values[name])
        best = values[rival]
        share = best / ours if lower else ours / best if best else 0.0
        shown = f"{share:.2f}x{' fewer' if lower else ''}" if share else "only ROSA"
        shown = shown if share >= 0.995 or not share else f"**{shown}**"
        names = f"{_cell(float(best))}, {NAMES[rival]}"
        lines.append(
            f"| {what} | {where} | {_cell(float(ours))} | {_cell(float(published))} | {names} | {shown} |"
        )
    return lines


def missed_aims(found: dict[str, Row]) -> list[str]:
    """Every aim that does not hold."""
    missed = [(name, aim) for name, result in found.items() for aim in result["aims"] if not aim["holds"]]
    count = sum(len(result["aims"]) for result in found.values())
    lines = [
        "## Missed aims",
        "",
        f"Of {count} aims {count - len(missed)} hold. These do not:",
        "",
        "| benchmark | aim that is missed | measured |",
        "|---|---|---|",
    ]
    for name, aim in missed:
        lines.append(f"| {_rows_of(name)} | {_cell(aim['aim'])} | {_short(aim['value'])} |")
    return lines


def benchmarks(found: dict[str, Row]) -> list[str]:
    """A line for each: its rows, its picture, and how it is made again."""
    lines = [
        "## Benchmarks",
        "",
        "`make results` runs what is marked, draws the figures and writes this page again. The others are run by hand.",
        "Results marked \\* are on the H200 profiles of `configs/profiles/h200/`: **derived, not measured**.",
        "",
        "| rows | picture | command | takes about | in `make results` | aims that hold | date |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, result in found.items():
        picture = RESULTS / f"{name}.png"
        cells = [
            _rows_of(name) + (" \\*" if name in ON_DERIVED_PROFILES else ""),
            f"[png](../benchmarks/results/{picture.name})" if picture.exists() else "",
            _how(result),
            QUICK.get(name) or SLOW.get(name, "-"),
            "yes" if name in QUICK else "",
            f"{sum(aim['holds'] for aim in result['aims'])} of {len(result['aims'])}"
            if result["aims"]
            else "-",
            str(result["date"])[:10],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _comparisons(found: dict[str, Row]) -> list[tuple[str, str, dict[str, float]]]:
    """What is measured, where, and the value of every system."""
    rows: list[tuple[str, str, dict[str, float]]] = []
    points: dict[tuple[str, int], dict[str, float]] = {}
    for one in found["claims"]["points"] if "claims" in found else ():
        if one["system"] == "rosa" or one["system"] in NAMES:
            points.setdefault((one["scenario"], one["robots"]), {})[one["system"]] = one["qualified_hz"]
    for (name, robots), values in points.items():
        if robots in (8, 64):
            rows.append(("SLO-qualified actions/s", f"{name.capitalize()}, {robots} robots", values))
    for part, words in (("robots", ""), ("faults", ", ")):
        finished: dict[tuple[str, int], dict[str, float]] = {}
        for one in found["closed_loop"]["rows"] if "closed_loop" in found else ():
            if one["part"] == part:
                finished.setdefault((one["what"], one["robots"]), {})[one["system"]] = one["per_hour"]
        for (what, robots), values in finished.items():
            rows.append(("tasks finished per hour", f"P4, {robots} robots{words}{what}", values))
    for one in found["gpus"]["rows"] if "gpus" in found else ():
        if one["robots"] in (16, 64):
            values = {name: value for name, value in one.items() if name == "rosa" or name in NAMES}
            rows.append(
                (
                    "GPUs needed",
                    f"{one['workload'].upper()}, {one['robots']} robots, {one['actions_hz']:g} actions/s",
                    values,
                )
            )
    return rows


def _rows_of(name: str) -> str:
    return f"[{name}](../benchmarks/results/{name}.json)"


def _short(value: Any) -> str:
    text = _cell(value)
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS].rsplit(' ', 1)[0]} ..."


def paper_figures() -> list[str]:
    """The pictures of benchmarks/paper/figures.py."""
    lines = [
        "## The paper's figures",
        "",
        "`python -m benchmarks.paper.figures` draws them from the rows of claims and paper_schedules, in the paper's",
        "shape. Bars are means over seeds, whiskers their 95 % interval.",
    ]
    for name, words in FIGURES.items():
        if (RESULTS / "figures" / f"{name}.png").exists():
            lines += ["", f"{words}:", "", f"![{words}](../benchmarks/results/figures/{name}.png)"]
    return lines


def _how(result: dict[str, Any]) -> str:
    """The command that measures it again, or, where there is none, how it was measured."""
    return f"`{result['command']}`" if "command" in result else str(result["how"])


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_cell(item) for item in value)
    if isinstance(value, float):
        return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"
    return str(value).replace("|", "\\|")
