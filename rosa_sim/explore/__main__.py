"""`python -m rosa_sim.explore`: search every cell, print what was found, exit 1 when anything is broken."""

from __future__ import annotations

import argparse
import time

from rosa_client.runtime.task_machine import TRANSITIONS
from rosa_sim.explore.cells import CELLS, core_of
from rosa_sim.explore.search import Found, search


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Everything that can happen to a robot's core, exhaustively."
    )
    parser.add_argument("cells", nargs="*", help=f"which cells (default all): {', '.join(CELLS)}")
    parser.add_argument("--problems", type=int, default=1, help="how many to tell of before a search ends")
    arguments = parser.parse_args()
    began_s = time.monotonic()
    results: dict[str, Found] = {}
    print(f"{'cell':24s} {'states':>8s} {'transitions':>12s} {'rows':>5s} {'s':>6s}  longest way to an end")
    for name in arguments.cells or CELLS:
        cell_began_s = time.monotonic()
        found = results[name] = search(core_of(name), most_problems=arguments.problems)
        ways = ", ".join(f"{steps} when {way}" for way, steps in found.longest.items())
        took_s = time.monotonic() - cell_began_s
        print(
            f"{name:24s} {found.states:8d} {found.transitions:12d} {len(found.rows):5d} {took_s:6.1f}  {ways}"
        )
        for problem in found.problems:
            print(f"  BROKEN {problem}")
    covered = set().union(*(found.rows for found in results.values()))
    states = sum(found.states for found in results.values())
    transitions = sum(found.transitions for found in results.values())
    missed = [
        f"{state.value} + {event.value}" for state, event in TRANSITIONS if (state, event) not in covered
    ]
    print(f"{states} states, {transitions} transitions in {time.monotonic() - began_s:.0f} s;", end=" ")
    print(f"{len(covered)} of {len(TRANSITIONS)} rows of the transition table")
    if missed:
        print(f"never taken: {', '.join(missed)}")
    problems = sum(len(found.problems) for found in results.values())
    complete = all(found.complete for found in results.values())
    print("everything holds" if not problems and complete else f"{problems} problems")
    return 1 if problems or not complete or (missed and not arguments.cells) else 0


if __name__ == "__main__":
    raise SystemExit(main())
