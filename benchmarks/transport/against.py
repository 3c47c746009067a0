"""One robot's round trip through this tree's server and through another commit's, in one run, call by call in turns.

    python -m benchmarks.transport.against 2260fb9 [--starts 6] [--turns 20] [--calls 200]
    python -m benchmarks.transport.against compiled     # this tree as `rosa-compiled` has it; nothing is then written

Each server runs from its own tree, and so does its client; both use this environment. They take turns, each first in
every other turn, so that noise of the machine falls on both. All are started anew several times: where a process's
memory and threads come to lie changes its times by a few percent for as long as it lives.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from benchmarks import RESULTS, ROOT, command_of
from benchmarks.processes import ended
from benchmarks.transport.transport import machine
from benchmarks.trees import COMPILED, tree_of
from rosa_sim.ports import free_port

MAX_RISE = 1.03  # of the median, against the other commit
NICE = -10
WARM_UP = 50  # calls before each turn
PLACES = (
    "benchmarks/transport/peers",
    "benchmarks/peers",
)  # of the clients and servers, in one tree or another
SERVER = "import sys; from {module} import rosa; rosa.serve(sys.argv[1])"
CLIENT = """
import json, sys, time
from {module} import observation, rosa
client, seen = rosa.Client(sys.argv[1], "robot"), observation()
for line in sys.stdin:
    client.ready()
    for _ in range({warm_up}):
        client.call(seen)
    times_ms = []
    for _ in range(int(line)):
        began_s = time.perf_counter()
        client.call(seen)
        times_ms.append((time.perf_counter() - began_s) * 1000)
    print(json.dumps(times_ms), flush=True)
"""


class Side:
    """The server and the client of one tree."""

    def __init__(self, tree: Path, stack: ExitStack) -> None:
        place = next((place for place in PLACES if (tree / place).is_dir()), None)
        if place is None:
            raise SystemExit(f"{tree}: expected one of {', '.join(PLACES)}")
        module = place.replace("/", ".") if place == PLACES[0] else Path(place).name
        folders = [tree] if place == PLACES[0] else [tree, tree / Path(place).parent]
        # -P: not the folder that this runs in, which has the same modules.
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
        address = f"tcp://127.0.0.1:{free_port()}"
        python = [sys.executable, "-P", "-c"]
        self._server = stack.enter_context(
            running([*python, SERVER.format(module=module), address], env, tree, subprocess.DEVNULL)
        )
        code = CLIENT.format(module=module, warm_up=WARM_UP)
        self._client = stack.enter_context(running([*python, code, address], env, tree, subprocess.PIPE))

    def turn(self, calls: int) -> tuple[list[float], dict[str, float]]:
        """Round trips in ms, and the CPU time in us that each of the server's processes took for a call."""
        before = self._cpu_s()
        client = self._client
        assert client.stdin is not None and client.stdout is not None
        client.stdin.write(f"{calls}\n")
        client.stdin.flush()
        line = client.stdout.readline()
        if not line:
            raise SystemExit(f"the client ended with status {client.wait(5)}")
        after = self._cpu_s()
        return json.loads(line), {
            name: (after[name] - before.get(name, 0.0)) * 1e6 / (calls + WARM_UP) for name in after
        }

    def _cpu_s(self) -> dict[str, float]:
        process = psutil.Process(self._server.pid)
        found = {"gateway": sum(process.cpu_times()[:2])}
        for child in process.children(recursive=True):
            if "--spec" in child.cmdline():
                found["worker"] = sum(child.cpu_times()[:2])
        return found


def running(
    command: list[str], env: dict[str, str], cwd: Path, stdout: int
) -> AbstractContextManager[subprocess.Popen[str]]:
    quiet = subprocess.DEVNULL
    return ended(
        subprocess.Popen(
            command, env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=stdout, stderr=quiet, text=True
        )
    )


Turns = dict[str, list[tuple[list[float], dict[str, float]]]]  # tree -> what each of its turns gave


def one_start(trees: dict[str, Path], turns: int, calls: int) -> Turns:
    """The turns of both trees with processes that live as long as this."""
    found: Turns = {name: [] for name in trees}
    with ExitStack() as stack:
        sides = {name: Side(tree, stack) for name, tree in trees.items()}
        for number in range(-1, turns):  # the first one waits for the servers, and counts for nothing
            for name in list(sides) if number % 2 else reversed(sides):
                turn = sides[name].turn(calls)
                if number >= 0:
                    found[name].append(turn)
    return found


def measure(commit: str, starts: int, turns: int, calls: int) -> list[dict[str, Any]]:
    """One row per tree."""
    with ExitStack() as stack:
        trees = {"this tree": ROOT, commit: tree_of(commit, stack)}
        found = []
        for number in range(starts):
            print(f"start {number + 1} of {starts} ...", file=sys.stderr, flush=True)
            found.append(one_start(trees, turns, calls))
    rows = []
    for name in trees:
        per_start = [[ms for trips, _ in one[name] for ms in trips] for one in found]
        cpu = [spent for one in found for _, spent in one[name]]
        pooled = sorted(ms for one in per_start for ms in one)
        row: dict[str, Any] = {"tree": name}
        for share in (5, 20, 50, 99):
            row[f"p{share}_ms"] = round(pooled[min(len(pooled) - 1, len(pooled) * share // 100)], 4)
        row["p50_ms_per_start"] = [round(statistics.median(one), 4) for one in per_start]
        for part in ("gateway", "worker"):
            row[f"{part}_us"] = round(statistics.mean(one[part] for one in cpu), 1)
        rows.append(row)
    return rows


def first_in_line() -> bool:
    """Before other processes, where the system allows it. Not with a real-time priority: threads of the same one do not
    interrupt each other, so that whatever is done after an answer delays it.
    """
    try:
        os.nice(NICE)
    except PermissionError:
        return False
    return True


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 3.2), layout="constrained")
    for row, colour in zip(rows, ("tab:orange", "tab:gray"), strict=True):
        axes.plot(
            row["p50_ms_per_start"], "o-", color=colour, label=f"{row['tree']}: p50 {row['p50_ms']:.3f} ms"
        )
    axes.set_xlabel("start of both servers")
    axes.set_ylabel("median round trip, ms")
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", nargs="?", default="2260fb9", help="default: %(default)s")
    parser.add_argument("--starts", type=int, default=6, help="of both servers; default: %(default)s")
    parser.add_argument("--turns", type=int, default=20, help="of each tree after each start")
    parser.add_argument("--calls", type=int, default=200, help="of each tree in each turn")
    arguments = parser.parse_args()
    where, first = machine(), first_in_line()
    rows = measure(arguments.commit, arguments.starts, arguments.turns, arguments.calls)
    ratio = rows[0]["p50_ms"] / rows[1]["p50_ms"]
    for row in rows:
        print(
            f"{row['tree']:12} p5 {row['p5_ms']:.3f}  p20 {row['p20_ms']:.3f}  p50 {row['p50_ms']:.3f}  "
            f"p99 {row['p99_ms']:.3f} ms; CPU of a call: gateway {row['gateway_us']:.0f} us, "
            f"worker {row['worker_us']:.0f} us"
        )
    if arguments.commit == COMPILED:
        print(f"compiled / plain: p50 {1 / ratio:.3f}")
        return 0
    aim = {
        "aim": f"1 client: p50 of this tree / {arguments.commit} < {MAX_RISE:g}",
        "value": round(ratio, 3),
        "holds": ratio < MAX_RISE,
    }
    print(f"{'holds ' if aim['holds'] else 'MISSED'} {aim['aim']}: {aim['value']:.3f}")
    result = {
        "name": "against",
        "command": " ".join([command_of("against"), *sys.argv[1:]]),
        "machine": f"{where}{', nice -10' if first else ''}",
        "date": datetime.now(UTC).date().isoformat(),
        "rows": rows,
        "aims": [aim],
    }
    (RESULTS / "against.json").write_text(json.dumps(result, indent=2) + "\n")
    plot(rows, RESULTS / "against.png")
    print(f"written: {RESULTS / 'against.json'}, {RESULTS / 'against.png'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
