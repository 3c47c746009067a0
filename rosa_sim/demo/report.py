"""What a run was: one row per episode, a table for people and a `summary.json` for machines."""

from __future__ import annotations

import json
import math
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = (
    ("episode", 7),
    ("outcome", 10),
    ("truth", 8),
    ("rounds", 6),
    ("retries", 7),
    ("S1 p50 ms", 9),
    ("S1 p99 ms", 9),
    ("deadlines met", 13),
    ("late", 4),
    ("alerts", 6),
    ("s", 6),
)


@dataclass(frozen=True)
class Episode:
    """One episode. `outcome` is what the robot concluded, `truth` what the simulated cell looks like."""

    number: int
    seed: int
    outcome: str
    truth: str
    reason: str
    rounds: int
    retries: int
    system1_ms: list[float] = field(repr=False)
    deadlines_met: int
    deadlines_missed: int
    late_results_discarded: int
    alerts: list[str]
    decisions: list[str]  # who decided what, in order
    components: dict[str, dict[str, float | None]]  # component -> latencies in ms, deadlines met and missed
    duration_s: float

    @property
    def success(self) -> bool:
        return self.outcome == "done" and self.truth == "done"


def components_of(status: Any) -> dict[str, dict[str, float | None]]:
    """How each component's calls went, from a task's last RobotStatus (None: nothing is known)."""

    def finite(value: float) -> float | None:  # JSON has no NaN
        return value if math.isfinite(value) else None

    return {
        one.component: {
            "p50_ms": finite(one.p50_ms),
            "p99_ms": finite(one.p99_ms),
            "slo_ms": one.slo_ms,
            "in_time": one.in_time,
            "missed": one.missed,
        }
        for one in (status.components if status is not None else [])
    }


def header() -> str:
    return "  ".join(name.rjust(width) for name, width in COLUMNS)


def row(episode: Episode) -> str:
    p50, p99 = percentiles(episode.system1_ms)
    total = episode.deadlines_met + episode.deadlines_missed
    cells = (
        str(episode.number),
        episode.outcome,
        episode.truth,
        str(episode.rounds),
        str(episode.retries),
        f"{p50:.0f}",
        f"{p99:.0f}",
        f"{episode.deadlines_met}/{total}",
        str(episode.late_results_discarded),
        str(len(episode.alerts)),
        f"{episode.duration_s:.1f}",
    )
    return "  ".join(cell.rjust(width) for cell, (_, width) in zip(cells, COLUMNS, strict=True))


def percentiles(latencies_ms: Sequence[float]) -> tuple[float, float]:
    """p50 and p99, NaN when there is none."""
    if not latencies_ms:
        return float("nan"), float("nan")
    p50, p99 = np.percentile(np.asarray(latencies_ms), [50, 99])
    return float(p50), float(p99)


def summary(episodes: Sequence[Episode]) -> dict[str, Any]:
    """The whole run as plain values."""
    everything = [ms for episode in episodes for ms in episode.system1_ms]
    p50, p99 = percentiles(everything)
    met = sum(episode.deadlines_met for episode in episodes)
    missed = sum(episode.deadlines_missed for episode in episodes)
    return {
        "episodes": len(episodes),
        "successes": sum(episode.success for episode in episodes),
        "system1_p50_ms": p50 if everything else None,
        "system1_p99_ms": p99 if everything else None,
        "deadlines_met": met,
        "deadlines_missed": missed,
        "late_results_discarded": sum(episode.late_results_discarded for episode in episodes),
        "retries": sum(episode.retries for episode in episodes),
        "alerts": sum(len(episode.alerts) for episode in episodes),
        "machine": (
            f"{platform.machine()}, {platform.platform()}, Python {platform.python_version()},"
            f" {os.cpu_count()} cores, load average {os.getloadavg()[1]:.0f}"
        ),
        "rows": [{**asdict(episode), "success": episode.success} for episode in episodes],
    }


def counted(count: int, what: str) -> str:
    """Such as `1 episode` and `2 episodes`."""
    return f"{count} {what}{'s' * (count != 1)}"


def footer(episodes: Sequence[Episode]) -> str:
    total = summary(episodes)
    p50, p99 = percentiles([ms for episode in episodes for ms in episode.system1_ms])
    deadlines = total["deadlines_met"] + total["deadlines_missed"]
    return (
        f"{total['successes']} of {counted(total['episodes'], 'episode')} succeeded;"
        f" System 1 p50 {p50:.0f} ms, p99 {p99:.0f} ms;"
        f" {total['deadlines_met']} of {deadlines} deadlines met;"
        f" {total['late_results_discarded']} late results discarded"
    )


def write_result(
    folder: Path, episodes: Sequence[Episode], name: str = "demo", more: Sequence[dict[str, Any]] = ()
) -> Path:
    """The run as a benchmark result `NAME.json`, with the aim of issue and README: nine of ten. `more`: rows beside."""
    total = summary(episodes)
    needed = math.ceil(0.9 * len(episodes))
    aim = {
        "aim": f"at least {needed} of {counted(len(episodes), 'episode')} succeed",
        "value": total["successes"],
        "holds": total["successes"] >= needed,
    }
    overall = [{key: value for key, value in total.items() if key not in ("rows", "machine")}]
    result = {
        "name": name,
        "command": f"make demo ARGS='{' '.join(sys.argv[1:])}'",
        "machine": total["machine"],
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": [*overall, *more, *(_result_row(episode) for episode in episodes)],
        "aims": [aim],
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(rounded(result), indent=1, allow_nan=False) + "\n")
    return path


def rounded(value: Any) -> Any:
    """Numbers as people read them: three digits after the point."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner) for inner in value]
    return round(value, 3) if isinstance(value, float) else value


def _result_row(episode: Episode) -> dict[str, Any]:
    p50, p99 = percentiles(episode.system1_ms)
    plain = {key: value for key, value in asdict(episode).items() if not isinstance(value, list | dict)}
    return {**plain, "system1_p50_ms": p50, "system1_p99_ms": p99} if episode.system1_ms else plain


def write(folder: Path, episodes: Sequence[Episode], extra: dict[str, Any]) -> Path:
    """`summary.json` in `folder`; written anew after every episode, so an interrupted run keeps what it has."""
    path = folder / "summary.json"
    temporary = path.with_suffix(".tmp")
    whole = rounded({**summary(episodes), **extra})
    temporary.write_text(json.dumps(whole, indent=1, allow_nan=False) + "\n")
    temporary.replace(path)
    return path
