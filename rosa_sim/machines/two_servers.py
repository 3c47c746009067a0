"""Two servers, robots that know both, and what each robot loses when its server is killed.

python -m rosa_sim.machines.two_servers [--robots 16] [--repeat 20] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from rosa_sim.machines.story import AFTER_S, SLO_MS, START_S, Call
from rosa_sim.ports import free_ports

LONG_S = 3600.0
CALM_S = 3.0
GROUPS = ("left", "right")  # names of robots, by the server that they begin with


@dataclass(frozen=True)
class Loss:
    """One server that was killed. Seconds from the kill to the first answer in time; `lost`: robots without one."""

    robots: int  # that it served
    median_s: float
    worst_s: float
    max_missed: int  # calls of one of its robots
    others_missed: int  # calls of the other server's robots
    lost: int


def factory(port: int) -> dict[str, object]:
    """One model, which could serve all robots."""
    emulated = {"latency_ms": 30.0, "per_item_ms": 1.0, "horizon": 1, "dof": 2}
    return {
        "server_cluster": {"num_servers": 1, "gpu_type": "cpu"},
        "robot_fleet": [{"task": "pick", "num_robots": 64}],
        "pick": {
            "pipeline": {"action_period_ms": 800},
            "components": {"system1": {"model": "policy", "slo_ms": SLO_MS, "fallback": "stop_and_resend"}},
        },
        "models": {"policy": {"backend": "emulated", "workers": 1, "options": emulated}},
        "gateway": {"bind": f"tcp://127.0.0.1:{port}", "metrics_port": 0, "watch": ""},
    }


class TwoServers:
    """Two servers, and robots of which each began with one of them."""

    def __init__(self, folder: Path, robots: int) -> None:
        self._folder = folder
        self._ports = free_ports(2)
        self._servers: dict[int, subprocess.Popen[bytes]] = {}
        self._together = False  # after the first loss all are with one server
        self._robots: list[subprocess.Popen[bytes]] = []
        for port in self._ports:
            (folder / f"{port}.yaml").write_text(yaml.safe_dump(factory(port)))
            self._serve(port)
        for index, ports in enumerate((self._ports, self._ports[::-1])):
            gateways = ",".join(f"tcp://127.0.0.1:{port}" for port in ports)
            path = str(folder / f"{ports[0]}.yaml")
            told = (path, str(robots // 2), str(LONG_S), str(folder / f"calls{index}.jsonl"), GROUPS[index])
            self._robots.append(self._start(f"robots{index}", "rosa_sim.machines.robots", gateways, *told))

    def _start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen([sys.executable, "-m", *words], stdout=log, stderr=log)

    def _serve(self, port: int) -> None:
        (self._folder / f"{port}.log").write_text("")
        path = str(self._folder / f"{port}.yaml")
        self._servers[port] = self._start(str(port), "rosa_server.cli", "serve", path)
        self._until(lambda: "ROSA is ready" in (self._folder / f"{port}.log").read_text(), f"server {port}")

    def calls(self) -> list[Call]:
        found = []
        for index in range(2):
            path = self._folder / f"calls{index}.jsonl"
            for line in path.read_text().splitlines() if path.exists() else ():
                if line.endswith("]"):
                    found.append(Call(*json.loads(line)))
        return found

    def served(self, since_s: float) -> dict[str, float]:
        """Robot -> when it was first answered in time since then."""
        first: dict[str, float] = {}
        for call in self.calls():
            if call.at_s >= since_s and call.ending == "in_time":
                first[call.robot] = min(call.at_s, first.get(call.robot, call.at_s))
        return first

    def all_served(self, since_s: float, count: int) -> None:
        self._until(lambda: len(self.served(since_s)) >= count, f"an answer in time for {count} robots")

    def lose(self, number: int, robots: int) -> Loss:
        """Kill one server, see what follows, and start it again."""
        port = self._ports[number]
        groups = GROUPS if self._together else (GROUPS[number],)
        here = {f"{name}{i:02d}" for name in groups for i in range(robots // 2)}
        killed_s = time.monotonic()
        self._servers[port].send_signal(signal.SIGKILL)
        self._servers[port].wait()
        end_s = killed_s + AFTER_S
        while time.monotonic() < end_s:
            time.sleep(0.1)
        first = self.served(killed_s)
        took = sorted(first[robot] - killed_s for robot in here if robot in first)
        missed = Counter(
            call.robot for call in self.calls() if killed_s <= call.at_s < end_s and call.ending == "missed"
        )
        self._together = True
        self._serve(port)
        return Loss(
            len(here),
            took[len(took) // 2] if took else 0.0,
            took[-1] if took else 0.0,
            max((missed[robot] for robot in here), default=0),
            sum(count for robot, count in missed.items() if robot not in here),
            len(here) - len(took),
        )

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        end_s = time.monotonic() + START_S
        while not condition():
            if time.monotonic() > end_s:
                raise TimeoutError(f"{what} did not come within {START_S:g} s")
            time.sleep(0.05)

    def close(self) -> None:
        for process in [*self._robots, *self._servers.values()]:
            process.kill()
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--robots", type=int, default=16, help="an even number")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory(prefix="rosa-two-servers-") as folder:
        pair = TwoServers(Path(folder), arguments.robots)
        try:
            for number in range(arguments.repeat):
                pair.all_served(time.monotonic() + CALM_S, arguments.robots)
                found.append(pair.lose(number % 2, arguments.robots))
                print(f"{number + 1:3}. {found[-1]}", flush=True)
        finally:
            pair.close()
    worst, median = max(one.worst_s for one in found), sorted(one.median_s for one in found)[len(found) // 2]
    missed, others = max(one.max_missed for one in found), sum(one.others_missed for one in found)
    print(
        f"{len(found)} servers killed: answered in time again after {median:.2f} s (median), {worst:.2f} s (worst)"
    )
    print(f"at most {missed} calls missed by one robot, {others} by robots of the other server")
    print(f"{sum(one.lost for one in found)} robots lost")
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")
    return 1 if any(one.lost for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
