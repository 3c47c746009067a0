"""What it would save to send the pictures of an observation once, and to refer to them in the calls that follow.

    python -m benchmarks.transport.pictures [--calls 300]

Today each call about an observation carries its pictures. Round trips through `rosa serve` with a null model that takes
two JPEG pictures, and with one that takes none, in turn: the difference is all that a reference could save on one
machine, decoding included. CPU is that of gateway and worker together. The bytes of a round are those of the sorting
task with `share_observation_ms`, whose calls mostly share one observation. Writes benchmarks/results/pictures.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import cv2
import numpy as np

from benchmarks import RESULTS
from benchmarks.conclude import print_aims, write
from rosa_client.connection.link import GatewayLink
from rosa_contract.wire.images import EncodedImage, encode_image
from rosa_contract.wire.messages import CameraInfo, Hello, Request
from rosa_sim.ports import free_port

RESULT = RESULTS / "pictures.json"
SIZES = {"2 x 96x96": (96, 96), "2 x 640x480": (480, 640)}
CALLS_PER_ROUND = 1 + 0.5 + 1 + 0.45  # System 1, System 2, safety, monitor of configs/sort_parts.yaml
SYSTEM1_MS = 55.0  # of the shipped model, configs/profiles/cpu
LINK_MBIT_S = 100.0
ROUNDS = 4
FACTORY = """
server_cluster: {{num_servers: 4}}
robot_fleet: [{{task: t, num_robots: 1}}]
t:
  pipeline: {{action_period_ms: 100}}
  components:
    system1: {{model: m0, slo_ms: 5000}}
{components}
models:
  m0: {{backend: "null", options: {{images: {{}}, state: {{state: 8}}}}}}
{models}
gateway: {{bind: "{address}", metrics_port: 0}}
"""
Row = dict[str, Any]


def factory(address: str) -> str:
    """A component for each size, which takes its two pictures; System 1 takes none."""
    components, models = [], []
    for number, (height, width) in enumerate(SIZES.values(), start=1):
        cameras = f"{{a{number}: [{height}, {width}], b{number}: [{height}, {width}]}}"
        components.append(f"    c{number}: {{model: m{number}, slo_ms: 5000, freq_hz: 1}}")
        models.append(
            f'  m{number}: {{backend: "null", options: {{images: {cameras}, state: {{state: 8}}}}}}'
        )
    return FACTORY.format(components="\n".join(components), models="\n".join(models), address=address)


def picture(height: int, width: int, seed: int) -> EncodedImage:
    """As smooth as a picture of a table."""
    coarse = np.random.default_rng(seed).integers(0, 256, (height // 8, width // 8, 3), dtype=np.uint8)
    fine = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    return encode_image(np.asarray(fine, np.uint8), "jpeg")


def cpu_s(pid: int) -> float:
    """CPU time of a process and of all below it."""
    ticks, total, waiting = os.sysconf("SC_CLK_TCK"), 0.0, [pid]
    while waiting:
        one = waiting.pop()
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / ticks
        for task in Path(f"/proc/{one}/task").iterdir():
            waiting += [int(child) for child in (task / "children").read_text().split()]
    return total


class Caller:
    """One robot."""

    def __init__(self, address: str) -> None:
        cameras = {
            f"{name}{number}": CameraInfo(height=size[0], width=size[1], encoding="jpeg")
            for number, size in enumerate(SIZES.values(), start=1)
            for name in "ab"
        }
        self._link = GatewayLink(address, Hello("robot", "t", cameras, {"state": 8}))
        self._state = {"state": np.zeros(8, np.float32)}
        self._number = 0
        until_s = time.monotonic() + 60
        while not self._link.ready:
            self._link.poll(0.1, time.monotonic())
            if time.monotonic() > until_s:
                raise TimeoutError(f"the server did not become ready: {self._link.reason}")

    def call_ms(self, component: str, images: dict[str, EncodedImage]) -> float:
        """One round trip."""
        self._number += 1
        began_s = time.monotonic()
        request = Request(self._number, component, 5000, "", self._state, images, observation=self._number)
        self._link.send(request, began_s)
        while time.monotonic() < began_s + 5:
            for answer in self._link.poll(0.5, time.monotonic()):
                if answer.request_id == self._number:
                    if answer.output is None:
                        raise RuntimeError(f"{component}: {answer.status}: {answer.reason}")
                    return 1000 * (time.monotonic() - began_s)
        raise TimeoutError(f"no answer from {component}")

    def close(self) -> None:
        self._link.close()


def measured(caller: Caller, pid: int, calls: int) -> list[Row]:
    """A row for each size: round trips and CPU with and without pictures, in turn."""
    sent: dict[str, dict[str, EncodedImage]] = {"system1": {}}
    for number, size in enumerate(SIZES.values(), start=1):
        sent[f"c{number}"] = {
            name: picture(*size, seed) for seed, name in enumerate((f"a{number}", f"b{number}"))
        }
    times: dict[str, list[float]] = {name: [] for name in sent}
    cpu: dict[str, list[float]] = {name: [] for name in sent}
    for _ in range(ROUNDS):
        for name, images in sent.items():
            caller.call_ms(name, images)
            before_s = cpu_s(pid)
            times[name] += [caller.call_ms(name, images) for _ in range(calls // ROUNDS)]
            cpu[name].append(1000 * (cpu_s(pid) - before_s) / (calls // ROUNDS))
    rows = []
    for number, what in enumerate(SIZES, start=1):
        name = f"c{number}"
        one_kb = sum(len(image.data) for image in sent[name].values()) / 1000
        again = CALLS_PER_ROUND - 1
        rows.append(
            {
                "pictures of a call": what,
                "kB of a call": round(one_kb, 1),
                "kB of a round, as sent": round(CALLS_PER_ROUND * one_kb, 1),
                "kB of a round, sent once": round(one_kb, 1),
                "round trip with, p50 ms": round(median(times[name]), 2),
                "without, p50 ms": round(median(times["system1"]), 2),
                "server CPU with, ms": round(min(cpu[name]), 2),
                "without, ms": round(min(cpu["system1"]), 2),
                f"ms of a round on a link of {LINK_MBIT_S:g} Mbit/s": round(
                    again * one_kb * 8 / LINK_MBIT_S, 2
                ),
            }
        )
    return rows


def aims_of(rows: list[Row]) -> list[Row]:
    """Whether references would be worth their parts: sending pictures again costs 5 % of a System 1 call at least."""
    small = rows[0]
    costs_ms = small["round trip with, p50 ms"] - small["without, p50 ms"]
    share = costs_ms / SYSTEM1_MS
    return [
        {
            "aim": "pictures of the sorting task, sent again, cost less than 5 % of a System 1 call",
            "value": f"{costs_ms:.2f} ms, {share:.1%}".replace("%", " %"),
            "holds": share < 0.05,
        }
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=300, help="of each kind")
    args = parser.parse_args()
    address = f"tcp://127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "factory.yaml"
        path.write_text(factory(address))
        words = [sys.executable, "-m", "rosa_server.cli", "serve", str(path)]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL) as server:
            try:
                caller = Caller(address)
                rows = measured(caller, server.pid, args.calls)
                caller.close()
            finally:
                server.terminate()
    aims = aims_of(rows)
    for row in rows:
        print(json.dumps(row))
    print_aims(aims)
    note = "On one machine; a link's time is computed from the bytes."
    write(RESULT, rows, aims, [note], f"--calls {args.calls}", f"; load average {os.getloadavg()[0]:.0f}")
    return 0 if all(aim["holds"] for aim in aims) else 1


if __name__ == "__main__":
    raise SystemExit(main())
