"""Many seeds, one after another or side by side; goes on where it was interrupted.

Hours of an earlier version of the decisions stay, and are counted apart: another version goes on with further seeds.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import cache
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

from rosa_contract.process import die_with
from rosa_sim.chaos.plan import KINDS, NODE_KINDS, Plan, plan_of
from rosa_sim.chaos.run import Verdict, run, shrink

SAYS_EVERY_S = 10.0
# Compiled packages lie in a folder of its .cache, which they reach by a link.
CHECKOUT = (Path(__file__).resolve().parents[2] / ".cache").resolve().parent
# What decides in a run; a change of any of these is another version.
DECISIONS = (
    "rosa_client/connection/gateways.py",
    "rosa_client/connection/greeting.py",
    "rosa_client/runtime/**/*.py",
    "rosa_server/plan/*.py",
    "rosa_server/serving/core/**/*.py",
    "rosa_server/timing/*.py",
)
EARLIER = "earlier"  # hours of which nobody has written down the version


@cache
def version() -> str:
    """Of the decisions: the same for the same sources, compiled or not."""
    read = sha256()
    for path in sorted({path for pattern in DECISIONS for path in CHECKOUT.glob(pattern)}):
        read.update(f"{path.relative_to(CHECKOUT)}\0".encode() + path.read_bytes())
    return read.hexdigest()[:12]


def night(
    robot_hours: float,
    first_seed: int,
    processes: int,
    folder: Path,
    fresh: bool,
    say: Callable[[str], None],
    draw: Callable[[int], Plan] = plan_of,
) -> int:
    """Run the plans that `draw` makes of seeds until `robot_hours` are simulated. Returns 1 when a promise was broken,
    else 0."""
    path = folder / "summary.json"
    total = _Total(path, first_seed, fresh)
    version()  # as the sources are now, whatever becomes of them meanwhile
    if total.seeds:
        say(f"goes on after {total.seeds} seeds and {total.robot_hours:.0f} robot-hours of {path}")
    begun_s, before_h, said_s = time.perf_counter(), total.robot_hours, 0.0
    for verdict in _verdicts(total.open_seeds(), processes, lambda: total.robot_hours >= robot_hours, draw):
        total.add(verdict)
        if verdict.rule:
            _report(verdict, folder, say)
        now_s = time.perf_counter() - begun_s
        if now_s - said_s >= SAYS_EVERY_S:
            said_s = now_s
            per_minute = (total.robot_hours - before_h) / now_s * 60
            left_min = (robot_hours - total.robot_hours) / max(per_minute, 1e-9)
            say(
                f"{total.robot_hours:9.1f} of {robot_hours:g} robot-hours, {total.seeds} seeds, "
                f"{len(total.broken)} broken; {per_minute:.1f} robot-hours/min, {left_min:.0f} min left"
            )
            total.save()
    total.save()
    say(
        f"{total.robot_hours:.1f} robot-hours, {total.seeds} seeds, {sum(total.faults.values())} faults, "
        f"{total.counts['accepted']} requests: {len(total.broken)} broken; wrote {path}"
    )
    return 1 if total.broken else 0


class _Total:
    """What all seeds together have shown, kept in a file."""

    def __init__(self, path: Path, first_seed: int, fresh: bool) -> None:
        self._path, self._first = path, first_seed
        found: dict[str, Any] = {}
        if not fresh and path.is_file():
            found = json.loads(path.read_text())
        if found.get("first_seed") != first_seed:
            found = {}
        self._done: set[int] = set(found.get("done", ()))  # beyond `next_seed`
        self._next = int(found.get("next_seed", first_seed))
        self.robot_hours = float(found.get("robot_hours", 0.0))
        self.events, self.wall_s = int(found.get("events", 0)), float(found.get("cpu_s", 0.0))
        self.faults, self.counts = Counter(found.get("faults", {})), Counter(found.get("counts", {}))
        self.broken: dict[str, str] = dict(found.get("broken", {}))
        self.hours_of: dict[str, float] = defaultdict(
            float, found.get("hours_of", {EARLIER: self.robot_hours} if found else {})
        )

    @property
    def seeds(self) -> int:
        return self._next - self._first + len(self._done)

    def open_seeds(self) -> Iterator[int]:
        return (seed for seed in count(self._next) if seed not in self._done)

    def add(self, verdict: Verdict) -> None:
        self._done.add(verdict.plan.seed)
        while self._next in self._done:
            self._done.remove(self._next)
            self._next += 1
        self.robot_hours += verdict.robot_hours
        self.hours_of[version()] += verdict.robot_hours
        self.events += verdict.events
        self.wall_s += verdict.wall_s
        for name, number in verdict.counts.items():
            (self.faults if name in KINDS or name in NODE_KINDS else self.counts)[name] += number
        if verdict.rule:
            self.broken[str(verdict.plan.seed)] = verdict.words

    def save(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        document = {
            "first_seed": self._first,
            "next_seed": self._next,
            "done": sorted(self._done),
            "robot_hours": round(self.robot_hours, 3),
            "hours_of": {name: round(hours, 3) for name, hours in self.hours_of.items()},
            "events": self.events,
            "cpu_s": round(self.wall_s, 1),
            "faults": dict(sorted(self.faults.items())),
            "counts": dict(sorted(self.counts.items())),
            "broken": self.broken,
        }
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(document, indent=1) + "\n")
        new.replace(self._path)


def _verdicts(
    seeds: Iterator[int], processes: int, enough: Callable[[], bool], draw: Callable[[int], Plan]
) -> Iterator[Verdict]:
    if processes <= 1:
        while not enough():
            yield run(draw(next(seeds)))
        return
    with ProcessPoolExecutor(processes, initializer=die_with, initargs=(os.getpid(),)) as pool:
        running: set[Future[Verdict]] = set()
        while running or not enough():
            while len(running) < 2 * processes and not enough():
                running.add(pool.submit(_run_seed, next(seeds), draw))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                yield one.result()


def _run_seed(seed: int, draw: Callable[[int], Plan]) -> Verdict:
    return run(draw(seed))


def _report(verdict: Verdict, folder: Path, say: Callable[[str], None]) -> None:
    seed, nodes = verdict.plan.seed, "--nodes " if verdict.plan.nodes > 1 else ""
    say(f"seed {seed} BROKEN: {verdict.words}\n  again: python -m rosa_sim.chaos {nodes}replay {seed}")
    small = shrink(verdict, lambda line: say(f"  smaller: {line}"))
    path = folder / f"minimal-{seed}.json"
    small.plan.save(path, rule=small.rule, words=small.words)
    say(f"{small.plan}\n  {small.words}\n  again: python -m rosa_sim.chaos replay {path}")
