"""What was searched of each parser, added up over runs: an hour for each is more than a day's work of `make fuzz`."""

from __future__ import annotations

import fcntl
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RESULT = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "parsers.json"
AIM_S = 3600.0  # of processor time for each parser


@dataclass(frozen=True)
class CoverageResult:
    """What the search of one parser came to."""

    parser: str
    runs: int
    cpu_s: float  # processor time
    features: int  # of the code that its inputs reach: edges and how often, as libFuzzer counts them
    broken: str  # the file with an input that breaks the promise; empty where none was found
    report: str  # what was raised, or the last lines of libFuzzer


def record(found: CoverageResult, parsers: Sequence[str]) -> None:
    """Add a search to `RESULT`. Searches of several processes add up, too."""
    with RESULT.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        so_far = json.loads(file.read() or "{}")
        file.truncate(0)
        file.write(json.dumps(added(so_far, found, parsers), indent=2) + "\n")


def added(before: dict[str, Any], found: CoverageResult, parsers: Sequence[str]) -> dict[str, Any]:
    """The content of `RESULT` with this search. `before`: as it was, or empty. `parsers`: all there are."""
    today = datetime.now(UTC).date().isoformat()
    rows = {row["parser"]: row for row in before.get("rows", []) if row["parser"] in parsers}
    last = rows.get(found.parser, {"inputs": 0, "cpu_s": 0.0, "features": 0, "broken": 0, "since": today})
    rows[found.parser] = {
        "parser": found.parser,
        "inputs": last["inputs"] + found.runs,
        "cpu_s": round(last["cpu_s"] + found.cpu_s, 1),
        "features": max(last["features"], found.features),
        "broken": last["broken"] + bool(found.broken),
        "since": last["since"],
    }
    short = [name for name in parsers if rows.get(name, {"cpu_s": 0.0})["cpu_s"] < AIM_S]
    searched = f"{len(parsers) - len(short)} of {len(parsers)}" + (
        f", not {', '.join(short)}" if short else ""
    )
    broken = sum(row["broken"] for row in rows.values())
    return {
        "name": "parsers",
        "command": "python -m rosa_sim.fuzz.coverage --seconds 3600",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "date": today,
        "aims": [
            {
                "aim": f"each parser searched for {AIM_S / 3600:g} h of processor time",
                "value": searched,
                "holds": not short,
            },
            {"aim": "no input breaks a promise", "value": broken, "holds": not broken},
        ],
        "notes": [
            "Sums over all runs since the day that a row names; each run goes on from the inputs of the last."
        ],
        "rows": [rows[name] for name in parsers if name in rows],
    }
