"""How the measurements of the shipped models end: the aims are told and everything is written for `docs/results.md`."""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import Any

from rosa_sim.training.networks.learn import RESULTS


def conclude(
    name: str,
    command: str,
    rows: list[dict[str, Any]],
    aims: list[dict[str, Any]],
    began_s: float,
    folder: Path = RESULTS,
) -> bool:
    """Print the aims, write `<name>.json`, and return whether every aim holds.

    `command`: of `python -m rosa_sim.training`. `began_s`: when the measurement began, `time.monotonic()`.
    """
    for aim in aims:
        value = f"{aim['value']:.3f}" if isinstance(aim["value"], float) else aim["value"]
        print(f"{'holds' if aim['holds'] else 'MISSED':<7} {aim['aim']}: {value}")
    report = {
        "name": name,
        "command": f"python -m rosa_sim.training {command}",
        "machine": f"{os.cpu_count()} cores {platform.machine()}, no GPU",
        "date": time.strftime("%Y-%m-%d"),
        "duration_s": round(time.monotonic() - began_s, 1),
        "rows": rows,
        "aims": aims,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n")
    return all(bool(aim["holds"]) for aim in aims)
