"""Does sharing what is seen pay off in the server? The sorting task's four components, through gateway and worker.

    python -m benchmarks.engines.kv_serving [--turns 4] [--seconds 5]

`rosa serve` with the shipped model and weights, once for each engine, in turns. Robots ask all four components about
one observation and look again when they have all answers. Each has pictures of its own, different in each round.
`isolated` runs batches, in which equal observations are seen once; `kv_sharing` is OxyGen, with up to eight actions
and prefills of several robots in a turn, or with one (`one by one`). CPU time is that of gateway and worker, which
others on the machine do not change much; rounds a second and System 1's latency they do.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import zmq

from benchmarks import RESULTS, ROOT
from benchmarks.conclude import print_aims, write
from benchmarks.transport.path import ANSWER_S, START_S, running, said
from rosa_contract.config.strict import read_yaml
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.images import EncodedImage, encode_image
from rosa_server.models.vla.backend import VlaBackend
from rosa_sim.ports import free_port

ENGINES = {  # row -> backend, engine
    "isolated": ("vla", "isolated"),
    "kv_sharing": ("vla", "kv_sharing"),
    "kv_sharing, one by one": ("benchmarks.engines.kv_serving:OneByOne", "kv_sharing"),
}
ROBOTS = (1, 2, 4, 8, 16)
COMPONENTS = ("system1", "system2", "safety", "monitor")
PROMPTS = {"system1": "pick up the red block", "safety": "is the workcell safe?"}
RULE = "put red, blue and white blocks into the left bin and all others into the right bin"
CAMERAS, SIDE, LOOKS = ("front", "wrist"), 96, 8
BUDGET_MS = 60_000.0
MIN_GAIN = 1.2  # rounds of `kv_sharing` for the CPU time of one of `isolated`
Row = dict[str, Any]


class OneByOne(VlaBackend):
    """One action chunk and one prefill in a turn of the engine."""

    def load(self) -> None:
        from rosa_server.models.vla import sharing

        sharing.PREFILLS = sharing.ACTIONS = 1
        super().load()


def server_process(address: str, row: str) -> None:
    import yaml

    from rosa_server.cli import main

    backend, engine = ENGINES[row]
    factory = read_yaml(ROOT / "configs" / "sort_parts.yaml")
    factory["robot_fleet"][0]["num_robots"] = max(ROBOTS)
    for component in factory["sort_parts"]["components"].values():
        component["slo_ms"] = BUDGET_MS
    factory["models"]["rosa/panda-vla"] = {"backend": backend, "options": {"engine": engine}}
    factory["gateway"] = {"bind": address, "metrics_port": 0}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "factory.yaml"
        path.write_text(yaml.safe_dump(factory))
        main(["serve", str(path)])


def looks(robot: int) -> list[dict[str, EncodedImage]]:
    """Pictures that no other robot has."""
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    made = []
    for number in range(LOOKS):
        disc = ((x - 20 - 8 * number) ** 2 + (y - 30 - 2 * robot) ** 2 < 12**2) * 120
        rgb = np.stack([x + disc, y + disc, (x + y) // 2], axis=-1).clip(0, 255).astype(np.uint8)
        made.append({camera: encode_image(rgb) for camera in CAMERAS})
    return made


class Robot:
    """Asks four components about each observation."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str, number: int) -> None:
        self.socket = context.socket(zmq.DEALER)
        self.socket.linger = 0
        self._address, self._number, self._looks = address, number, looks(number)
        self._ids, self._token = itertools.count(1), ""
        self._asked: dict[int, tuple[str, float]] = {}
        self.rounds = 0

    def ready(self) -> None:
        """Say hello until welcome."""
        if self._address:
            self.socket.connect(self._address)
            self._address = ""
        infos = {camera: m.CameraInfo(height=SIDE, width=SIDE, encoding="jpeg") for camera in CAMERAS}
        told = (f"robot{self._number}", "sort_parts", infos, {"joint_position": 7, "gripper_width": 1})
        end_s = time.monotonic() + START_S
        while time.monotonic() < end_s:
            self.socket.send_multipart(
                codec.encode(m.Hello(*told, token=self._token) if self._token else m.Hello(*told))
            )
            if self.socket.poll(10_000):
                answer = codec.decode(self.socket.recv_multipart())
                if isinstance(answer, m.Welcome):
                    self._token = answer.token
                    return
            time.sleep(0.1)
        raise TimeoutError(f"the server did not welcome robot {self._number} within {START_S} s")

    def ask(self) -> None:
        """Begin a round."""
        self.rounds += 1
        q = np.array([0.0, -0.2, 0.0, -2.3, 0.0, 2.1, 0.8], np.float32) + 0.01 * (self.rounds % 7)
        state = {"joint_position": q, "gripper_width": np.array([0.04], np.float32)}
        for component in COMPONENTS:
            number, prompt = next(self._ids), PROMPTS.get(component, RULE)
            pictures = self._looks[self.rounds % LOOKS]
            request = m.Request(
                number, component, BUDGET_MS, prompt, state, pictures, observation=self.rounds
            )
            self._asked[number] = component, time.monotonic()
            self.socket.send_multipart(codec.encode(request))

    def take(self, system1_ms: list[float]) -> bool:
        """Read an answer; true when the round is over. Raises `RuntimeError` for any other than a result."""
        answer = codec.decode(self.socket.recv_multipart())
        if isinstance(answer, m.HealthReport | m.Permit):
            return False
        if not isinstance(answer, m.Response) or answer.output is None:
            raise RuntimeError(f"expected a result, got {answer}")
        component, began_s = self._asked.pop(answer.request_id)
        if component == "system1":
            system1_ms.append((time.monotonic() - began_s) * 1000)
        return not self._asked


def crowd_process(address: str, pipe: Connection) -> None:
    """Obey (robots, seconds) until None: send back (rounds, seconds, System 1's latencies in ms)."""
    with zmq.Context() as context:
        everybody = [Robot(context, address, number) for number in range(max(ROBOTS))]
        pipe.send("up")
        for count, seconds in iter(pipe.recv, None):
            here = {robot.socket: robot for robot in everybody[:count]}
            poller = zmq.Poller()
            for socket, robot in here.items():
                robot.ready()
                poller.register(socket, zmq.POLLIN)
            system1_ms: list[float] = []
            began_s, rounds, busy = time.monotonic(), 0, count
            for robot in here.values():
                robot.ask()
            while busy:
                come = poller.poll(ANSWER_S * 1000)
                if not come:
                    raise TimeoutError(f"{busy} of {count} robots got no answer within {ANSWER_S} s")
                for socket, _ in come:
                    if here[socket].take(system1_ms):
                        rounds += 1
                        if time.monotonic() < began_s + seconds:
                            here[socket].ask()
                        else:
                            busy -= 1
            pipe.send((rounds, time.monotonic() - began_s, system1_ms))
        for robot in everybody:
            robot.socket.close()


def cpu_s(process: int) -> float:
    """CPU time of a server: its gateway and its workers."""
    gateway = psutil.Process(process)
    return sum(sum(one.cpu_times()[:2]) for one in (gateway, *gateway.children(recursive=True)))


def measure(robots: Sequence[int], turns: int, seconds: float) -> list[Row]:
    """A row for each number of robots and engine: medians over the turns."""
    context = multiprocessing.get_context("spawn")
    seen: dict[tuple[int, str], list[tuple[float, float, list[float]]]] = {}
    with ExitStack() as stack:
        sides = {}
        for row in ENGINES:
            address = f"tcp://127.0.0.1:{free_port()}"
            ours, theirs = context.Pipe()
            server = context.Process(target=server_process, args=(address, row))
            stack.enter_context(running(server))
            stack.enter_context(running(context.Process(target=crowd_process, args=(address, theirs))))
            sides[row] = server, ours
        for _, pipe in sides.values():
            said(pipe, START_S)
        order = list(sides)
        for turn in range(-1, turns):
            for count in robots:
                for row in order[turn % len(order) :] + order[: turn % len(order)]:
                    server, pipe = sides[row]
                    before_s = cpu_s(server.pid or 0)
                    pipe.send((count, seconds if turn >= 0 else 0.5))
                    rounds, took_s, system1_ms = said(pipe, seconds + START_S + ANSWER_S)
                    if turn >= 0:
                        spent_ms = 1000 * (cpu_s(server.pid or 0) - before_s) / rounds
                        seen.setdefault((count, row), []).append((rounds / took_s, spent_ms, system1_ms))
            print(f"turn {turn + 1} of {turns} done", file=sys.stderr, flush=True)
        for _, pipe in sides.values():
            pipe.send(None)
    return [
        {
            "robots": count,
            "engine": row,
            "rounds_hz": round(float(np.median([hz for hz, _, _ in found])), 2),
            "cpu_ms": round(float(np.median([ms for _, ms, _ in found])), 2),
            "system1_p50_ms": round(float(np.median(np.concatenate([ms for _, _, ms in found]))), 1),
            "cpu_ms_by_turn": [round(ms, 1) for _, ms, _ in found],
        }
        for (count, row), found in seen.items()
    ]


def judge(rows: Sequence[Row]) -> list[Row]:
    """Whether one of the sharing engines needs less than `isolated`, by number of robots."""
    of = {(row["robots"], row["engine"]): row["cpu_ms"] for row in rows}
    counts = sorted({row["robots"] for row in rows})
    best = {
        count: max(of[count, "isolated"] / of[count, row] for row in ENGINES if row != "isolated")
        for count in counts
    }
    return [
        {
            "aim": f"kv_sharing at least {MIN_GAIN:g}x isolated batches through gateway and worker, by CPU time",
            "value": ", ".join(f"{count} robots {gain:.2f}x" for count, gain in best.items()),
            "holds": min(best.values()) >= MIN_GAIN,
        }
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--robots", type=int, nargs="+", default=list(ROBOTS))
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each turn")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where kv_serving.json goes")
    asked = parser.parse_args(arguments)
    load = os.getloadavg()[0]
    rows = measure(asked.robots, asked.turns, asked.seconds)
    for row in rows:
        print({key: value for key, value in row.items() if key != "cpu_ms_by_turn"})
    aims = judge(rows)
    print_aims(aims)
    write(
        asked.out / "kv_serving.json",
        rows,
        aims,
        [f"Load {load:.1f} before the run, {os.getloadavg()[0]:.1f} after it; one process is all robots."],
        options=f"--turns {asked.turns} --seconds {asked.seconds:g}",
        how="",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
