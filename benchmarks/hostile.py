"""What a stranger, a full disk or a typing error can do: every finding tried, promised, happened.

    python benchmarks/hostile.py [--only FINDING ...] [--out FILE] [--before COMMIT FILE]
    python benchmarks/hostile.py --checkout DIR --only 1 6 7 8 9 10 --out FILE

`--only`: the rows of the other findings stay as they are in the file. `--checkout`: tries the commands of another
checkout, which has its own virtual environment. `--before`: what was written for the checkout of an older commit, shown
beside what happens now.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from attempts.attempt import Attempt, Checkout
from attempts.peers import PEERS
from attempts.robots import ROBOTS
from attempts.typing_errors import TYPING_ERRORS
from attempts.words import WORDS

from rosa_server.serving.descriptors import more_descriptors

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
TRIED: tuple[Attempt, ...] = tuple(
    sorted((*PEERS, *ROBOTS, *TYPING_ERRORS, *WORDS), key=lambda one: one.finding)
)
FINDINGS = sorted({one.finding for one in TRIED})
NOTES = (
    "Findings 2 to 5: each row has a server of its own. The hostile peer has another address than the honest robot;"
    " idle connections have the same. An older commit is tried with its own messages: they have another version.",
    "The other findings are tried with the commands that a user has. What the policy and its monitor do in whole"
    " episodes of unusual cells, and what is missed there, is in [policy_limits](#policy_limits).",
)


def happened_in(file: Path) -> dict[str, tuple[str, str]]:
    """(what happened, whether it holds) by what was tried, as an earlier run has written it."""
    rows = json.loads(file.read_text())["rows"] if file.exists() else []
    return {row["tried"]: (row["happened"], row["holds"]) for row in rows}


def rows_of(happened: dict[str, tuple[str, str]], commit: str, before: Path | None) -> list[dict[str, Any]]:
    """The table, in the order of the findings."""
    older = happened_in(before) if before is not None else {}
    rows = []
    for one in TRIED:
        if one.tried in happened:
            row: dict[str, Any] = {"finding": one.finding, "tried": one.tried, "promised": one.promised}
            if commit:
                row[f"at {commit}"] = older.get(one.tried, ("not tried", ""))[0]
            row["happened"], row["holds"] = happened[one.tried]
            rows.append(row)
    return rows


def report(rows: list[dict[str, Any]], command: str) -> dict[str, Any]:
    held = sum(row["holds"] == "yes" for row in rows)
    return {
        "name": "hostile peers",
        "command": command,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "date": datetime.date.today().isoformat(),
        "aims": [
            {"aim": "every promise is kept", "value": f"{held} of {len(rows)}", "holds": held == len(rows)}
        ],
        "notes": list(NOTES),
        "rows": rows,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", type=int, choices=FINDINGS, default=FINDINGS, metavar="FINDING")
    parser.add_argument("--out", type=Path, default=RESULTS / "hostile.json")
    parser.add_argument("--checkout", type=Path, default=ROOT, metavar="DIR")
    parser.add_argument("--before", nargs=2, metavar=("COMMIT", "FILE"), help="an older commit's results")
    arguments = parser.parse_args()
    more_descriptors()
    checkout = Checkout(arguments.checkout.resolve())
    if checkout.folder != ROOT and {one.finding for one in PEERS} & set(arguments.only):
        parser.error("--checkout: findings 2 to 5 are tried with messages of this version only")
    commit, before = arguments.before or ("", None)
    command = "python benchmarks/hostile.py" + (" --before COMMIT FILE" if commit else "")
    happened = happened_in(arguments.out)
    rows: list[dict[str, Any]] = []
    for one in TRIED:
        if one.finding in arguments.only:
            words, holds = one.run(checkout)
            happened[one.tried] = words, "yes" if holds else "**no**"
            print(json.dumps([one.finding, one.tried, *happened[one.tried]]), flush=True)
            rows = rows_of(happened, commit, Path(before) if before else None)
            arguments.out.write_text(json.dumps(report(rows, command), indent=2) + "\n")
    return 0 if all(row["holds"] == "yes" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
