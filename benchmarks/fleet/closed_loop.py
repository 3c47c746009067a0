"""Tasks finished per hour by a fleet of simulated Pandas with the shipped policy, under ROSA and every baseline.

    python -m benchmarks.fleet.closed_loop [trials] [agree] [fleets]  (all three by default; 30 minutes on one core)

`trials` measures the policy in physics, by execution horizon and latency (closed_loop_trials.json). `fleets` draws from
that. `agree` runs a few fleets with physics and the policy in the loop and compares. Each step goes on where it was
interrupted (.cache/closed_loop; `--fresh`: from the beginning). Writes benchmarks/results/closed_loop.json and .png.
"""

from __future__ import annotations

import os

from benchmarks import RESULTS

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("LP_NUM_THREADS", "1")

import argparse
import json
import logging
import shutil
from typing import Any

from benchmarks.conclude import ON_ONE_CORE, print_aims, write
from benchmarks.fleet.closing import agreement, fleets
from benchmarks.fleet.closing.judge import aims_of, notes_of, plot
from benchmarks.fleet.closing.trials import CACHE, TRIALS, kept, measure
from rosa_sim.closed_loop.table import Table

RESULT = RESULTS / "closed_loop"
STEPS = ("trials", "agree", "fleets")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", nargs="*", help="trials, agree or fleets")
    parser.add_argument("--fresh", action="store_true", help="forget what an interrupted run has measured")
    arguments = parser.parse_args()
    if unknown := set(arguments.step) - set(STEPS):
        parser.error(f"no step {', '.join(sorted(unknown))}; there are {', '.join(STEPS)}")
    steps = arguments.step or STEPS
    logging.getLogger("rosa.link").setLevel(logging.ERROR)  # robots that are not served say so every second
    if arguments.fresh:
        shutil.rmtree(CACHE, ignore_errors=True)
    if "trials" in steps:
        measure()
    table, path = Table.read(TRIALS), RESULT.with_suffix(".json")
    before: list[dict[str, Any]] = json.loads(path.read_text())["rows"] if path.exists() else []
    compared = [row for row in before if row["part"] == "agreement"]
    executed = [row for row in before if row["part"] != "agreement"]
    if "agree" in steps:
        compared = agreement.rows(table, kept)
    if "fleets" in steps:
        executed = fleets.rows(table, kept)
    rows, aims = [*executed, *compared], aims_of(executed, compared)
    for row in rows:
        print(json.dumps(row))
    print_aims(aims)
    write(path, rows, aims, notes_of(table), how=ON_ONE_CORE)
    if executed:
        plot(executed, RESULT.with_suffix(".png"))


if __name__ == "__main__":
    main()
