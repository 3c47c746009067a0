"""The fault table: one row per fault from its repetitions, the aims, the result file and its picture."""

from __future__ import annotations

import json
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from benchmarks import RESULTS, ROOT, command_of
from rosa_sim.faults.judge import Happened
from rosa_sim.faults.table import FAULTS

mpl.use("Agg")
import matplotlib.pyplot as plt

STOP_AIM_MS = 100.0
STILL_AIM_S = 0.3  # docs/local_safety.md promises 190 ms; the rest is the latency of messages


def rows_of(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per fault."""
    rows = []
    for name, entry in FAULTS.items():
        mine = [one for one in entries if one["fault"] == name]
        seen = [Happened(**one["seen"]) for one in mine if "seen" in one]
        if not mine:
            continue
        detect_s = _numbers([one.detected_s for one in seen])
        holding_s = _numbers([one.holding_s for one in seen if one.detected_s == one.detected_s])
        stop_s = _numbers([max(0.0, one.stop_s) for one in seen if one.stop_s == one.stop_s])
        still_s = _numbers([one.still_s for one in seen])
        causes = sorted({one.cause for one in seen if one.cause})
        alerts = sum(bool(one.alerts) for one in seen)
        rows.append(
            {
                "fault": name,
                "promised": entry.promise,
                "repetitions": len(mine),
                "as promised": sum(not one["problems"] for one in mine),
                "detected p50 s": _at(detect_s, 50),
                "detected max s": _at(detect_s, 100),
                "arm holds p50 s": _at(holding_s, 50),
                "arm holds max s": _at(holding_s, 100),
                "holding ordered max ms": _at(1000 * stop_s, 100),
                "still p50 s": _at(still_s, 50),
                "still max s": _at(still_s, 100),
                "cause": ", ".join(causes) or "none",
                "action": ", ".join(sorted({one.action for one in seen if one.action})) or "none",
                "called a human": f"{alerts} of {len(mine)}",
                "late commands": sum(one.late_commands for one in seen),
                "done after it": sum((one.outcome, one.truth) == ("done", "done") for one in seen),
                "episode s": round(float(np.mean([one["took_s"] for one in mine])), 1),
                "holds": all(not one["problems"] for one in mine),
                "detected_s": detect_s.round(4).tolist(),
                "stop_s": stop_s.round(4).tolist(),
                "still_s": still_s.round(4).tolist(),
            }
        )
    return rows


def measured_at(entries: list[dict[str, Any]]) -> list[str]:
    """Which faults were measured at which commit: a table may be measured in several runs."""
    faults: dict[str, set[str]] = {}
    for entry in entries:
        faults.setdefault(entry.get("commit", ""), set()).add(entry["fault"])
    limit = max(faults, key=lambda one: len(faults[one]))
    others = [f"{', '.join(sorted(names))} at commit {at}" for at, names in faults.items() if at != limit]
    return [f"measured at commit {limit}{', but ' if others else ''}{'; '.join(others)}"]


def _numbers(values: list[float]) -> Any:
    array = np.array(values, dtype=float)
    return array[np.isfinite(array)]


def _at(values: Any, percentile: float) -> float | str:
    return round(float(np.percentile(values, percentile)), 3) if len(values) else "-"


def aims_of(rows: list[dict[str, Any]], repetitions: int) -> list[dict[str, Any]]:
    """The aims of the table as a whole."""
    total = sum(row["repetitions"] for row in rows)
    kept, done = sum(row["as promised"] for row in rows), sum(row["done after it"] for row in rows)
    late = sum(row["late commands"] for row in rows)
    stops = np.array([value for row in rows for value in row["stop_s"]]) * 1000
    still_s = np.array([value for row in rows for value in row["still_s"]])
    complete = len(rows) == len(FAULTS) and all(row["repetitions"] >= repetitions for row in rows)
    return [
        {
            "aim": f"every fault, {repetitions} times each, ends as promised",
            "value": f"{kept} of {total}",
            # None while repetitions are missing: a part of the table proves nothing about the whole.
            "holds": (True if complete else None) if kept == total else False,
        },
        {"aim": "commands executed from late results: 0", "value": late, "holds": late == 0},
        {
            "aim": "the task is completed after the fault was lifted, every time",
            "value": f"{done} of {total}",
            "holds": done == total,
        },
        {
            "aim": f"from the decision to an arm that says it holds: p99 within {STOP_AIM_MS:g} ms",
            "value": _at(stops, 99),
            "holds": not len(stops) or bool(np.percentile(stops, 99) <= STOP_AIM_MS),
        },
        {
            "aim": f"from the decision to joints that stand still: within {STILL_AIM_S:g} s",
            "value": _at(still_s, 100),
            "holds": bool((still_s <= STILL_AIM_S).all()),
        },
    ]


def taken(rows: list[dict[str, Any]], minutes: float) -> str:
    """What was measured, and what the columns mean."""
    return (
        f"{sum(row['repetitions'] for row in rows)} episodes in {minutes:.0f} minutes of measuring; times are as an"
        " observer on the ROS topics sees them. `detected`: fault on to the first decision that names it; `arm"
        " holds`: fault on to an arm that says so; `holding ordered`: from the decision to there, 0 where it held;"
        " `still`: from the decision until no joint moves any more, of those arms that moved and were not sent on."
    )


def added(
    rows: list[dict[str, Any]], problems: list[str], minutes: float
) -> tuple[list[dict[str, Any]], list[str]]:
    """The stored rows with `rows` in place of those of the same faults, and the notes of both measurements."""
    path = RESULTS / "faults.json"
    before = json.loads(path.read_text()) if path.exists() else {"rows": [], "notes": []}
    mine = {row["fault"]: row for row in rows}
    kept = {row["fault"]: row for row in before["rows"]}
    names = ", ".join(mine)
    notes = [*before["notes"], f"measured again: {names}: {taken(rows, minutes).split(';')[0]}", *problems]
    return [{**kept, **mine}[name] for name in FAULTS if name in {**kept, **mine}], notes


def write(rows: list[dict[str, Any]], aims: list[dict[str, Any]], notes: list[str]) -> None:
    """The result file and its picture."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    result = {
        "name": "faults",
        "command": " ".join([command_of("faults"), *sys.argv[1:]]),
        "machine": f"{os.cpu_count()} cores, {platform.platform()}, Python {platform.python_version()}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": rows,
        "aims": aims,
        "notes": notes,
    }
    (RESULTS / "faults.json").write_text(json.dumps(result, indent=1, allow_nan=False) + "\n")
    draw(rows, RESULTS / "faults.png")
    print(f"wrote {RESULTS.relative_to(ROOT)}/faults.json and .png")


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Every repetition of every fault as a dot: when it was noticed, and when the arm held."""
    figure, axis = plt.subplots(figsize=(8, 0.3 * len(rows) + 1.4))
    for at, row in enumerate(rows):
        detected = np.array(row["detected_s"])
        axis.plot(detected, np.full(len(detected), at), "o", color="tab:blue", markersize=4, alpha=0.6)
        if len(row["stop_s"]) == len(detected):
            axis.plot(
                detected + np.array(row["stop_s"]),
                np.full(len(detected), at),
                "|",
                color="tab:red",
                markersize=9,
            )
        if not len(detected):
            axis.text(0.02, at, "nothing to notice", va="center", fontsize=7, color="grey")
    names = [f"{row['fault']}  {row['as promised']}/{row['repetitions']}" for row in rows]
    axis.set_yticks(range(len(rows)), names, fontsize=8)
    axis.invert_yaxis()
    axis.set(xlabel="s after the fault began", xlim=(0, None), title="Noticed (dot), arm holds (line)")
    axis.grid(axis="x", alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def show(rows: list[dict[str, Any]], aims: list[dict[str, Any]]) -> None:
    """The table for a terminal."""
    columns = (
        "fault",
        "as promised",
        "repetitions",
        "detected p50 s",
        "detected max s",
        "arm holds max s",
        "holding ordered max ms",
        "still max s",
        "called a human",
        "late commands",
        "done after it",
        "episode s",
    )
    print("  ".join([columns[0].ljust(20), *columns[1:]]))
    for row in rows:
        cells = [str(row[column]).rjust(len(column)) for column in columns[1:]]
        print("  ".join([row["fault"].ljust(20), *cells]))
    verdicts = {True: "holds", False: "MISSED", None: "of these"}
    for aim in aims:
        print(f"{verdicts[aim['holds']]:<8}  {aim['aim']}: {aim['value']}")
