"""What one gateway bears: requests a second in time, and memory, with 64 to 4,096 robots connected over real sockets.

    python -m benchmarks.transport.capacity [--robots 64 256 1024 4096] [--seconds 6]

`rosa serve` with a null model. Each robot has its own connection, says each second that it is there, and asks with a
picture of 60 kB at its own times, whether or not earlier calls of others were answered. The rate of all robots together
doubles until less than 99 % of the calls are answered within an action's 100 ms; one that cannot begin, as the robot's
last one is still open, counts as late. Gateway, worker and robots share this machine's cores, so a row says how busy
each of them was, in cores. A row at 0 calls a second is what robots cost that only wait.

Pictures are JPEG first, which the worker decodes, and that is the first limit. Then the same bytes come as raw pixels,
so the worker has nothing to decode, and the next limit is found.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import select
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from math import ceil, inf, nan
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import psutil
import zmq

from benchmarks import RESULTS
from benchmarks.conclude import print_aims, write
from benchmarks.transport.gateway_cost import spent_ns
from benchmarks.transport.path import (
    BUDGET_MS,
    PICTURES,
    START_S,
    STATE,
    Row,
    cpu_s,
    picture,
    running,
    said,
    server_process,
)
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.images import EncodedImage
from rosa_sim.ports import free_port

KILOBYTES = 60
SIZES = {"jpeg": PICTURES[KILOBYTES], "rgb8": (100, 200)}  # encoding -> (height, width) px of so many bytes
ROBOTS = (64, 256, 1024, 4096)
FIRST_HZ = 100.0
ALIVE_S = 1.0  # a robot that was silent for so long says that it is there
IN_TIME_S, MIN_IN_TIME = 0.1, 0.99
AFTER_S = 2.0  # calls that are open at the end of a row have so long
CROWDS = 2  # processes of robots, each with an address of its own: one address may have 3,072 connections
ALONE_S = 2.0  # how long the gateway is looked at before robots come
WORDS = {"jpeg": "JPEG", "rgb8": "raw pixels"}
BUSY = 0.9  # of a core or of all: nothing more is to be had
GIGABIT_BYTES = 125e6  # a second


class Robot:
    """One connection: hello, sign of life, one open call."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], ways: str, name: str, image: EncodedImage
    ) -> None:
        self.socket = context.socket(zmq.DEALER)
        self.socket.linger = 0
        self._ways = ways  # connected with the first hello: a gateway has room for few strangers
        self._image = image
        info = m.CameraInfo(height=image.height, width=image.width, encoding=image.encoding)
        self._named = name, f"kb{KILOBYTES}", {"front": info}, {"state": STATE}
        self._token = ""
        self._number = 0
        self.welcome = False
        self.spoke_s = 0.0
        self.asked_s = 0.0  # 0: no call is open

    def alive(self, now_s: float) -> None:
        if self._ways:
            self.socket.connect(self._ways)
            self._ways = ""
        hello = m.Hello(*self._named, token=self._token) if self._token else m.Hello(*self._named)
        self.socket.send_multipart(codec.encode(hello))
        self.spoke_s = now_s

    def ask(self, now_s: float, state: np.ndarray) -> None:
        self._number += 1
        request = m.Request(self._number, "system1", BUDGET_MS, "", {"state": state}, {"front": self._image})
        self.socket.send_multipart(codec.encode(request))
        self.spoke_s = self.asked_s = now_s

    def read(self) -> float:
        """Read what has come. Returns how long a call took that was answered, in s; 0: none was."""
        took_s = 0.0
        while int(self.socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            answer = codec.decode(self.socket.recv_multipart(copy=False))
            if isinstance(answer, m.Welcome):
                self._token, self.welcome = answer.token, True
            elif isinstance(answer, m.Response) and answer.request_id == self._number and self.asked_s:
                took_s, self.asked_s = time.monotonic() - self.asked_s, 0.0
                if answer.output is None:
                    raise RuntimeError(f"expected a result, got {answer}")
        return took_s


@dataclass
class Seen:
    """By the robots of one process: how long each call took, in s; how many were begun, and how many were not, as the
    robot's last one was open; how late this process was, each time, in s."""

    took_s: list[float] = field(default_factory=list)
    lags_s: list[float] = field(default_factory=list)
    begun: int = 0
    skipped: int = 0

    @property
    def lag_s(self) -> float:
        """Of 99 % of the times."""
        return float(np.percentile(self.lags_s, 99)) if self.lags_s else 0.0


class Crowd:
    """Robots of one process. It looks only at sockets to which something has come: it may have thousands."""

    def __init__(self, ways: str, names: Sequence[str], image: EncodedImage) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._context.max_sockets = len(names) + 16
        self._robots = [Robot(self._context, ways, name, image) for name in names]
        self._epoll = select.epoll()
        self._by_fd = {robot.socket.fileno(): robot for robot in self._robots}
        for fd in self._by_fd:
            self._epoll.register(fd, select.EPOLLIN)
        self._state = np.linspace(-1, 1, STATE).astype(np.float32)

    def _read(self, wait_s: float) -> list[float]:
        came = self._epoll.poll(max(0.0, wait_s), 256)
        return [took_s for fd, _ in came if (took_s := self._by_fd[fd].read())]

    def join(self) -> int:
        """How many are welcome. They come one after the other, as strangers are few."""
        end_s = time.monotonic() + START_S
        for robot in self._robots:
            while not robot.welcome and time.monotonic() < end_s:
                if time.monotonic() > robot.spoke_s + ALIVE_S:
                    robot.alive(time.monotonic())
                self._read(0.05)
                robot.read()
            self._keep_alive(time.monotonic())
        return sum(robot.welcome for robot in self._robots)

    def _keep_alive(self, now_s: float) -> None:
        for robot in self._robots:
            if robot.welcome and now_s > robot.spoke_s + ALIVE_S:
                robot.alive(now_s)
                robot.read()

    def run(self, seconds: float, period_s: float, seed: int) -> Seen:
        """Each robot asks every `period_s`; infinite: they only say that they are there."""
        seen = Seen()
        per_call = ceil(period_s / ALIVE_S) if period_s < inf else 0  # turns of a robot for each of its calls
        turn_s = period_s / per_call if per_call else ALIVE_S
        start_s = time.monotonic()
        first_s = np.random.default_rng(seed).uniform(0, turn_s, len(self._robots))
        turns = [(start_s + float(first), number, number) for number, first in enumerate(first_s)]
        heapify(turns)
        while turns[0][0] < start_s + seconds:
            now_s, (due_s, number, turn) = time.monotonic(), turns[0]
            if now_s < due_s:
                seen.took_s += self._read(due_s - now_s)
                continue
            seen.lags_s.append(now_s - due_s)
            robot = self._robots[number]
            if not per_call or turn % per_call:
                robot.alive(now_s)
            elif robot.asked_s:
                seen.skipped += 1
            else:
                seen.begun += 1
                robot.ask(now_s, self._state)
            if took_s := robot.read():  # what came while it was sent wakes no poll
                seen.took_s.append(took_s)
            heapreplace(turns, (max(due_s + turn_s, now_s), number, turn + 1))
            if len(seen.lags_s) % 16 == 0:  # however late it is
                seen.took_s += self._read(0.0)
        until_s = time.monotonic() + AFTER_S
        while any(robot.asked_s for robot in self._robots) and time.monotonic() < until_s:
            seen.took_s += self._read(0.05)
        for robot in self._robots:
            robot.asked_s = 0.0
        return seen

    def close(self) -> None:
        for robot in self._robots:
            robot.socket.close()
        self._context.term()


def image_of(encoding: str) -> EncodedImage:
    """A picture of `KILOBYTES`."""
    if encoding == "jpeg":
        return picture(KILOBYTES)
    return EncodedImage(encoding, *SIZES[encoding], bytes(KILOBYTES * 1000))


def crowd_process(ways: str, names: Sequence[str], encoding: str, pipe: Connection) -> None:
    """Say how many robots are welcome, then obey (seconds, period in s, seed) until None; send back what was seen."""
    crowd = Crowd(ways, names, image_of(encoding))
    pipe.send(crowd.join())
    while True:
        while not pipe.poll():  # they go on saying that they are there
            crowd.run(0.2, inf, 0)
        told = pipe.recv()
        if told is None:
            break
        pipe.send(crowd.run(*told))
    crowd.close()


def measure(robots: int, seconds: float, encoding: str) -> list[Row]:
    """One row for each rate, the first for robots that only wait."""
    context = multiprocessing.get_context("spawn")
    port = free_port()
    with ExitStack() as stack:
        pictures = {**PICTURES, KILOBYTES: SIZES[encoding]}
        server = context.Process(
            target=server_process, args=(f"tcp://127.0.0.1:{port}", robots, "", pictures)
        )
        stack.enter_context(running(server))
        number = server.pid or 0
        gateway = psutil.Process(number)
        pipes, crowds = [], []
        names = [f"robot{index}" for index in range(robots)]
        alone_mb = _up(port, gateway)
        alone_s = cpu_s(number)
        time.sleep(ALONE_S)
        alone_cores = (cpu_s(number) - alone_s) / ALONE_S
        for index in range(CROWDS):
            ours, theirs = context.Pipe()
            ways = f"tcp://127.0.0.{index + 2}:0;127.0.0.1:{port}"
            crowd = context.Process(target=crowd_process, args=(ways, names[index::CROWDS], encoding, theirs))
            stack.enter_context(running(crowd))
            pipes.append(ours)
            crowds.append(crowd)
        welcome = sum(said(pipe, 2 * START_S) for pipe in pipes)
        rows: list[Row] = []
        hz = 0.0
        while not rows or rows[-1]["limit"] == "":
            before, began_s, waited_s = spent_ns(number), time.monotonic(), waited_for_core_s(number)
            others_s = [cpu_s(crowd.pid or 0) for crowd in crowds], sum(_workers_s(gateway))
            for index, pipe in enumerate(pipes):
                pipe.send((seconds, robots / hz if hz else inf, index))
            seen = [said(pipe, seconds + AFTER_S + START_S) for pipe in pipes]
            lasted_s = time.monotonic() - began_s
            spent = {name: (ns - before[name]) / 1e9 for name, ns in spent_ns(number).items()}
            busy = {
                "gateway": sum(spent.values()) / lasted_s,
                "worker": (sum(_workers_s(gateway)) - others_s[1]) / lasted_s,
                "robots": (sum(cpu_s(crowd.pid or 0) for crowd in crowds) - sum(others_s[0])) / lasted_s,
            }
            thread = max(spent, key=lambda name: spent[name])
            rows.append(
                {
                    "robots": robots,
                    "pictures": encoding,
                    "welcome": welcome,
                    "asked_hz": hz,
                    **row_of(seen, seconds),
                    "busy_cores": {name: round(value, 3) for name, value in busy.items()},
                    "busiest_thread": {thread: round(spent[thread] / lasted_s, 3)},
                    "waited_for_core": round((waited_for_core_s(number) - waited_s) / lasted_s, 3),
                    "gateway_mb": round(gateway.memory_info().rss / 1e6, 1),
                    "gateway_mb_alone": round(alone_mb, 1),
                    "gateway_cores_alone": round(alone_cores, 3),
                }
            )
            rows[-1]["limit"] = limit_of(rows[-1], spent[thread] / lasted_s)
            print(line(rows[-1]), flush=True)
            hz = 2 * hz or FIRST_HZ
        for pipe in pipes:
            pipe.send(None)
        return rows


def _up(port: int, gateway: psutil.Process) -> float:
    """Wait until the gateway answers. Returns its memory in MB."""
    until_s = time.monotonic() + START_S
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        socket.connect(f"tcp://127.0.0.1:{port}")
        while time.monotonic() < until_s:
            socket.send_multipart(codec.encode(m.HealthQuery()))
            if socket.poll(1000):
                report = codec.decode(socket.recv_multipart())
                if isinstance(report, m.HealthReport) and report.ready:
                    return float(gateway.memory_info().rss / 1e6)
    raise TimeoutError(f"the server was not ready within {START_S} s")


def _workers_s(gateway: psutil.Process) -> list[float]:
    """CPU time of the gateway's child processes."""
    return [cpu_s(child.pid) for child in gateway.children(recursive=True)]


def waited_for_core_s(process: int) -> float:
    """How long the process's first thread, which decides, could have run and had no core, as the kernel counts it."""
    return int(Path(f"/proc/{process}/task/{process}/schedstat").read_text().split()[1]) / 1e9


def row_of(seen: Sequence[Seen], seconds: float) -> Row:
    """What robots saw; times in ms."""
    took_ms = np.array([s * 1000 for one in seen for s in one.took_s])
    begun, skipped = sum(one.begun for one in seen), sum(one.skipped for one in seen)
    planned = begun + skipped
    p50, p99 = np.percentile(took_ms, (50, 99)) if len(took_ms) else (nan, nan)
    return {
        "answered_hz": round(len(took_ms) / seconds, 1),
        "in_time": round(float((took_ms <= IN_TIME_S * 1000).sum()) / planned, 4) if planned else None,
        "not_begun": round(skipped / planned, 4) if planned else None,
        "p50_ms": round(float(p50), 2) if len(took_ms) else None,
        "p99_ms": round(float(p99), 2) if len(took_ms) else None,
        "robots_late_ms": round(1000 * max(one.lag_s for one in seen), 2),
    }


def limit_of(row: Row, thread: float) -> str:
    """What ended it; empty where calls are in time."""
    if row["in_time"] is None or row["in_time"] >= MIN_IN_TIME:
        return ""
    if thread >= BUSY:
        return f"the gateway's thread that {next(iter(row['busiest_thread']))}"
    if thread + row["waited_for_core"] >= BUSY:
        return "the cores of this machine, for which the gateway waits: robots and worker use them, too"
    if row["in_time"] + row["not_begun"] >= MIN_IN_TIME:
        return "the robots, of which each asks again before it is answered"
    if row["busy_cores"]["worker"] >= BUSY:
        return "the worker, which decodes the pictures" if row["pictures"] == "jpeg" else "the worker"
    return "not the cores"


def line(row: Row) -> str:
    busy = "  ".join(f"{name} {value:.2f}" for name, value in row["busy_cores"].items())
    times = f"p50 {row['p50_ms']:6.2f}  p99 {row['p99_ms']:7.2f} ms" if row["p50_ms"] is not None else ""
    share = f"{row['in_time']:7.2%} in time" if row["in_time"] is not None else "they only wait"
    return (
        f"{row['robots']:5} robots  {row['pictures']}  {row['asked_hz']:6.0f} calls/s asked "
        f"{row['answered_hz']:7.1f} answered  {share}  "
        f"{times}  busy cores: {busy}  {row['gateway_mb']:.0f} MB  {row['limit']}"
    )


def summary(rows: Sequence[Row]) -> list[Row]:
    """For each number of robots and kind of pictures: the highest rate in time, memory, what waiting costs, and the
    first limit."""
    found = []
    for count, encoding in dict.fromkeys((row["robots"], row["pictures"]) for row in rows):
        mine = [row for row in rows if (row["robots"], row["pictures"]) == (count, encoding)]
        good = [row for row in mine if row["asked_hz"] and not row["limit"]]
        best = good[-1] if good else None
        found.append(
            {
                "robots": count,
                "pictures": encoding,
                "welcome": mine[0]["welcome"],
                "in_time_hz": best["answered_hz"] if best else 0.0,
                "p99_ms": best["p99_ms"] if best else None,
                "gateway_us": round(1e6 * best["busy_cores"]["gateway"] / best["answered_hz"], 1)
                if best
                else None,
                "waiting_cores": mine[0]["busy_cores"]["gateway"],
                "kb_per_robot": round(
                    1000 * (mine[-1]["gateway_mb"] - mine[0]["gateway_mb_alone"]) / count, 1
                ),
                "of_a_gigabit": round(best["answered_hz"] * KILOBYTES * 1000 / GIGABIT_BYTES, 3)
                if best
                else 0.0,
                "limit": mine[-1]["limit"],
            }
        )
    return found


def judge(found: Sequence[Row]) -> list[Row]:
    """The aims, and whether they hold."""
    coded = {row["robots"]: row for row in found if row["pictures"] == "jpeg"}
    raw = {row["robots"]: row for row in found if row["pictures"] == "rgb8"}
    most = coded[max(coded)]
    carries = ", ".join(f"{count}: {row['of_a_gigabit']:.0%}, {row['limit']}" for count, row in coded.items())
    decoded = {count: row for count, row in coded.items() if "decodes" in row["limit"] and count in raw}
    next_ones = ", ".join(
        f"{count}: {row['in_time_hz']:.0f}/s, then {raw[count]['in_time_hz']:.0f}/s, {raw[count]['limit']}"
        for count, row in decoded.items()
    )
    return [
        {
            "aim": "every robot that says hello is welcome",
            "value": ", ".join(f"{row['welcome']} of {row['robots']}" for row in found),
            "holds": all(row["welcome"] == row["robots"] for row in found),
        },
        {
            "aim": f"{most['robots']} robots that only wait take at most half a core of the gateway",
            "value": f"{most['waiting_cores']:.2f} of a core",
            "holds": most["waiting_cores"] <= 0.5,
        },
        {
            "aim": "calls in time fill a network card of 1 Gbit/s, before anything else is a limit",
            "value": carries,
            "holds": all(row["of_a_gigabit"] >= 1.0 for row in coded.values()),
        },
        {
            "aim": "where decoding is the limit, twice as many calls are in time without it",
            "value": next_ones or "decoding is no limit",
            "holds": all(raw[count]["in_time_hz"] >= 2 * row["in_time_hz"] for count, row in decoded.items()),
        },
    ]


def draw(rows: Sequence[Row], path: Path) -> None:
    """The p99 of calls over calls a second, for each number of robots and kind of pictures."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [row for row in rows if row["p99_ms"] is not None]
    figure, axes = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
    colours = {
        count: f"C{index}" for index, count in enumerate(dict.fromkeys(row["robots"] for row in shown))
    }
    for (count, encoding), label in {
        (row["robots"], row["pictures"]): f"{row['robots']} robots, {WORDS[row['pictures']]}" for row in shown
    }.items():
        mine = [row for row in shown if (row["robots"], row["pictures"]) == (count, encoding)]
        style = "o-" if encoding == "jpeg" else "o:"
        rates, times = [row["asked_hz"] for row in mine], [row["p99_ms"] for row in mine]
        axes.plot(rates, times, style, color=colours[count], label=label)
    axes.axhline(IN_TIME_S * 1000, color="0.5", lw=0.8)
    axes.set(xscale="log", yscale="log", xlabel="calls asked for, 1/s", ylabel="p99, ms")
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--robots", type=int, nargs="+", default=list(ROBOTS))
    parser.add_argument("--seconds", type=float, default=6.0, help="of each rate")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where capacity.json goes")
    asked = parser.parse_args(arguments)
    load = os.getloadavg()[0]
    rows = [
        row for encoding in SIZES for count in asked.robots for row in measure(count, asked.seconds, encoding)
    ]
    found = summary(rows)
    aims = judge(found)
    print_aims(aims)
    notes = [
        f"Load {load:.1f} before the run; {len(os.sched_getaffinity(0))} cores for gateway, worker and robots.",
        "kb_per_robot: the gateway's memory after the last row, less that before robots came.",
    ]
    write(
        asked.out / "capacity.json",
        rows,
        aims,
        notes,
        options=f"--seconds {asked.seconds:g}",
        how="",
        summary=found,
    )
    draw(rows, asked.out / "capacity.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
