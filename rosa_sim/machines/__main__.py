"""Two machines on one with a gateway each, 32 robots and the simulated Panda, and what they lost to what went wrong
with the machines and to what people did. `--one-gateway`: one server, whose workers are on both, and no Panda.

make cluster, or .venv-ray/bin/python -m rosa_sim.machines [--one-gateway] [--robots 32] [--repeat 1] [--no-panda]
    [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from rosa_sim.machines import gateway_each
from rosa_sim.machines.nodes import two_nodes
from rosa_sim.machines.panda import python_of
from rosa_sim.machines.planned import plan
from rosa_sim.machines.rows import Row, table, together
from rosa_sim.machines.story import AFTER_S, Story, factory, story
from rosa_sim.namespaces import denied

BACKEND = "rosa_sim.machines.troubled:TroubledBackend"
SERVERS = 2  # of the schedule that it begins with
CALM_S = 6.0
CUT_S = 3.0
LONG_S = 600.0


class Events:
    """What goes wrong or is done by people, one after the other, and what it cost."""

    def __init__(self, told: Story, folder: Path, robots: int) -> None:
        self._told, self._folder, self._nodes, self._robots = told, folder, told.nodes, robots

    def begin(self) -> None:
        """Server and robots. Raises `TimeoutError` where something that has to happen does not."""
        told, (old, new) = self._told, (self._folder / "old", self._folder / "new")
        for path in (old, new):
            path.write_text("weights")
        content = factory(self._nodes, workers=0, weights=str(old))
        content["models"]["policy"]["backend"] = BACKEND
        told.serve(content, *plan(self._nodes, content, self._folder, SERVERS))
        told.until(lambda: len(told.events("worker_ready")) == SERVERS, "every worker ready")
        told.robots(self._robots, LONG_S)
        told.until(lambda: len(told.served(0.0)) == self._robots, "every robot served")

    def one_of_each(self) -> list[Row]:
        """A killed worker, a cut link, what a person does to the running server, and a killed machine."""
        nodes, folder = self._nodes, self._folder
        theirs = nodes.workers(nodes.two)[0]
        shadow = ("--shadow", "3", "--slower", "10")
        return [
            self._happens("a worker is killed", lambda: os.kill(theirs, signal.SIGKILL), "worker_ready"),
            self._happens(f"a link is cut for {CUT_S:g} s", self._cut, "worker_back"),
            self._ordered("a server is drained", "drain", "gpu1"),
            self._ordered("and given back", "undrain", "gpu1"),
            self._ordered(
                "new weights, after 3 s in the shadow", "rollout", "policy", str(folder / "new"), *shadow
            ),
            self._ordered("a third server", "scale", "servers=3", "--save", str(folder / "three.json")),
            self._happens("a machine is killed", lambda: nodes.kill(nodes.two), "worker_ready"),
            self._ordered("two servers again", "reschedule", str(folder / f"plan{SERVERS}.json")),
        ]

    def _cut(self) -> None:
        self._nodes.cut(self._nodes.two)
        time.sleep(CUT_S)
        self._nodes.mend(self._nodes.two)

    def _calm(self, what: str, seconds: float) -> None:
        """Nothing happens for a while, and nothing should be missed."""
        calm_s = time.monotonic()
        time.sleep(seconds)
        before = self._told.missed(calm_s, time.monotonic() - calm_s)
        if before:
            print(f"before {what!r} {sum(before.values())} calls were missed for another reason", flush=True)

    def _happens(self, what: str, act: Callable[[], None], healed: str) -> Row:
        told = self._told
        self._calm(what, CALM_S)
        at_s = time.monotonic()
        act()
        told.until(lambda: told.events(healed, at_s), f"{healed} after {what!r}")
        time.sleep(max(0.0, at_s + AFTER_S - time.monotonic()))
        noticed_s = told.noticed(at_s)[0]["at_s"] - at_s
        healed_s = told.events(healed, at_s)[-1]["at_s"] - at_s
        return self._row(what, at_s, noticed_s, healed_s)

    def _ordered(self, what: str, *words: str) -> Row:
        """Raises `TimeoutError` where it is refused."""
        self._calm(what, CALM_S / 3)
        at_s = time.monotonic()
        done = self._told.rosa(*words)
        if done.returncode:
            raise TimeoutError(f"rosa {' '.join(words)}: {done.stderr[-2000:]}")
        return self._row(what, at_s, 0.0, time.monotonic() - at_s)

    def _row(self, what: str, at_s: float, noticed_s: float, healed_s: float) -> Row:
        later_s = time.monotonic()
        time.sleep(CALM_S / 2)
        missed = self._told.missed(at_s, time.monotonic() - at_s)
        lost = self._robots - len(self._told.served(later_s))
        return Row(what, noticed_s, healed_s, len(missed), max(missed.values(), default=0), lost)


def once(robots: int) -> list[Row]:
    """Two new machines, a server, robots, one of each event, and a clean end."""
    began_s = time.monotonic()
    print("starting two nodes of Ray ...", flush=True)
    with two_nodes() as nodes, tempfile.TemporaryDirectory(prefix="rosa-story-") as folder:
        print(f"two nodes run after {time.monotonic() - began_s:.0f} s", flush=True)
        with story(nodes, Path(folder)) as told:
            events = Events(told, Path(folder), robots)
            events.begin()
            rows = events.one_of_each()
            if status := told.stop():
                raise TimeoutError(f"the server ended with status {status}:\n{told.text()[-3000:]}")
            calls = [call for call in told.calls() if call.component]
    in_time, took_s = sum(call.ending == "in_time" for call in calls), time.monotonic() - began_s
    print(
        f"{robots} robots, {len(calls)} calls, {in_time} in time; ended clean after {took_s:.0f} s",
        flush=True,
    )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--robots", type=int, default=32)
    parser.add_argument(
        "--repeat", type=int, default=1, help="repetitions; the table shows the worst of them"
    )
    parser.add_argument("--one-gateway", action="store_true", help="one server with workers on both machines")
    parser.add_argument("--no-panda", action="store_true", help="virtual robots only")
    parser.add_argument("--json", type=Path, help="write the rows of every repetition to this file")
    arguments = parser.parse_args()
    if why := denied():
        print(f"this needs network namespaces, which need root and `ip`: {why}", file=sys.stderr)
        return 2
    panda = not arguments.no_panda and not arguments.one_gateway
    if panda and not python_of("rclpy"):
        print("no rclpy here, so no simulated Panda", flush=True)
        panda = False
    rows, worked = [], True
    for _ in range(arguments.repeat):
        if arguments.one_gateway:
            rows += once(arguments.robots)
            continue
        its, well = gateway_each.once(arguments.robots, panda)
        rows, worked = rows + its, worked and well
    print(table(together(rows)))
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return 0 if worked and not any(row.lost for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
