"""What serving costs beside the model: round trips of an observation through ROSA and four other servers, in one run.
ROSA's model is in a worker process, as always, or `inline`, in the gateway's own thread; `busy`: with a gateway that
stays awake for 2 ms after each message (`gateway.busy_poll_us`).

    python -m benchmarks.transport.transport [--rounds 4] [--seconds 2.5]
    python scripts/compiled.py --serving -m benchmarks.transport.transport  # ROSA compiled; nothing is written

Up: two 224x224 RGB images and a state of 8 values; down: 50x8 float32. Every server has a null policy and every client
is a process of its own. The peers take turns within a round, so that noise of the machine falls on all of them. A time
is from arrays to arrays: encoding and decoding count. `cpu_us` is what client and server processes together need of a
core for a round trip, which is what sixteen clients on few cores wait for.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import multiprocessing
import os
import platform
import signal
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks import RESULTS, command_of
from rosa_server.serving.base.compiled import compiled
from rosa_sim.ports import free_ports

BUSY = {"busy_poll_us": 2000}
SERVERS: dict[str, tuple[str, dict[str, Any]]] = {  # name -> (module of peers, what its `serve` is told)
    "rosa": ("rosa", {}),
    "rosa_busy": ("rosa", BUSY),
    "rosa_inline": ("rosa", {"inline": True}),
    "rosa_inline_busy": ("rosa", {"inline": True, **BUSY}),
    "openpi": ("openpi_websocket", {}),
    "zmq": ("zmq_msgpack", {}),
    "grpc": ("grpc_pickle", {}),
    "floor": ("zmq_floor", {}),
}
PEERS = {  # row -> (server, class of client)
    "rosa": ("rosa", "Client"),
    "rosa, JPEG": ("rosa", "JpegClient"),
    "rosa, busy": ("rosa_busy", "Client"),
    "rosa, inline": ("rosa_inline", "Client"),
    "rosa, inline, busy": ("rosa_inline_busy", "Client"),
    "openpi websocket": ("openpi", "Client"),
    "zmq req/rep msgpack": ("zmq", "Client"),
    "grpc pickle": ("grpc", "Client"),
    "zmq multipart floor": ("floor", "Client"),
}
POLICY_SERVERS = ("openpi websocket", "grpc pickle")
REQ_REP = "zmq req/rep msgpack"
SCENARIOS = {  # name -> (clients, requests per second of each; 0 = closed loop)
    "1 client": (1, 0.0),
    "16 clients closed loop": (16, 0.0),
    "16 clients at 10 Hz": (16, 10.0),
}
CLIENTS = 16
START_DELAY_S = 0.1


def client_process(index: int, addresses: dict[str, str], pipe: Connection) -> None:
    """Obey (row, rate, seconds, start) until None: send back the round trips in ms, and the CPU time that they took."""
    from benchmarks.transport.peers import observation

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    seen = observation()
    clients: dict[str, Any] = {}
    pipe.send("up")
    for row, rate_hz, seconds, start_s in iter(pipe.recv, None):
        server, kind = PEERS[row]
        if row not in clients:
            clients[row] = getattr(peer(server), kind)(addresses[server], f"robot{index}")
        elif hasattr(clients[row], "ready"):
            clients[row].ready()
        clients[row].call(seen)
        pipe.send("ready")
        if start_s is None:
            continue
        times_ms = []
        start_s = pipe.recv()
        before_s = time.process_time()
        due_s = start_s + (index / CLIENTS / rate_hz if rate_hz else 0.0)
        while due_s < start_s + seconds:
            time.sleep(max(0.0, due_s - time.monotonic()))
            began_s = time.monotonic()
            clients[row].call(seen)
            ended_s = time.monotonic()
            # At a fixed rate the time counts from when the request was due: a slow answer delays the next one's start.
            times_ms.append((ended_s - (due_s if rate_hz else began_s)) * 1000)
            due_s = due_s + 1 / rate_hz if rate_hz else ended_s
        pipe.send((times_ms, time.process_time() - before_s))
    for client in clients.values():
        client.close()


def peer(server: str) -> Any:
    """The module of a server and its clients."""
    return importlib.import_module(f"benchmarks.transport.peers.{SERVERS[server][0]}")


def server_process(server: str, address: str) -> None:
    peer(server).serve(address, **SERVERS[server][1])


class Crowd:
    """The client processes."""

    def __init__(self, context: Any, addresses: dict[str, str]) -> None:
        self._pipes, self._processes = [], []
        for index in range(CLIENTS):
            ours, theirs = context.Pipe()
            process = context.Process(target=client_process, args=(index, addresses, theirs), daemon=True)
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)
        for pipe in self._pipes:
            _receive(pipe, 120)

    def measure(
        self, row: str, count: int, rate_hz: float, seconds: float, server: psutil.Process
    ) -> tuple[list[float], float]:
        """Round trips in ms, and the CPU time of clients and server in s."""
        pipes = self._pipes[:count]
        for pipe in pipes:
            pipe.send((row, rate_hz, seconds, 0.0))
        for pipe in pipes:
            _receive(pipe, 60)
        before_s, start_s = cpu_s(server), time.monotonic() + START_DELAY_S
        for pipe in pipes:
            pipe.send(start_s)
        told = [_receive(pipe, seconds + 60) for pipe in pipes]
        spent_s = cpu_s(server) - before_s + sum(spent for _, spent in told)
        return [ms for times_ms, _ in told for ms in times_ms], spent_s

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.send(None)
        for process in self._processes:
            process.join(10)
            if process.is_alive():
                process.kill()


def cpu_s(process: psutil.Process) -> float:
    """CPU time of a process and all that it has started, in s; in steps of 10 ms."""
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return float(sum(one.user + one.system for one in times))


def _receive(pipe: Connection, timeout_s: float) -> Any:
    if not pipe.poll(timeout_s):
        raise TimeoutError(f"a client did not answer within {timeout_s:g} s")
    return pipe.recv()


def measure(
    rounds: int, seconds: float, rows: list[str]
) -> dict[tuple[str, str], list[tuple[list[float], float]]]:
    """(scenario, row) -> round trips in ms and their CPU time in s, per round."""
    context = multiprocessing.get_context("spawn")
    wanted = {PEERS[row][0] for row in rows}
    addresses = {
        server: f"tcp://127.0.0.1:{port}"
        for server, port in zip(wanted, free_ports(len(wanted)), strict=True)
    }
    servers = {name: context.Process(target=server_process, args=(name, addresses[name])) for name in wanted}
    for server in servers.values():
        server.start()
    times: dict[tuple[str, str], list[tuple[list[float], float]]] = {}
    try:
        time.sleep(3)
        crowd = Crowd(context, addresses)
        for number in range(rounds):
            for scenario, (count, rate_hz) in SCENARIOS.items():
                turn = rows[number % len(rows) :] + rows[: number % len(rows)]
                for row in turn:
                    server = psutil.Process(servers[PEERS[row][0]].pid)
                    told = crowd.measure(row, count, rate_hz, seconds, server)
                    times.setdefault((scenario, row), []).append(told)
            print(f"round {number + 1} of {rounds} done", file=sys.stderr, flush=True)
        crowd.close()
    finally:
        for server in servers.values():
            server.terminate()
        for server in servers.values():
            server.join(10)
            if server.is_alive():
                server.kill()
    return times


def summarise(times: dict[tuple[str, str], list[tuple[list[float], float]]]) -> list[dict[str, Any]]:
    """One row per scenario and peer; p50 and p99 over all rounds together."""
    rows = []
    for (scenario, row), per_round in times.items():
        pooled = np.concatenate([np.asarray(one) for one, _ in per_round])
        p50, p99 = np.percentile(pooled, [50, 99])
        spread = [float(np.percentile(one, 50)) for one, _ in per_round]
        spent_s = sum(spent for _, spent in per_round)
        rows.append(
            {
                "scenario": scenario,
                "peer": row,
                "p50_ms": round(float(p50), 3),
                "p99_ms": round(float(p99), 3),
                "p50_ms_per_round": [round(one, 3) for one in spread],
                "cpu_us": round(spent_s * 1e6 / len(pooled)),
                "round_trips": len(pooled),
            }
        )
    return rows


def judge(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The aims, and whether they hold."""
    at = {(row["scenario"], row["peer"]): row for row in rows}
    aims = []

    def aim(text: str, value: float, limit: float) -> None:
        aims.append({"aim": f"{text} < {limit:g}", "value": round(value, 3), "holds": bool(value < limit)})

    def ratio(scenario: str, row: str, others: tuple[str, ...], key: str) -> float:
        """To the best of the others."""
        return float(at[scenario, row][key] / min(at[scenario, other][key] for other in others))

    one, many, at_10_hz = SCENARIOS
    openpi = ("openpi websocket",)
    for row, limit in (
        ("rosa", 1.0),
        ("rosa, busy", 1.0),
        ("rosa, inline", 0.7),
        ("rosa, inline, busy", 0.7),
    ):
        aim(f"1 client: {row} p50 / openpi p50", ratio(one, row, openpi, "p50_ms"), limit)
    for row in ("rosa", "rosa, inline"):
        for key in ("p50_ms", "p99_ms"):
            of_policies, of_zmq = (ratio(many, row, others, key) for others in (POLICY_SERVERS, (REQ_REP,)))
            name = key[:3]
            aim(f"16 clients: {row} {name} / best {name} of openpi and gRPC", of_policies, 0.6)
            aim(f"16 clients: {row} {name} / REQ/REP {name}", of_zmq, 1.0)
    aim("16 clients at 10 Hz: rosa p99 / openpi p99", ratio(at_10_hz, "rosa", openpi, "p99_ms"), 1.0)
    return aims


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(SCENARIOS), figsize=(13, 3.6), layout="constrained")
    for axis, scenario in zip(axes, SCENARIOS, strict=True):
        here = [row for row in rows if row["scenario"] == scenario][::-1]
        places = np.arange(len(here))
        colours = ["tab:orange" if row["peer"].startswith("rosa") else "tab:gray" for row in here]
        axis.barh(places, [row["p99_ms"] for row in here], color=colours, alpha=0.35)
        axis.barh(places, [row["p50_ms"] for row in here], color=colours)
        axis.set_yticks(places, [row["peer"] for row in here] if axis is axes[0] else [""] * len(here))
        axis.set_title(scenario)
        axis.set_xlabel("round trip, ms: p50 dark, p99 light")
    figure.savefig(path, dpi=110)


def machine() -> str:
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.split(":", 1)[1].strip()
            for line in cpuinfo.read_text().splitlines()
            if line.startswith("model name")
        ]
        model = names[0] if names else model
    load = os.getloadavg()[0]
    return (
        f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, load {load:.1f} before the run"
    )


def table(rows: list[dict[str, Any]]) -> str:
    lines = []
    for scenario in SCENARIOS:
        here = [row for row in rows if row["scenario"] == scenario]
        base = next((row for row in here if row["peer"] == "rosa"), None)
        lines.append(
            f"\n{scenario:24} {'p50 ms':>9} {'p99 ms':>9} {'rosa/p50':>9} {'rosa/p99':>9} {'CPU us':>8} {'trips':>8}"
        )
        for row in here:
            ratio = [base[key] / row[key] if base else float("nan") for key in ("p50_ms", "p99_ms")]
            lines.append(
                f"  {row['peer']:22} {row['p50_ms']:9.2f} {row['p99_ms']:9.2f} {ratio[0]:9.2f} {ratio[1]:9.2f}"
                f" {row['cpu_us']:8} {row['round_trips']:8}"
            )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=2.5, help="of each peer in each scenario and round")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=PEERS,
        default=list(PEERS),
        help="rows to measure; nothing is then written",
    )
    arguments = parser.parse_args()
    where = machine()
    rows = summarise(measure(arguments.rounds, arguments.seconds, arguments.only))
    print(table(rows))
    if set(arguments.only) != set(PEERS):
        return 0
    aims = judge(rows)
    for one in aims:
        print(f"{'holds ' if one['holds'] else 'MISSED'} {one['aim']}: {one['value']:.2f}")
    if compiled():
        return 0
    result = {
        "name": "transport",
        "command": " ".join([command_of("transport"), *sys.argv[1:]]),
        "machine": where,
        "date": datetime.date.today().isoformat(),
        "rows": rows,
        "aims": aims,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "transport.json").write_text(json.dumps(result, indent=2) + "\n")
    plot(rows, RESULTS / "transport.png")
    print(f"written: {RESULTS / 'transport.json'}, {RESULTS / 'transport.png'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
