"""`python -m rosa_sim.explore`: search every cell, print what was found, exit 1 when anything is broken."""

from __future__ import annotations

import argparse
import gc
import math
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

from rosa_client.motion.following import TRANSITIONS as FOLLOWING
from rosa_client.runtime.machines.side_machines import LEG_PROGRESS, SAFETY_VERDICTS, UNFINISHED
from rosa_client.runtime.machines.task_machine import TRANSITIONS
from rosa_sim.explore.arm_side import ARM_CELLS, search_arm
from rosa_sim.explore.cells import CELLS, COARSE, core_of
from rosa_sim.explore.keys import coarse, fine
from rosa_sim.explore.search import SearchResult, search

TOLD_EVERY_S = 20.0

ROWS = (*TRANSITIONS, *SAFETY_VERDICTS, *UNFINISHED, *LEG_PROGRESS)
ALL_ROWS = (*ROWS, *FOLLOWING)
ALL_CELLS = (*ARM_CELLS, *CELLS)  # those of the arm take longest


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Everything that can happen to a robot's core and to its arm, exhaustively."
    )
    parser.add_argument("cells", nargs="*", help=f"which cells (default all): {', '.join(ALL_CELLS)}")
    parser.add_argument("--problems", type=int, default=1, help="how many to report before a search ends")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="searches at once")
    arguments = parser.parse_args()
    unknown = set(arguments.cells) - set(ALL_CELLS)
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(ALL_CELLS)}")
    names = arguments.cells or list(ALL_CELLS)
    began_s = time.monotonic()
    results = searched(names, arguments.jobs, arguments.problems)
    states = sum(found.states for found in results)
    transitions = sum(found.transitions for found in results)
    covered = set().union(*(found.rows for found in results))
    worked_s = os.times().children_user  # on a busy machine far less than what has passed
    took = f"{time.monotonic() - began_s:.0f} s ({worked_s:.0f} s of one core)"
    print(f"{states} states, {transitions} transitions in {took};", end=" ")
    print(f"{len(covered)} of {len(ALL_ROWS)} rows of the transition tables")
    never = [
        f"{type(state).__name__} {state.value} + {event.value}"
        for state, event in ALL_ROWS
        if (state, event) not in covered
    ]
    if never:
        print(f"never taken: {', '.join(never)}")
    problems = sum(len(found.problems) for found in results)
    complete = all(found.complete for found in results)
    print("complete;" if complete else "NOT complete;", end=" ")
    print("everything holds" if not problems and complete else f"{problems} problems")
    return 1 if problems or not complete or (never and not arguments.cells) else 0


def searched(names: list[str], jobs: int, max_problems: int) -> list[SearchResult]:
    """Search cells, several at once, and print a line for each as soon as it is done."""
    print(f"{'cell':28s} {'states':>8s} {'transitions':>12s} {'rows':>5s} {'s':>6s}  longest way to an end")
    results = []
    with ProcessPoolExecutor(max(1, min(jobs, len(names)))) as pool:
        largest_first = sorted(names, key=lambda name: -len(CELLS[name][2]) if name in CELLS else -math.inf)
        searches = {pool.submit(timed, name, max_problems): name for name in largest_first}
        for done in as_completed(searches):
            found, took_s = done.result()
            results.append(found)
            counts = f"{found.states:8d} {found.transitions:12d} {len(found.rows):5d} {took_s:6.1f}"
            ways = ", ".join(f"{steps} when {way}" for way, steps in found.longest.items())
            print(f"{searches[done]:28s} {counts}  {ways}", flush=True)
            for problem in found.problems:
                print(f"  BROKEN {problem}")
    return results


def timed(name: str, max_problems: int) -> tuple[SearchResult, float]:
    """Search one cell; returns what was found, and how long it took in s."""
    gc.disable()  # no reference cycles here, and scanning the many keys takes long
    began_s = time.monotonic()
    if name in ARM_CELLS:
        found = search_arm(name, max_problems=max_problems, progress=SearchProgress(name))
    else:
        key_of = coarse if name in COARSE else fine
        found = search(core_of(name), max_problems=max_problems, key_of=key_of, progress=SearchProgress(name))
    return found, time.monotonic() - began_s


class SearchProgress:
    """Tells now and then how far a search is."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._began_s = self._told_s = time.monotonic()

    def __call__(self, found: SearchResult, waiting: int) -> None:
        now_s = time.monotonic()
        if now_s - self._told_s > TOLD_EVERY_S:
            self._told_s = now_s
            so_far = f"{found.states} states so far, {waiting} more known, {now_s - self._began_s:.0f} s"
            print(f"  ... {self._name}: {so_far}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
