"""Two machines on one, 32 robots, and what each of them lost to a killed worker, a cut link and a killed machine.

make cluster, or .venv-ray/bin/python -m rosa_sim.machines [--robots 32] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rosa_sim.machines.nodes import two_nodes
from rosa_sim.machines.story import AFTER_S, Story, factory, story
from rosa_sim.namespaces import denied

CALM_S = 6.0
CUT_S = 3.0
LONG_S = 600.0
TITLES = (
    "what happens",
    "noticed after s",
    "healed after s",
    "robots that missed",
    "most missed by one",
    "lost robots",
)


@dataclass(frozen=True)
class Row:
    """One event. Seconds from the event; `lost`: robots without an answer in time at the end."""

    what: str
    noticed_s: float
    healed_s: float
    missing: int
    most_missed: int
    lost: int


def run(told: Story, robots: int) -> list[Row]:
    """The story. Raises `TimeoutError` where something that has to happen does not."""
    nodes = told.nodes
    told.serve(factory(nodes))
    told.until(lambda: len(told.events("worker_ready")) == 2, "both workers ready")
    told.robots(robots, LONG_S)
    told.until(lambda: len(told.served(0.0)) == robots, "every robot served")

    def event(what: str, act: Callable[[], None], healed: str) -> Row:
        calm_s = time.monotonic()
        time.sleep(CALM_S)
        at_s = time.monotonic()
        before = told.missed(calm_s, at_s - calm_s)
        if before:
            print(f"before {what!r} {sum(before.values())} calls were missed for another reason", flush=True)
        act()
        told.until(lambda: told.events(healed, at_s), f"{healed} after {what!r}")
        time.sleep(max(0.0, at_s + AFTER_S - time.monotonic()))
        later_s = time.monotonic()
        time.sleep(CALM_S / 2)
        missed = told.missed(at_s)
        noticed_s = told.events("worker_link_ended", at_s)[0]["at_s"] - at_s
        healed_s = told.events(healed, at_s)[-1]["at_s"] - at_s
        lost = robots - len(told.served(later_s))
        return Row(what, noticed_s, healed_s, len(missed), max(missed.values(), default=0), lost)

    def cut() -> None:
        nodes.cut(nodes.two)
        time.sleep(CUT_S)
        nodes.mend(nodes.two)

    (theirs,) = nodes.workers(nodes.two)
    rows = [
        event("a worker is killed", lambda: os.kill(theirs, signal.SIGKILL), "worker_ready"),
        event(f"a link is cut for {CUT_S:g} s", cut, "worker_back"),
        event("a machine is killed", lambda: nodes.kill(nodes.two), "worker_ready"),
    ]
    status = told.stop()
    if status:
        raise TimeoutError(f"the server ended with status {status}:\n{told.text()[-3000:]}")
    return rows


def table(rows: Sequence[Row]) -> str:
    cells = [
        (
            row.what,
            f"{row.noticed_s:.2f}",
            f"{row.healed_s:.1f}",
            str(row.missing),
            str(row.most_missed),
            str(row.lost),
        )
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(TITLES, *cells, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in (TITLES, *cells)
    ]
    return "\n".join(line.rstrip() for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--robots", type=int, default=32)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    arguments = parser.parse_args()
    if why := denied():
        print(f"this needs network namespaces, which need root and `ip`: {why}", file=sys.stderr)
        return 2
    began_s = time.monotonic()
    print("starting two nodes of Ray ...", flush=True)
    with two_nodes() as nodes, tempfile.TemporaryDirectory(prefix="rosa-story-") as folder:
        print(f"two nodes run after {time.monotonic() - began_s:.0f} s", flush=True)
        with story(nodes, Path(folder)) as told:
            rows = run(told, arguments.robots)
            calls = [call for call in told.calls() if call.component]
    print(table(rows))
    in_time = sum(call.ending == "in_time" for call in calls)
    took_s = time.monotonic() - began_s
    print(
        f"{arguments.robots} robots, {len(calls)} calls, {in_time} in time; ended clean after {took_s:.0f} s"
    )
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return 1 if any(row.lost for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
