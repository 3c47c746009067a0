"""What a request costs one gateway: CPU time of its threads, and where the thread that decides spends it.

    python -m benchmarks.transport.gateway_cost [--robots 1 16 64] [--turns 24] [--seconds 0.3] [--against COMMIT]

`rosa serve` with a null model and pictures of 60 kB (JPEG); each robot asks again when it has been answered. Counted is
CPU time, in ns, from the kernel's account of each thread, so that what other programs run beside it is left out but for
the caches that they spoil. A row is the lower quartile of many short turns. A second server says how much of the
thread that decides goes where: its methods are timed (`parts`), each without those that it calls. That is time on the
wall: who wakes another thread on a busy core waits for it. `--against` has the server of another commit take turns with
this one.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import RESULTS
from benchmarks.conclude import print_aims, write
from benchmarks.transport.path import (
    ANSWER_S,
    START_S,
    Row,
    Trips,
    crowd_process,
    running,
    said,
    server_process,
)
from benchmarks.trees import tree_of
from rosa_sim.ports import free_port

KILOBYTES = 60
ROBOTS = (1, 16, 64)
AIM_ROBOTS = 16
MAX_GATEWAY_US = 200.0  # of CPU time a request: one core then carries 5,000 of them a second
LOWER = 25  # percentile over the turns: noise only adds
USUAL = 95  # percentile of a method's calls: what takes longer was interrupted
OURS, PARTS, THEIRS = "this tree", "timed", "other commit"
SERVER = "import sys; from benchmarks.transport import path; path.server_process(sys.argv[1], int(sys.argv[2]), '')"
THREADS = {"main": "decides", "ZMQbg/IO/0": "ZeroMQ's"}  # by the kernel's name


class Parts:
    """Times methods, each without those of the others that it calls."""

    def __init__(self) -> None:
        self.self_ns: dict[str, list[int]] = defaultdict(list)
        self._inner_ns: list[int] = []  # of what each method under way has called

    def time(self, owner: Any, name: str, part: str) -> None:
        """Count calls of `owner.name` as `part`."""
        plain, took, inner, clock = (
            getattr(owner, name),
            self.self_ns[part],
            self._inner_ns,
            time.perf_counter_ns,
        )

        def timed(*arguments: Any, **named: Any) -> Any:
            inner.append(0)
            began = clock()
            try:
                return plain(*arguments, **named)
            finally:
                spent = clock() - began
                took.append(spent - inner.pop())
                if inner:
                    inner[-1] += spent

        setattr(owner, name, timed)

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self.self_ns))


def timed_parts(parts: Parts) -> None:
    """Time the methods that a request passes in this process's gateway."""
    from rosa_contract.wire import codec
    from rosa_server.serving.core.dispatch.core import ServingCore
    from rosa_server.serving.edge.doorman import Doorman
    from rosa_server.serving.edge.intake import Intake
    from rosa_server.serving.edge.metrics import Metrics
    from rosa_server.serving.edge.robots_socket import RobotsSocket
    from rosa_server.serving.edge.workers.desk import WorkerDesk
    from rosa_server.serving.edge.workers.links import WorkerLinks
    from rosa_server.serving.watching.hub import Hub

    methods: tuple[tuple[Any, str, str], ...] = (
        (Intake, "_take", "receive: frames of a request"),
        (Intake, "read", "guard: whose it is, what it took"),
        (Doorman, "ignores", "guard: whose it is, what it took"),
        (Doorman, "is_robot", "guard: whose it is, what it took"),
        (Intake, "handled", "guard: whose it is, what it took"),
        (codec, "read_robot_header", "header of a request"),
        (ServingCore, "on_request", "decide: accept, queue"),
        (ServingCore, "tick", "decide: batch, choose a worker"),
        (ServingCore, "actions", "decide: batch, choose a worker"),
        (WorkerDesk, "dispatch", "hand over: header of a batch"),
        (WorkerLinks, "send", "hand over: copy, wake the worker"),
        (WorkerLinks, "shared", "worker's answer: read, decode"),
        (codec, "decode", "worker's answer: read, decode"),
        (ServingCore, "on_executed", "decide: end calls"),
        (codec, "response_header", "answer: header"),
        (Doorman, "answers", "guard: unread answers"),
        (RobotsSocket, "send", "answer: send"),
        (Metrics, "answered", "count"),
        (Metrics, "batch_done", "count"),
        (Metrics, "engine", "count"),
        (Hub, "answered", "count"),
        (Hub, "ran", "count"),
    )
    for owner, name, part in methods:
        parts.time(owner, name, part)


def timed_server(address: str, robots: int, folder: str) -> None:
    """As `server_process`, with its parts timed; they are in `folder` when it has ended."""
    parts = Parts()
    timed_parts(parts)
    try:
        server_process(address, robots, "")
    finally:
        parts.write(Path(folder) / "parts.json")


def spent_ns(process: int) -> dict[str, int]:
    """CPU time of a process by thread: the one that decides, ZeroMQ's, all others."""
    found = dict.fromkeys((*THREADS.values(), "others"), 0)
    for task in Path(f"/proc/{process}/task").iterdir():
        name = "main" if task.name == str(process) else (task / "comm").read_text().strip()
        found[THREADS.get(name, "others")] += int((task / "schedstat").read_text().split()[0])
    return found


@contextmanager
def served_from(tree: Path, address: str, robots: int) -> Iterator[int]:
    """A server of another tree. Gives its process's number."""
    environment = {**os.environ, "PYTHONPATH": str(tree)}  # -P: not the folder that this runs in
    command = [sys.executable, "-P", "-c", SERVER, address, str(robots)]
    process = subprocess.Popen(command, env=environment, cwd=tree, stderr=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def measure(
    robots: Sequence[int], turns: int, seconds: float, other: Path | None, folder: Path
) -> dict[str, dict[int, list[dict[str, float]]]]:
    """Side -> robots -> for each turn, requests and the us of CPU time of a request by thread."""
    context = multiprocessing.get_context("spawn")
    limit = max(robots)
    seen: dict[str, dict[int, list[dict[str, float]]]] = {}
    sides: dict[str, tuple[int, Any]] = {}
    with ExitStack() as stack:
        for side in (OURS, PARTS, *((THEIRS,) if other is not None else ())):
            address = f"tcp://127.0.0.1:{free_port()}"
            if side == THEIRS and other is not None:
                number = stack.enter_context(served_from(other, address, limit))
            else:
                target: Callable[..., None] = timed_server if side == PARTS else server_process
                place = str(folder) if side == PARTS else ""
                server = context.Process(target=target, args=(address, limit, place))
                stack.enter_context(running(server))
                number = server.pid or 0
            ours, theirs = context.Pipe()
            stack.enter_context(
                running(context.Process(target=crowd_process, args=(address, KILOBYTES, limit, theirs)))
            )
            sides[side] = number, ours
            seen[side] = {count: [] for count in robots}
        for _, pipe in sides.values():
            said(pipe, START_S)
        asked = 0
        for turn in range(-1, turns):  # the first one warms up and is not counted
            for count in robots:
                for side in list(sides) if turn % 2 else reversed(list(sides)):
                    number, pipe = sides[side]
                    asked += 1_000_000
                    before = spent_ns(number)
                    pipe.send((count, seconds, asked))
                    trips: Trips = said(pipe, seconds + START_S + ANSWER_S)
                    after = spent_ns(number)
                    if turn >= 0:
                        each = {name: (after[name] - before[name]) / 1000 / len(trips) for name in after}
                        seen[side][count].append({"requests": len(trips), **each})
            print(f"turn {turn + 1} of {turns} done", file=sys.stderr, flush=True)
        for _, pipe in sides.values():
            pipe.send(None)
    return seen


def rows_of(seen: dict[str, dict[int, list[dict[str, float]]]]) -> list[Row]:
    """One row for each server and number of robots: lower quartiles over its turns."""
    rows = []
    for side, by_robots in seen.items():
        for count, turns in by_robots.items():
            threads = [name for name in turns[0] if name != "requests"]
            whole = [sum(turn[name] for name in threads) for turn in turns]
            quartile = {name: float(np.percentile([turn[name] for turn in turns], LOWER)) for name in threads}
            rows.append(
                {
                    "server": side,
                    "robots": count,
                    "requests": int(sum(turn["requests"] for turn in turns)),
                    "gateway_us": round(float(np.percentile(whole, LOWER)), 1),
                    "median_us": round(float(np.median(whole)), 1),
                    "threads_us": {name: round(value, 1) for name, value in quartile.items()},
                }
            )
    return rows


def parts_of(folder: Path, requests: int) -> Row:
    """Part -> us of a request: the mean of a call without the slowest, times its calls for a request. Not a quartile:
    some methods do nothing in most of their calls."""
    told: dict[str, list[int]] = json.loads((folder / "parts.json").read_text())
    found = {}
    for part, took in told.items():
        if took:
            limit_ns = float(np.percentile(took, USUAL))
            usual = [ns for ns in took if ns <= limit_ns]
            found[part] = round(float(np.mean(usual)) / 1000 * len(took) / requests, 2)
    return found


def judge(rows: Sequence[Row]) -> list[Row]:
    """The aim, and whether it holds."""
    return [
        {
            "aim": f"{row['robots']} robots, {KILOBYTES} kB: one core of a gateway carries 5,000 requests/s,"
            " ZeroMQ's thread too",
            "value": f"{row['gateway_us']:.0f} us of CPU time, {1e6 / row['gateway_us']:,.0f} requests/s",
            "holds": row["gateway_us"] <= MAX_GATEWAY_US,
        }
        for row in rows
        if row["server"] == OURS and row["robots"] == AIM_ROBOTS
    ]


def table(rows: Sequence[Row], parts: Row) -> str:
    """A line for each row, then one for each part."""
    lines = [
        f"{'us of CPU a request':20} robots  gateway   median  " + "  ".join((*THREADS.values(), "others"))
    ]
    for row in rows:
        threads = "  ".join(
            f"{row['threads_us'][name]:{len(name)}.1f}" for name in (*THREADS.values(), "others")
        )
        lines.append(
            f"{row['server']:20} {row['robots']:6} {row['gateway_us']:8.1f} {row['median_us']:8.1f}  {threads}"
        )
    lines += [f"  {part:34} {us:6.1f}" for part, us in sorted(parts.items(), key=lambda one: -one[1])]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--robots", type=int, nargs="+", default=list(ROBOTS))
    parser.add_argument("--turns", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each turn")
    parser.add_argument(
        "--against",
        default="",
        help="a commit whose server takes turns, or `compiled`: this tree, compiled; nothing is then written",
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="where gateway_cost.json goes")
    asked = parser.parse_args(arguments)
    load = os.getloadavg()[0]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        other = tree_of(asked.against, stack) if asked.against else None
        seen = measure(asked.robots, asked.turns, asked.seconds, other, folder)
        rows = rows_of(seen)
        timed = sum(row["requests"] for row in rows if row["server"] == PARTS)
        parts = parts_of(folder, timed)
    print(table(rows, parts))
    aims = judge(rows)
    print_aims(aims)
    if other is None:
        notes = [
            f"Load {load:.1f} before the run, {os.getloadavg()[0]:.1f} after it; lower quartiles of"
            f" {asked.turns} turns.",
            "parts_us: of all numbers of robots together, a method without the others that it calls; the"
            " timing itself takes about 0.3 us of each call.",
        ]
        options = f"--turns {asked.turns} --seconds {asked.seconds:g}"
        write(asked.out / "gateway_cost.json", rows, aims, notes, options=options, how="", parts_us=parts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
