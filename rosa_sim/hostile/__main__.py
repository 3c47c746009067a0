"""python -m rosa_sim.hostile [--only NAME ...] [--minutes 10]: exit status 0 when every promise holds.

With `--only` the other rows stay as they are in the file, and with `--minutes 0` what was found of all together.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rosa_server.serving.base.descriptors import more_descriptors
from rosa_sim.hostile.attempt import MAX_GROWTH_MB, MAX_LINES_PER_S, MIN_IN_TIME, AttemptOutcome, run_beside
from rosa_sim.hostile.attempts import ATTEMPTS
from rosa_sim.hostile.together import attack_together

OUT = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "hostile.json"
NOTES = (
    "Each attempt has a server of its own and four well-behaved robots (5 Hz, 300 ms) beside it, and as many are at"
    " another server at the same time that nobody attacks. A row holds when its promise does, the server runs on"
    f" without a traceback or a lost worker, the robots get at least {MIN_IN_TIME:.0%} of what is in time elsewhere,"
    f" the gateway grows by less than {MAX_GROWTH_MB:.0f} MB and logs less than {MAX_LINES_PER_S:.0f} lines per second,"
    " and the cause, where there is one, is in log and metrics.",
    "The attackers run at the lowest priority, as hostile peers have machines of their own.",
    "Findings 2.1 and 2.2: libzmq gives 4,294,967,296 numbers before one comes again, and drops the names that peers"
    " bring. 10 million attempts get 0.23 % of the way to the number of a connection that stands, and a connection ends"
    " when 2,147,483,648 came after it: no number is ever given twice.",
)


def row_of(name: str, outcome: AttemptOutcome) -> dict[str, Any]:
    [attempt] = [one for one in ATTEMPTS if one.name == name]
    seen = ", ".join(f"{cause} {count}" for cause, count in sorted(outcome.seen.items()))
    return {
        "finding": attempt.finding,
        "attempt": attempt.tried,
        "promise": attempt.promised,
        "outcome": "; ".join([outcome.words, *outcome.failures]),
        "in time": f"{outcome.served.share:.1%} of {outcome.served.asked}",
        "elsewhere": f"{outcome.undisturbed.share:.1%}",
        "memory": f"{outcome.growth_mb:+.0f} MB",
        "seen": seen or "-",
        "holds": "yes" if outcome.holds else "**no**",
    }


def merged(fresh: dict[str, dict[str, Any]], before: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of all attempts in their order: fresh ones by name, the others as they were."""
    known = {row["attempt"]: row for row in before}
    rows = [fresh.get(one.name) or known.get(one.tried) for one in ATTEMPTS]
    return [row for row in rows if row is not None]


def report(rows: list[dict[str, Any]], together: list[dict[str, Any]]) -> dict[str, Any]:
    """`together`: the aims of all attacks at once."""
    held = sum(row["holds"] == "yes" for row in rows)
    first = {"aim": "every attempt fails", "value": f"{held} of {len(rows)}", "holds": held == len(rows)}
    aims = [first, *together]
    return {
        "name": "hostile peers",
        "command": "make hostile",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "date": datetime.date.today().isoformat(),
        "aims": aims,
        "notes": list(NOTES),
        "rows": rows,
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="rosa_sim.hostile", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=[one.name for one in ATTEMPTS], metavar="NAME")
    parser.add_argument("--minutes", type=float, default=10.0, help="of all attacks together; 0: not at all")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args(argv)
    more_descriptors()
    before = json.loads(arguments.out.read_text()) if arguments.out.exists() else {"rows": [], "aims": []}
    fresh: dict[str, dict[str, Any]] = {}
    for one in ATTEMPTS:
        if arguments.only and one.name not in arguments.only:
            continue
        with tempfile.TemporaryDirectory(prefix="rosa-hostile-") as folder:
            fresh[one.name] = row_of(one.name, run_beside(one, Path(folder)))
        print(json.dumps({"name": one.name, **fresh[one.name]}), flush=True)
    together = before["aims"][1:]
    if arguments.minutes:
        with tempfile.TemporaryDirectory(prefix="rosa-hostile-") as folder:
            seconds = arguments.minutes * 60
            together = attack_together(
                Path(folder), seconds, tell=lambda line: print(line, flush=True)
            ).aims()
    result = report(merged(fresh, before["rows"]), together)
    for aim in result["aims"]:
        print(f"{'holds ' if aim['holds'] else 'MISSED'}  {aim['aim']}: {aim['value']}")
    arguments.out.write_text(json.dumps(result, indent=2) + "\n")
    print(f"wrote {arguments.out}")
    return 0 if all(aim["holds"] for aim in result["aims"]) else 1


if __name__ == "__main__":
    sys.exit(main())
