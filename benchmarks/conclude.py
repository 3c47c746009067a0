"""How a benchmark ends: rows and aims are printed, and written for docs/results.md."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import command_of

SIMULATED, ON_ONE_CORE = "; times are simulated", ", one used; times are simulated"
Row = dict[str, Any]


def conclude(path: Path, rows: Sequence[Row], aims: Sequence[Row], note: str) -> None:
    """Print a line for each row and aim, and write `path`, a JSON file named after its benchmark."""
    for row in rows:
        print(json.dumps(row), flush=True)
    print_aims(aims)
    write(path, rows, aims, [note])


def print_aims(aims: Sequence[Row]) -> None:
    """A line for each aim."""
    for aim in aims:
        print(f"{'holds' if aim['holds'] else 'DOES NOT HOLD'}: {aim['aim']}: {aim['value']}")


def write(
    path: Path,
    rows: Sequence[Row],
    aims: Sequence[Row],
    notes: Sequence[str],
    options: str = "",
    how: str = SIMULATED,
    command: str = "",
    **more: Any,
) -> None:
    """Write `path`, a JSON file named after its benchmark.

    `options`: of the command line. `how`: how the machine was used. `command`: where the benchmark has another name.
    `more`: other keys of the file.
    """
    result = {
        "name": path.stem,
        "command": f"{command or command_of(path.stem)} {options}".rstrip(),
        "machine": f"{platform.machine()}, {os.cpu_count()} shared cores{how}",
        "date": datetime.now(UTC).date().isoformat(),
        "aims": list(aims),
        "notes": list(notes),
        "rows": list(rows),
        **more,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
