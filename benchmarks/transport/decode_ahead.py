"""Does a model wait for its pictures? Throughput of a worker with and without decoding ahead, against the model's own.

    python -m benchmarks.transport.decode_ahead [--turns 6] [--seconds 4]

16 robots with two JPEG cameras of 640x480, and a model that sleeps as long as a GPU would compute, so that the GIL and
the cores are free meanwhile. It takes half of the robots in a batch: while it runs one half, the other asks. Its own
throughput is its batch over its time. Two servers take turns: one as it is, one whose worker decodes when the model has
ended.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import RESULTS
from benchmarks.conclude import print_aims, write
from benchmarks.transport.path import ANSWER_S, BUDGET_MS, START_S, Row, Trips, crowd_process, running, said
from rosa_server.models.emulated import EmulatedBackend
from rosa_sim.ports import free_port

ROBOTS, BATCH = 16, 8
CAMERAS = ("front", "wrist")
KILOBYTES = 60
TIMES_MS = (60, 120)  # of a batch
MIN_SHARE = 0.97
CORES = 4  # decoding, gateway and robots need them beside the model

FACTORY = """
server_cluster: {{num_servers: 1}}
robot_fleet: [{{task: kb60, num_robots: {robots}}}]
kb60: {{pipeline: {{action_period_ms: 100}}, components: {{system1: {{model: slow, slo_ms: {budget:.0f}}}}}}}
models:
  slow:
    backend: "{backend}"
    options:
      images: {{front: [480, 640], wrist: [480, 640]}}
      state: {{state: 8}}
      latency_ms: {latency}
      max_batch: {batch}
gateway: {{bind: "{address}", metrics_port: 0}}
"""


class Waiting(EmulatedBackend):
    """Of a worker that decodes a batch when the one before it has ended."""

    def load(self) -> None:
        from rosa_server.serving.worker import batch_worker

        vars(batch_worker)["MIN_RUN_MS"] = float("inf")  # its own name for it, which it does not export


def server_process(address: str, latency_ms: int, ahead: bool) -> None:
    from rosa_server.cli import main

    backend = "emulated" if ahead else "benchmarks.transport.decode_ahead:Waiting"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "factory.yaml"
        asked = {"robots": ROBOTS, "budget": BUDGET_MS, "latency": latency_ms, "batch": BATCH}
        path.write_text(FACTORY.format(backend=backend, address=address, **asked))
        main(["serve", str(path)])


def per_second(trips: Trips) -> float:
    """Answers a second, between the first and the last."""
    ends_s = sorted(times[2] for times in trips.values())
    return (len(ends_s) - 1) / (ends_s[-1] - ends_s[0])


def measure(latency_ms: int, turns: int, seconds: float) -> Row:
    """One row: medians over the turns."""
    context = multiprocessing.get_context("spawn")
    sides: list[tuple[Any, Any, Any]] = []
    for ahead in (True, False):
        address = f"tcp://127.0.0.1:{free_port()}"
        ours, theirs = context.Pipe()
        server = context.Process(target=server_process, args=(address, latency_ms, ahead))
        crowd = context.Process(target=crowd_process, args=(address, KILOBYTES, ROBOTS, theirs, CAMERAS))
        sides.append((server, crowd, ours))
    rates: list[list[float]] = [[], []]
    waits_ms: list[list[float]] = [[], []]
    with running(sides[0][0]), running(sides[1][0]), running(sides[0][1]), running(sides[1][1]):
        for _, _, pipe in sides:
            said(pipe, START_S)
        for turn in range(-1, turns):
            for side in (0, 1) if turn % 2 else (1, 0):
                pipe = sides[side][2]
                pipe.send((ROBOTS, seconds if turn >= 0 else 1.0, (turn + 2) * 1_000_000))
                trips = said(pipe, seconds + START_S + ANSWER_S)
                if turn >= 0:
                    rates[side].append(per_second(trips))
                    waits_ms[side].append(
                        float(np.median([(one[3] - one[0]) * 1000 for one in trips.values()]))
                    )
            print(f"{latency_ms} ms: turn {turn + 1} of {turns} done", file=sys.stderr, flush=True)
        for _, crowd, pipe in sides:
            pipe.send(None)
            crowd.join(30)
    own = BATCH / latency_ms * 1000
    ahead_hz, after_hz = (float(np.median(one)) for one in rates)
    # What a batch takes beside the model, of which decoding is by far the most.
    left_ms, whole_ms = (1000 * BATCH / hz - latency_ms for hz in (ahead_hz, after_hz))
    return {
        "model_ms": latency_ms,
        "own_hz": round(own, 1),
        "ahead_hz": round(ahead_hz, 1),
        "after_hz": round(after_hz, 1),
        "ahead_share": round(ahead_hz / own, 3),
        "after_share": round(after_hz / own, 3),
        "model_waits_ms": round(left_ms, 1),
        "model_waited_ms": round(whole_ms, 1),
        "hidden": round(1 - left_ms / whole_ms, 3),
        "p50_ms": [round(float(np.median(one)), 1) for one in waits_ms],
        "turns_hz": [[round(hz, 1) for hz in one] for one in rates],
    }


def judge(rows: Sequence[Row], cores: int) -> list[Row]:
    """The aims, and whether they hold; with too few cores the first says what was reached."""
    worst = min(row["ahead_share"] for row in rows)
    enough = (
        "" if cores >= CORES else f"; {cores} shared cores, which robots, gateway and decoding need as well"
    )
    return [
        {
            "aim": f"a worker that decodes ahead has at least {100 * MIN_SHARE:.0f} % of its model's own throughput",
            "value": f"{100 * worst:.1f} %{enough}",
            "holds": worst >= MIN_SHARE,
        },
        {
            "aim": "more than one that decodes when the model has ended, at each time of the model",
            "value": ", ".join(f"{row['ahead_hz'] / row['after_hz']:.2f}x" for row in rows),
            "holds": all(row["ahead_hz"] > row["after_hz"] for row in rows),
        },
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each turn")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where decode_ahead.json goes")
    asked = parser.parse_args(arguments)
    load = os.getloadavg()[0]
    rows = [measure(latency_ms, asked.turns, asked.seconds) for latency_ms in TIMES_MS]
    for row in rows:
        print(row)
    aims = judge(rows, os.cpu_count() or 1)
    print_aims(aims)
    notes = [
        f"Load {load:.1f} before the run, {os.getloadavg()[0]:.1f} after it.",
        "model_waits_ms: what a batch takes beside the model's own time, decoding ahead; model_waited_ms: without.",
        "hidden: the share of that which decoding ahead removes.",
    ]
    write(
        asked.out / "decode_ahead.json",
        rows,
        aims,
        notes,
        options=f"--turns {asked.turns} --seconds {asked.seconds:g}",
        how="",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
