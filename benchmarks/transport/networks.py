"""Robots with two cameras on the networks that factories have: what is in time, what it costs, how soon it recovers.

    python -m benchmarks.transport.networks [--robots 4] [--seconds 20]

Server and robots are on two machines, which are network namespaces of this one (it takes root); `tbf` makes the cable
thin. What the kernel here cannot do, delay, loss and stalls, the fault proxy does between them, message by message: a
lost message is lost as a whole, which is harsher than a lost packet, that TCP sends again. Robots run the product's own
loop, with pictures of 640x480. Writes results/networks.json and .png.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks import RESULTS
from benchmarks.conclude import conclude
from benchmarks.processes import ended
from rosa_sim.faults.link import LinkFault
from rosa_sim.machines.camera_robots import CAMERAS, QUALITY, SIZE, photographs
from rosa_sim.namespaces import Machine, denied, two_machines

RESULT = RESULTS / "networks.json"
SLO_MS, MONITOR_HZ = 600, 1
MIN_QUALITY = 30
PORT, PROXY, CONTROL = 5570, 5580, 5581
START_S, WARM_UP_S = 60.0, 4.0  # what is sent before is not counted
BURST_S, BURST_EVERY_S = 0.3, 3.0
MIN_IN_TIME = 0.99

NOTHING = LinkFault()


@dataclass(frozen=True)
class Network:
    name: str
    mbit_s: float = 1000.0
    fault: LinkFault = NOTHING
    bursts: bool = False  # the fault comes and goes
    min_quality: int | None = None
    promised: bool = False  # nearly all calls are to be in time


NETWORKS = (
    Network("cable of 1 Gbit/s", promised=True),
    Network("20 Mbit/s", 20.0, promised=True),
    Network("6 Mbit/s", 6.0),
    Network("6 Mbit/s, lowered pictures", 6.0, min_quality=MIN_QUALITY),
    Network("20 ms more each way", fault=LinkFault("delay", 1.0, 0.02), promised=True),
    Network("1 % of all messages lost", fault=LinkFault("drop", 0.01)),
    Network("stalls of 0.3 s, every 3 s", fault=LinkFault("delay", 1.0, BURST_S / 2), bursts=True),
)


def factory(machine: Machine) -> dict[str, Any]:
    model = {
        "latency_ms": 30.0,
        "images": {camera: list(SIZE) for camera in CAMERAS},
        "state": {"joint_position": 1},
        "horizon": 20,
        "dof": 2,
        "verdict": "ongoing",
    }
    return {
        "server_cluster": {"num_servers": 1, "gpu_type": "cpu"},
        "robot_fleet": [{"task": "pick", "num_robots": 64}],
        "pick": {
            "pipeline": {"action_period_ms": 800},
            "components": {
                "system1": {"model": "policy", "slo_ms": SLO_MS},
                "monitor": {"model": "policy", "slo_ms": SLO_MS, "freq_hz": MONITOR_HZ},
            },
        },
        "models": {"policy": {"backend": "emulated", "options": model}},
        "gateway": {"bind": f"tcp://{machine.address}:{PORT}", "metrics_port": 0, "watch": ""},
    }


@contextmanager
def running(machine: Machine, log: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(machine.command(sys.executable, "-m", *words), stdout=out, stderr=out)
    with ended(process):
        yield process


def until(condition: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + START_S
    while not condition():
        if time.monotonic() > end_s:
            raise TimeoutError(f"{what} did not come within {START_S:g} s")
        time.sleep(0.05)


def thin(machine: Machine, mbit_s: float) -> None:
    """What leaves this machine takes as long as on a cable of this rate; a tenth of a second of it waits."""
    words = ("tc", "qdisc", "replace", "dev", cable(machine), "root", "tbf", "rate", f"{mbit_s:g}mbit")
    subprocess.run(machine.command(*words, "burst", "64kb", "latency", "100ms"), check=True, timeout=10)


def cable(machine: Machine) -> str:
    told = subprocess.run(machine.command("ls", "/sys/class/net"), capture_output=True, text=True, timeout=10)
    return next(name for name in told.stdout.split() if name != "lo")


def sent_bytes(machine: Machine) -> int:
    words = ("cat", f"/sys/class/net/{cable(machine)}/statistics/tx_bytes")
    return int(subprocess.run(machine.command(*words), capture_output=True, text=True, timeout=10).stdout)


def measure(network: Network, robots: int, seconds: float) -> dict[str, Any]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rosa-networks-")))
        server, lab = stack.enter_context(two_machines())
        for machine in (server, lab):
            thin(machine, network.mbit_s)
        (folder / "factory.yaml").write_text(yaml.safe_dump(factory(server)))
        log = folder / "server.log"
        stack.enter_context(
            running(server, log, "rosa_server.cli", "serve", str(folder / "factory.yaml"), "--insecure")
        )
        until(lambda: "ROSA is ready" in log.read_text(), f"the server ({log.read_text()[-300:]})")
        port = PORT
        if network.fault is not NOTHING:
            port = PROXY
            stack.enter_context(
                running(
                    server,
                    folder / "proxy.log",
                    "rosa_sim.faults.proxy",
                    "--listen",
                    f"tcp://{server.address}:{PROXY}",
                    "--gateway",
                    f"tcp://{server.address}:{PORT}",
                    "--control",
                    f"tcp://127.0.0.1:{CONTROL}",
                )
            )
            if not network.bursts:
                order(server, network.fault)
        calls = folder / "calls.jsonl"
        total_s = WARM_UP_S + seconds
        told = [
            f"tcp://{server.address}:{port}",
            str(folder / "factory.yaml"),
            str(robots),
            f"{total_s + 20:g}",
        ]
        lowered = [] if network.min_quality is None else ["--min-quality", str(network.min_quality)]
        stack.enter_context(
            running(
                lab, folder / "robots.log", "rosa_sim.machines.camera_robots", *told, str(calls), *lowered
            )
        )
        until(lambda: calls.exists() and "in_time" in calls.read_text(), "a first answer in time")
        time.sleep(WARM_UP_S)
        begun_s, before = time.monotonic(), sent_bytes(lab)
        bursts_s = _wait(server, network, begun_s + seconds)
        ended_s, after = time.monotonic(), sent_bytes(lab)
        lines = [json.loads(line) for line in calls.read_text().splitlines() if line.endswith("]")]
    return row_of(network, lines, begun_s, ended_s, after - before, bursts_s)


def _wait(server: Machine, network: Network, until_s: float) -> list[float]:
    """Until then; the ends of the bursts that there were."""
    ends_s = []
    while (now_s := time.monotonic()) < until_s:
        if not network.bursts:
            time.sleep(max(0.0, until_s - now_s))
            continue
        order(server, network.fault)
        time.sleep(BURST_S)
        order(server, NOTHING)
        ends_s.append(time.monotonic())
        time.sleep(BURST_EVERY_S - BURST_S)
    return ends_s


def order(server: Machine, fault: LinkFault) -> None:
    code = (
        "from rosa_sim.faults.link import LinkFault; from rosa_sim.faults.proxy import set_fault; "
        f"set_fault('tcp://127.0.0.1:{CONTROL}', {fault!r})"
    )
    subprocess.run(server.command(sys.executable, "-c", code), check=True, timeout=20)


def row_of(
    network: Network,
    lines: list[list[Any]],
    begun_s: float,
    ended_s: float,
    sent: int,
    bursts_s: list[float],
) -> dict[str, Any]:
    ended = [line for line in lines if begun_s <= line[0] <= ended_s]
    times_ms = sorted(line[4] for line in ended if line[3] == "in_time")
    missed = sum(line[3] == "missed" for line in ended)
    row: dict[str, Any] = {
        "network": network.name,
        "calls": len(times_ms) + missed,
        "in_time_percent": round(100 * len(times_ms) / max(1, len(times_ms) + missed), 1),
        "p50_ms": round(times_ms[len(times_ms) // 2], 1) if times_ms else None,
        "p99_ms": round(times_ms[len(times_ms) * 99 // 100], 1) if times_ms else None,
        "mbit_s": round(sent * 8e-6 / (ended_s - begun_s), 2),
        "escalated": sum(line[3] == "escalated" for line in ended),
        "lowered": sum(line[3] == "lower_pictures" for line in lines),
        "raised": sum(line[3] == "raise_pictures" for line in lines),
    }
    if bursts_s:
        row["recovery_s"] = round(max(_recovery(ended, end_s) for end_s in bursts_s), 2)
    return row


def _recovery(ended: list[list[Any]], since_s: float) -> float:
    """From the end of a burst to the last first answer in time of any robot."""
    first: dict[str, float] = {}
    for at_s, robot, _, ending, _ in ended:
        if ending == "in_time" and at_s >= since_s:
            first.setdefault(robot, at_s - since_s)
    return max(first.values(), default=float("inf"))


def aims_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    at = {row["network"]: row for row in rows}
    aims = []
    for network in NETWORKS:
        share = at[network.name]["in_time_percent"] / 100
        if network.promised:
            text = f"{network.name}: {MIN_IN_TIME:.0%} of calls in time"
            aims.append({"aim": text, "value": share, "holds": share >= MIN_IN_TIME})
    plain, lowered = (at[name]["in_time_percent"] for name in ("6 Mbit/s", "6 Mbit/s, lowered pictures"))
    text = "6 Mbit/s: 95% of calls in time where pictures may be lowered, and more than where they may not"
    aims.append({"aim": text, "value": lowered / 100, "holds": lowered >= 95 and lowered > plain})
    burst = at["stalls of 0.3 s, every 3 s"]["recovery_s"]
    text = f"after a stall every robot is answered in time within {SLO_MS / 1000 + 1:g} s"
    aims.append({"aim": text, "value": burst, "holds": burst <= SLO_MS / 1000 + 1})
    escalated = sum(row["escalated"] for row in rows if row["network"] != "6 Mbit/s")
    aims.append(
        {"aim": "no robot calls a person, but at 6 Mbit/s", "value": escalated, "holds": not escalated}
    )
    return aims


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.4), layout="constrained", sharey=True)
    names = [row["network"] for row in rows][::-1]
    left.barh(names, [row["in_time_percent"] for row in rows][::-1], color="tab:blue")
    left.set_xlabel("calls in time, %")
    right.barh(names, [row["mbit_s"] for row in rows][::-1], color="tab:orange")
    right.set_xlabel("sent by all robots, Mbit/s")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--robots", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each network")
    parser.add_argument("--only", help="networks whose names contain this; nothing is written then")
    arguments = parser.parse_args()
    if why := denied():
        raise SystemExit(f"no network namespaces here, which takes root: {why}")
    rows = []
    for network in NETWORKS:
        if arguments.only and arguments.only not in network.name:
            continue
        rows.append(measure(network, arguments.robots, arguments.seconds))
        print(json.dumps(rows[-1]), flush=True)
    if arguments.only:
        return 0
    kilobytes = sum(len(photographs(0)[0].data) for _ in CAMERAS) / 1000
    note = (
        f"{arguments.robots} robots, {len(CAMERAS)} cameras of {SIZE[1]}x{SIZE[0]} at JPEG quality {QUALITY} "
        f"({kilobytes:.0f} kB a call), System 1 and a monitor of {MONITOR_HZ} Hz with {SLO_MS} ms each"
    )
    conclude(RESULT, rows, aims_of(rows), note)
    plot(rows, RESULT.with_suffix(".png"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
