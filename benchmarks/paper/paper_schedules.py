"""ROSA's scheduler with the derived H200 profiles, against every schedule that the ROSA paper publishes.

    python -m benchmarks.paper.paper_schedules

Prints the tables and writes benchmarks/results/paper_schedules.json and .png. `paper/` says what is compared.
"""

from __future__ import annotations

import argparse
import json
import platform
from datetime import UTC, datetime

from benchmarks import RESULTS
from benchmarks.paper.aims import aims_of
from benchmarks.paper.partitions import figure_11_rows, figure_12_rows
from benchmarks.paper.predictions import Choice, baseline_rows, batching_rows, ours_rows, rate_rows
from benchmarks.paper.report import COMMENTS, markdown, plot

RESULT = RESULTS / "paper_schedules"


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    rates, baselines, partitions, batching = rate_rows(), baseline_rows(), figure_11_rows(), batching_rows()
    aims = aims_of(rates, baselines, partitions, batching)
    tables = [rates, baselines, partitions, figure_12_rows(), batching, ours_rows()]
    print(markdown(aims, tables))
    result = {
        "name": "paper_schedules",
        "command": "python -m benchmarks.paper.paper_schedules",
        "machine": f"{platform.machine()}, prediction only",
        "date": datetime.now(UTC).date().isoformat(),
        "aims": aims,
        "notes": COMMENTS,
        "rows": [
            {key: str(value) if isinstance(value, Choice) else value for key, value in row.items()}
            for rows in tables
            for row in rows
        ],
    }
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    plot(rates, RESULT.with_suffix(".png"))


if __name__ == "__main__":
    main()
