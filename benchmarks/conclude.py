"""How a benchmark on a simulated clock ends: rows and aims are printed, and written for docs/results.md."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def conclude(path: Path, rows: Sequence[Row], aims: Sequence[Row], note: str) -> None:
    """Print a line for each row and aim, and write `path`, a JSON file named after its benchmark."""
    for row in rows:
        print(json.dumps(row), flush=True)
    for aim in aims:
        print(f"{'holds' if aim['holds'] else 'DOES NOT HOLD'}: {aim['aim']}: {aim['value']}")
    result = {
        "name": path.stem,
        "command": f"python benchmarks/{path.stem}.py",
        "machine": f"{platform.machine()}, {os.cpu_count()} shared cores; times are simulated",
        "date": datetime.now(UTC).date().isoformat(),
        "aims": list(aims),
        "notes": [note],
        "rows": list(rows),
    }
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
