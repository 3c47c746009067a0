"""docs/results.md from benchmarks/results/*.json: at a glance, the paper's figures, then every benchmark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
ON_DERIVED_PROFILES = ("claims", "closed_loop", "exact", "gpus", "paper_schedules", "scheduler")
LONGEST_LIST = 4  # items of a list that a cell of a table shows
LONGEST_VALUE = 160  # characters of a measured value at a glance
# How long a run takes on two shared cores. `make results` runs the quick ones.
QUICK = {
    "batching": "1 minute",
    "cancelled_frames": "5 s",
    "paper_schedules": "1 minute",
    "gpus": "10 s",
    "claims": "2 to 8 minutes",
}
SLOW = {
    "arm_interface": "1 minute",
    "asynchronous": "8 minutes",
    "chaos": "two hours with `python scripts/compiled.py benchmarks/chaos.py`, goes on where it was interrupted",
    "closed_loop": "40 minutes, goes on where it was interrupted",
    "closed_loop_trials": "part of closed_loop",
    "demo": "2 minutes",
    "demo_sort_parts": "5 minutes",
    "exact": "2 minutes",
    "faults": "71 minutes, goes on where it was interrupted",
    "fleet": "20 minutes, 2 with compiled cores",
    "fleet_policies": "20 minutes, 3 with compiled cores",
    "random_factories": "two hours",
    "fuzz": "10 minutes",
    "horizon": "5 minutes",
    "hostile": "20 minutes",
    "kairos": "15 minutes",
    "kv_sharing": "4 minutes",
    "policy": "3 minutes",
    "shared_prefixes": "10 s",
    "policy_limits": "7 minutes",
    "robot_side": "1 minute",
    "scale": "5 minutes",
    "scheduler": "20 minutes",
    "soak": "6 minutes, or as long as HOURS says",
    "pictures": "10 s",
    "pipelined_decode": "6 minutes",
    "token_policy": "5 minutes",
    "transport": "5 minutes",
    "vla": "5 minutes",
    "vla_verdicts": "1 minute",
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
NAMES = {
    "rosa_published": "ROSA as published",
    "gpu_per_robot": "one GPU per robot",
    "gpu_per_model": "one GPU per model",
    "equal_partition": "equal partition",
    "weighted_partition": "weighted partition",
}
Row = dict[str, Any]


def page() -> str:
    """The whole page."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))}
    lines = [
        "# Results",
        "",
        "Generated from `benchmarks/results/*.json` by `make docs`. Each section names the command that measures it",
        "again, or says how it was measured. An aim that is missed says so; what was tried is in [log.md](log.md).",
        "Absolute times are those of a small shared machine: compare within one table only. Schedules are predictions",
        "from profiles ([scheduler.md](scheduler.md#profiles)).",
        "",
        *at_a_glance(found),
        "",
        *paper_figures(),
    ]
    for result in found.values():
        lines += ["", *section(result)]
    return "\n".join(lines) + "\n"


# -- at a glance -------------------------------------------------------------------------------------------------------


def at_a_glance(found: dict[str, Row]) -> list[str]:
    """Where ROSA wins and by how much, where not, and how each section is made again."""
    lines = [
        "## At a glance",
        "",
        "ROSA against ROSA as published and the paper's four baselines, on emulated H200 (derived profiles).",
        "",
        "| measured | where | ROSA | as published | best baseline | ROSA over the best baseline |",
        "|---|---|---|---|---|---|",
    ]
    for what, where, values in _comparisons(found):
        ours, published = values.pop("rosa"), values.pop("rosa_published")
        lower = what.startswith("GPUs")
        rival = (min if lower else max)(values, key=lambda name: values[name])
        best = values[rival]
        share = best / ours if lower else ours / best if best else 0.0
        shown = f"{share:.2f}x{' fewer' if lower else ''}" if share else "only ROSA"
        shown = shown if share >= 0.995 or not share else f"**{shown}**"
        names = f"{_cell(float(best))}, {NAMES[rival]}"
        lines.append(
            f"| {what} | {where} | {_cell(float(ours))} | {_cell(float(published))} | {names} | {shown} |"
        )
    missed = [(name, aim) for name, result in found.items() for aim in result["aims"] if not aim["holds"]]
    count = sum(len(result["aims"]) for result in found.values())
    lines += [
        "",
        f"Of {count} aims {count - len(missed)} hold. These do not:",
        "",
        "| section | aim that is missed | measured |",
        "|---|---|---|",
    ]
    for name, aim in missed:
        lines.append(f"| {_link(found[name])} | {_cell(aim['aim'])} | {_short(aim['value'])} |")
    lines += [
        "",
        "`make results` runs what is marked, draws the figures and writes this page again. The others are run by hand:",
        "",
        "| section | command | takes about | in `make results` | aims that hold |",
        "|---|---|---|---|---|",
    ]
    for name, result in found.items():
        takes = QUICK.get(name) or SLOW.get(name, "-")
        held = sum(aim["holds"] for aim in result["aims"])
        aims = f"{held} of {len(result['aims'])}" if result["aims"] else "-"
        mark = "yes" if name in QUICK else ""
        lines.append(f"| {_link(result)} | {_how(result)} | {takes} | {mark} | {aims} |")
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
                ("GPUs needed", f"P4, {one['robots']} robots, {one['actions_hz']:g} actions/s", values)
            )
    return rows


def _link(result: Row) -> str:
    """To the section of a result."""
    return f"[{result['name']}](#{result['name'].replace(' ', '-')})"


def _short(value: Any) -> str:
    text = _cell(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE].rsplit(' ', 1)[0]} ..."


def paper_figures() -> list[str]:
    """The pictures of benchmarks/figures.py."""
    lines = [
        "## The paper's figures",
        "",
        "`python benchmarks/figures.py` draws them from the rows of claims and paper_schedules, in the paper's shape.",
        "Bars are means over seeds, whiskers their 95 % interval.",
    ]
    for name, words in FIGURES.items():
        if (RESULTS / "figures" / f"{name}.png").exists():
            lines += ["", f"{words}:", "", f"![{words}](../benchmarks/results/figures/{name}.png)"]
    return lines


# -- one benchmark -----------------------------------------------------------------------------------------------------


def section(result: Row) -> list[str]:
    """One result file: command, machine, date, what was aimed at and whether it holds, then all rows."""
    lines = [f"## {result['name']}", "", f"{_how(result)}, {result['date']}, {result['machine']}"]
    if result["aims"]:
        lines += ["", "| aim | measured | holds |", "|---|---|---|"]
    for aim in result["aims"]:
        lines.append(f"| {aim['aim']} | {_cell(aim['value'])} | {'yes' if aim['holds'] else '**no**'} |")
    if result["name"] in ON_DERIVED_PROFILES:
        lines += ["", "On the H200 profiles of `configs/profiles/h200/`: **derived, not measured**."]
    for note in result.get("notes", []):
        lines += ["", str(note)]
    lines += ["", *_rows(result["rows"])]
    picture = RESULTS / f"{result['name']}.png"
    if picture.exists():
        lines += ["", f"![{result['name']}](../benchmarks/results/{picture.name})"]
    return lines


def _how(result: dict[str, Any]) -> str:
    """The command that measures it again, or, where there is none, how it was measured."""
    return f"`{result['command']}`" if "command" in result else str(result["how"])


def _rows(rows: list[dict[str, Any]]) -> list[str]:
    """One table per group of rows that share their columns. Mappings are left to the JSON file, and lists of a column
    in which one is long."""
    lines: list[str] = []
    columns: list[str] = []
    long = {
        key
        for row in rows
        for key, value in row.items()
        if isinstance(value, list) and len(value) > LONGEST_LIST
    }
    for row in rows:
        shown = {
            key: value
            for key, value in row.items()
            if not isinstance(value, dict) and not (isinstance(value, list) and key in long)
        }
        if list(shown) != columns:
            columns = list(shown)
            lines += ["", "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
        lines.append("| " + " | ".join(_cell(value) for value in shown.values()) + " |")
    return lines[1:]


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_cell(item) for item in value)
    if isinstance(value, float):
        return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"
    return str(value).replace("|", "\\|")
