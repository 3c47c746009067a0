"""Where the time of a request goes: client, gateway and worker, stage by stage.

    python -m benchmarks.transport.path [--robots 1 16 64 256] [--turns 8] [--seconds 1]

`rosa serve` with a null model, at several numbers of robots and sizes of pictures (JPEG, one camera). Each robot asks
again when it has been answered; all are in one process. Two servers run at the same time: one whose gateway and worker
note when a request passes which step (`stamps.py`), and one without. They take turns, so that noise of the machine
falls on both, and what the stamps cost is seen. A stage is the median over all requests of all turns.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import zmq

from benchmarks import RESULTS
from benchmarks.conclude import print_aims, write
from benchmarks.transport.stamps import STAGES, Notes, paths, stamp_gateway
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.images import EncodedImage, encode_image
from rosa_sim.ports import free_port

PICTURES = {7: (224, 224), 60: (480, 640), 300: (720, 1280)}  # kB -> (height, width) px
ROBOTS = (1, 16, 64, 256)
STATE = 8
BUDGET_MS = 60_000.0
START_S, ANSWER_S = 120, 90
IDS_PER_TURN = 1_000_000
MAX_STAMPS_COST = 1.10  # of the median round trip
MAX_GATEWAY_US = 200.0  # of CPU time a request: one core then carries 5,000 of them a second
Row = dict[str, Any]
Trips = dict[
    int, tuple[float, float, float, float]
]  # request -> began, encoded, received, opened, in seconds

FACTORY = """
server_cluster: {{num_servers: {servers}}}
robot_fleet: [{fleet}]
{tasks}
models: {{{models}}}
gateway: {{bind: "{address}", metrics_port: 0}}
"""


def picture(kilobytes: int) -> EncodedImage:
    """A JPEG of about this size in kB: a smooth scene with enough noise to reach it."""
    height, width = PICTURES[kilobytes]
    y, x = np.mgrid[0:height, 0:width]
    smooth = np.stack([x * 255 // width, y * 255 // height, (x + y) * 255 // (width + height)], axis=-1)
    noise = np.random.default_rng(1).normal(size=smooth.shape)
    lowest, highest = 0.0, 128.0
    for _ in range(10):
        middle = (lowest + highest) / 2
        made = encode_image((smooth + noise * middle).clip(0, 255).astype(np.uint8), "jpeg")
        lowest, highest = (middle, highest) if len(made.data) < kilobytes * 1000 else (lowest, middle)
    return made


def factory(address: str, robots: int, folder: str, pictures: Mapping[int, tuple[int, int]]) -> str:
    """A factory file with one task and model for each of `pictures`, kB -> (height, width) px. `folder`: where stamps
    go; empty: none."""
    backend = "benchmarks.transport.stamps:StampedNull" if folder else "null"
    tasks, models = [], []
    for size, (height, width) in pictures.items():
        options = f"images: {{front: [{height}, {width}]}}, state: {{state: {STATE}}}"
        options += f", folder: {folder}" if folder else ""
        models.append(f'"null-{size}": {{backend: "{backend}", options: {{{options}}}}}')
        calls = f"{{model: null-{size}, slo_ms: {BUDGET_MS:.0f}}}"
        tasks.append(f"kb{size}: {{pipeline: {{action_period_ms: 100}}, components: {{system1: {calls}}}}}")
    fleet = ", ".join(f"{{task: kb{size}, num_robots: {robots}}}" for size in pictures)
    return FACTORY.format(
        servers=len(pictures), fleet=fleet, tasks="\n".join(tasks), models=", ".join(models), address=address
    )


def server_process(
    address: str, robots: int, folder: str, pictures: Mapping[int, tuple[int, int]] = PICTURES
) -> None:
    from rosa_server.cli import main

    notes = Notes()
    if folder:
        stamp_gateway(notes)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "factory.yaml"
        path.write_text(factory(address, robots, folder, pictures))
        try:
            main(["serve", str(path)])
        finally:
            if folder:
                notes.write(Path(folder), "gateway")


class Robot:
    """Asks and opens answers; whoever has many of them waits for all."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        address: str,
        name: str,
        kilobytes: int,
        cameras: Sequence[str] = ("front",),
    ) -> None:
        self.socket = context.socket(zmq.DEALER)
        self.socket.linger = 0
        self._address = address  # connected when it has something to say: the gateway ends silent connections
        height, width = PICTURES[kilobytes]
        infos = {camera: m.CameraInfo(height=height, width=width, encoding="jpeg") for camera in cameras}
        self._named = name, f"kb{kilobytes}", infos, {"state": STATE}
        self._token = ""
        self.asked: tuple[int, float, float] = (0, 0.0, 0.0)

    def ready(self) -> None:
        """Say hello until welcome: after a pause the server has forgotten a silent robot."""
        if self._address:
            self.socket.connect(self._address)
            self._address = ""
        answer: object = "no answer"
        end_s = time.monotonic() + START_S
        while time.monotonic() < end_s:
            hello = m.Hello(*self._named, token=self._token) if self._token else m.Hello(*self._named)
            self.socket.send_multipart(codec.encode(hello))
            if not self.socket.poll(10_000):
                continue
            answer = codec.decode(self.socket.recv_multipart())
            if isinstance(answer, m.Welcome):
                self._token = answer.token
                return
            time.sleep(0.1)
        raise TimeoutError(f"the server did not welcome {self._named[0]} within {START_S} s: {answer}")

    def ask(self, number: int, state: np.ndarray, image: EncodedImage) -> None:
        began_s = time.monotonic()
        images = dict.fromkeys(self._named[2], image)
        request = m.Request(number, "system1", BUDGET_MS, "", {"state": state}, images)
        frames = codec.encode(request)
        self.asked = number, began_s, time.monotonic()
        self.socket.send_multipart(frames)

    def take(self, trips: Trips) -> None:
        """Read one answer, which has come or comes soon. Raises `RuntimeError` for any other than a result."""
        frames = self.socket.recv_multipart(copy=False)
        received_s = time.monotonic()
        answer = codec.decode(frames)
        number, began_s, sent_s = self.asked
        if isinstance(answer, m.Response) and answer.output is not None and answer.request_id == number:
            trips[number] = (began_s, sent_s, received_s, time.monotonic())
        elif not isinstance(answer, m.HealthReport):
            raise RuntimeError(f"expected a result, got {answer}")
        else:
            self.take(trips)


def crowd_process(
    address: str, kilobytes: int, robots: int, pipe: Connection, cameras: Sequence[str] = ("front",)
) -> None:
    """Obey (robots, seconds, first request) until None: send back the round trips."""
    image, state = picture(kilobytes), np.linspace(-1, 1, STATE).astype(np.float32)
    with zmq.Context() as context:
        all_robots = [
            Robot(context, address, f"robot{index}-{kilobytes}", kilobytes, cameras)
            for index in range(robots)
        ]
        pipe.send("up")
        for count, seconds, number in iter(pipe.recv, None):
            trips: Trips = {}
            here = {robot.socket: robot for robot in all_robots[:count]}
            poller = zmq.Poller()
            for socket, robot in here.items():
                robot.ready()
                poller.register(socket, zmq.POLLIN)
            end_s, waiting = time.monotonic() + seconds, count
            for robot in here.values():
                number += 1
                robot.ask(number, state, image)
            while waiting:
                come = list(here) if count == 1 else [socket for socket, _ in poller.poll(ANSWER_S * 1000)]
                if not come:
                    raise TimeoutError(f"{waiting} of {count} robots got no answer within {ANSWER_S} s")
                for socket in come:
                    here[socket].take(trips)
                    if time.monotonic() < end_s:
                        number += 1
                        here[socket].ask(number, state, image)
                    else:
                        waiting -= 1
                        poller.unregister(socket)
            pipe.send(trips)
        for robot in all_robots:
            robot.socket.close()


def said(pipe: Connection, limit_s: float) -> Any:
    """The next thing that a process says. Raises `TimeoutError`."""
    if not pipe.poll(limit_s):
        raise TimeoutError(f"a process did not answer within {limit_s:g} s")
    return pipe.recv()


@contextmanager
def running(process: Any, grace_s: float = 30) -> Iterator[None]:
    """A child that is ended with the block."""
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join(grace_s)
        if process.is_alive():
            process.kill()


def cpu_s(process: int) -> float:
    """CPU time of a process with all its threads, without its children's, as the kernel counts it in ns."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def measure(
    kilobytes: int, robots: Sequence[int], turns: int, seconds: float, folder: Path
) -> tuple[dict[int, Trips], dict[int, Trips], dict[int, float]]:
    """Robots -> round trips of the server with stamps, which are in `folder` afterwards, of that without, and the CPU
    time in s of the gateway without."""
    context = multiprocessing.get_context("spawn")
    seen: tuple[dict[int, Trips], dict[int, Trips]] = ({}, {})
    spent_s: dict[int, float] = {}
    number, highest = 0, max(robots)
    sides = []
    for place in (str(folder), ""):
        address = f"tcp://127.0.0.1:{free_port()}"
        ours, theirs = context.Pipe()
        server = context.Process(target=server_process, args=(address, highest, place))
        sides.append(
            (server, context.Process(target=crowd_process, args=(address, kilobytes, highest, theirs)), ours)
        )
    (server, crowd, pipe), (plain_server, plain_crowd, plain_pipe) = sides
    with running(server), running(plain_server), running(crowd), running(plain_crowd):
        for each in (pipe, plain_pipe):
            said(each, START_S)
        for turn in range(-1, turns):  # the first warms up and is not counted
            for count in robots:
                for side in (0, 1) if turn % 2 else (1, 0):
                    number += IDS_PER_TURN
                    before_s = cpu_s(sides[side][0].pid or 0)
                    sides[side][2].send((count, seconds, number))
                    trips = said(sides[side][2], seconds + START_S + ANSWER_S)
                    if turn >= 0:
                        seen[side].setdefault(count, {}).update(trips)
                    if turn >= 0 and side == 1:
                        spent_s[count] = spent_s.get(count, 0.0) + cpu_s(sides[side][0].pid or 0) - before_s
            print(f"{kilobytes} kB: turn {turn + 1} of {turns} done", file=sys.stderr, flush=True)
        for each in (pipe, plain_pipe):
            each.send(None)
        crowd.join(30)
        plain_crowd.join(30)
    return *seen, spent_s


def _round_trips_ms(trips: Trips) -> np.ndarray:
    return np.array([(times[-1] - times[0]) * 1000 for times in trips.values()])


def rows_of(
    kilobytes: int,
    stamped: dict[int, Trips],
    plain: dict[int, Trips],
    spent_s: dict[int, float],
    folder: Path,
) -> list[Row]:
    """One row for each number of robots; times in ms."""
    rows = []
    for count, trips in stamped.items():
        followed = dict(paths(trips, folder))
        steps_ms = np.diff(np.array(list(followed.values())), axis=1) * 1000
        p50, p99 = np.percentile(_round_trips_ms(trips), (50, 99))
        without = float(np.median(_round_trips_ms(plain[count])))
        medians = np.median(steps_ms, axis=0)
        rows.append(
            {
                "robots": count,
                "kilobytes": kilobytes,
                "requests": len(trips),
                "followed": len(followed),
                "p50_ms": round(float(p50), 3),
                "p99_ms": round(float(p99), 3),
                "p50_without_stamps_ms": round(without, 3),
                "gateway_us": round(1e6 * spent_s[count] / len(plain[count]), 1),
                "stages_ms": {
                    stage: round(float(value), 4) for stage, value in zip(STAGES, medians, strict=True)
                },
                "shares": {
                    stage: round(float(value), 3)
                    for stage, value in zip(
                        STAGES, steps_ms.mean(axis=0) / steps_ms.sum(axis=1).mean(), strict=True
                    )
                },
            }
        )
    return rows


def judge(rows: Sequence[Row]) -> list[Row]:
    """The aims, and whether they hold."""
    followed = min(row["followed"] / row["requests"] for row in rows)
    costs = sorted(row["p50_ms"] / row["p50_without_stamps_ms"] for row in rows)
    cost = costs[len(costs) // 2]
    aims = [
        {
            "aim": "every request is followed through every stage",
            "value": f"{100 * followed:.2f} % in the worst row",
            "holds": followed > 0.999,
        },
        {
            "aim": f"stamps cost at most {100 * (MAX_STAMPS_COST - 1):.0f} % of a median round trip (median of rows)",
            "value": f"{100 * (cost - 1):.1f} %",
            "holds": cost <= MAX_STAMPS_COST,
        },
    ]
    for row in rows:
        if row["robots"] == 16 and row["kilobytes"] == 60:
            aims.append(
                {
                    "aim": "16 robots, 60 kB: one core of a gateway carries 5,000 requests/s, ZeroMQ's thread too",
                    "value": f"{row['gateway_us']:.0f} us of CPU time, {1e6 / row['gateway_us']:,.0f} requests/s",
                    "holds": row["gateway_us"] <= MAX_GATEWAY_US,
                }
            )
    return aims


def table(rows: Sequence[Row]) -> str:
    """A column for each row, a line for each stage."""
    lines = [f"{'median, ms':14}" + "".join(f"{row['robots']:>5} x {row['kilobytes']:>3} kB" for row in rows)]
    for stage in STAGES:
        lines.append(f"{stage:14}" + "".join(f"{row['stages_ms'][stage]:14.3f}" for row in rows))
    for key in ("p50_ms", "p99_ms", "p50_without_stamps_ms"):
        lines.append(f"{key[:-3].replace('_', ' ')[:14]:14}" + "".join(f"{row[key]:14.2f}" for row in rows))
    lines.append(f"{'gateway, us CPU':14}" + "".join(f"{row['gateway_us']:14.0f}" for row in rows))
    return "\n".join(lines)


def plot(rows: Sequence[Row], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(11, 0.5 * len(rows) + 2), layout="constrained")
    colours = pyplot.get_cmap("tab20").colors  # type: ignore[attr-defined]
    left = np.zeros(len(rows))
    for stage, colour in zip(STAGES, colours, strict=False):
        shares = np.array([100 * row["shares"][stage] for row in rows])
        axis.barh(range(len(rows)), shares, left=left, color=colour, label=stage)
        left += shares
    names = [f"{row['robots']} x {row['kilobytes']} kB, p50 {row['p50_ms']:.2f} ms" for row in rows]
    axis.set_yticks(range(len(rows)), names)
    axis.invert_yaxis()
    axis.set_xlabel("share of the mean round trip, %")
    axis.legend(ncols=6, loc="upper center", bbox_to_anchor=(0.5, -0.15))
    figure.savefig(path, dpi=110)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--robots", type=int, nargs="+", default=list(ROBOTS))
    parser.add_argument("--kilobytes", type=int, nargs="+", choices=PICTURES, default=list(PICTURES))
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each turn")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where path.json and path.png go")
    asked = parser.parse_args(arguments)
    load, rows = os.getloadavg()[0], []
    for kilobytes in asked.kilobytes:
        with tempfile.TemporaryDirectory() as place:
            seen = measure(kilobytes, asked.robots, asked.turns, asked.seconds, Path(place))
            rows += rows_of(kilobytes, *seen, Path(place))
    rows.sort(key=lambda row: (row["robots"], row["kilobytes"]))
    aims = judge(rows)
    print(table(rows))
    print_aims(aims)
    notes = [
        f"Load {load:.1f} before the run, {os.getloadavg()[0]:.1f} after it; all robots are one process."
    ]
    notes += [f"{stage}: {words}" for stage, words in STAGES.items()]
    write(
        asked.out / "path.json",
        rows,
        aims,
        notes,
        options=f"--turns {asked.turns} --seconds {asked.seconds:g}",
        how="",
    )
    plot(rows, asked.out / "path.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
