"""Two gateways of one schedule: what robots lose when theirs is killed, and what forwarding a call costs.

python -m rosa_sim.machines.shared_schedule [--robots 16] [--repeat 5] [--json FILE]

Node `a` has one server of the schedule, node `b` another one and the standby. After `a` was killed its robots are at
`b` and run on the standby; when it is back, `b` forwards their calls to it, as they keep slot and route.
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
from statistics import median

import yaml

from rosa_server.serving.edge.access import make_keys
from rosa_sim.machines import two_servers
from rosa_sim.machines.planned import PLAN_S, write_profile
from rosa_sim.machines.story import AFTER_S, START_S, Call
from rosa_sim.ports import free_ports

SERVERS = 3
CALM_S = 5.0  # of which calls are compared


@dataclass(frozen=True)
class GatewayLoss:
    """One gateway that was killed. Seconds are from the kill to a robot's first answer in time; ms are medians of calls
    of the robots that it had."""

    median_s: float
    worst_s: float
    max_missed: int  # calls of one of its robots
    others_missed: int  # calls of the other gateway's robots
    lost: int  # of its robots
    kept: int  # robots that the other gateway welcomed to the slot that they had
    own_ms: float  # before: its own workers ran them
    forwarded_ms: float  # after it is back: the other gateway forwards them to it


class SharedScheduleStory:
    """Two gateways with robots of which each began with its own. `begin` before anything else, `close` in any case."""

    def __init__(self, folder: Path, robots: int) -> None:
        self._folder, self._robots = folder, robots
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._ports = dict(zip("ab", free_ports(2), strict=True))

    def begin(self) -> None:
        """Plan, and start everything. Raises `RuntimeError` and `TimeoutError`."""
        folder, robots = self._folder, self._robots
        for name, port in self._ports.items():
            content = two_servers.factory(port)
            content["server_cluster"] = {"num_servers": SERVERS, "gpu_type": "cpu"}
            content["robot_fleet"] = [{"task": "pick", "num_robots": robots}]
            (folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
        write_profile(folder / "profiles", "policy", 30.0, 1.0)
        command = [sys.executable, "-m", "rosa_server.cli", "plan", str(folder / "a.yaml"), "--json"]
        command += ["--standby", "1", "--profiles", str(folder / "profiles")]
        told = subprocess.run(command, capture_output=True, text=True, timeout=PLAN_S)
        if told.returncode:
            raise RuntimeError(f"rosa plan: {told.stdout[-1000:]}{told.stderr[-1000:]}")
        (folder / "plan.json").write_text(told.stdout)
        first, *others = [one["id"] for one in json.loads(told.stdout)["servers"]]
        make_keys(folder / "keys", nodes=("a", "b"))
        nodes = {
            name: {"robots": self._robots_at(name), "gateways": f"tcp://127.0.0.1:{port}", "servers": servers}
            for (name, servers), port in zip((("a", [first]), ("b", others)), free_ports(2), strict=True)
        }
        content = {"keys": "keys", "state": "state", "nodes": nodes}
        (folder / "nodes.yaml").write_text(yaml.safe_dump(content))
        for name in "ab":
            self.serve(name)
        self.until(lambda: "peer_here" in self.log("a") and "peer_here" in self.log("b"), "the other gateway")
        for name, other in ("ab", "ba"):
            gateways = f"{self._robots_at(name)},{self._robots_at(other)}"
            told_robots = (str(folder / f"{name}.yaml"), str(robots // 2), str(two_servers.LONG_S))
            calls = str(folder / f"calls_{name}.jsonl")
            self._start(f"robots_{name}", "rosa_sim.machines.robots", gateways, *told_robots, calls, name)

    def _robots_at(self, name: str) -> str:
        return f"tcp://127.0.0.1:{self._ports[name]}"

    def _start(self, name: str, *words: str) -> None:
        with (self._folder / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen([sys.executable, "-m", *words], stdout=log, stderr=log)

    def serve(self, name: str) -> None:
        folder = self._folder
        told: tuple[str, ...] = (
            *("--schedule", str(folder / "plan.json"), "--profiles", str(folder / "profiles"), "--fresh"),
        )
        told = (*told, "--nodes", str(folder / "nodes.yaml"), "--node", name)
        self._start(name, "rosa_server.cli", "serve", str(folder / f"{name}.yaml"), *told)
        self.until(lambda: "ROSA is ready" in self.log(name), f"gateway {name}")

    def log(self, name: str) -> str:
        path = self._folder / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def calls(self, since_s: float, until_s: float) -> list[Call]:
        """Those of all robots that ended then."""
        found = []
        for name in "ab":
            path = self._folder / f"calls_{name}.jsonl"
            for line in path.read_text().splitlines() if path.exists() else ():
                if line.endswith("]") and since_s <= (call := Call(*json.loads(line))).at_s < until_s:
                    found.append(call)
        return found

    def slots(self, name: str) -> dict[str, str]:
        """Robot -> the slot that this gateway has welcomed it to last."""
        lines = [json.loads(line) for line in self.log(name).splitlines() if line.startswith("{")]
        return {line["robot"]: line["slot"] for line in lines if line["event"] == "robot_joined"}

    def lose(self) -> GatewayLoss:
        """Kill `a`, see what follows, and start it again."""
        began_s = time.monotonic()
        self.until(lambda: self._served(began_s) >= self._robots, "an answer in time for every robot")
        calm_s = time.monotonic()
        time.sleep(CALM_S)
        had = self.slots("a")
        killed_s = time.monotonic()
        self._running["a"].send_signal(signal.SIGKILL)
        self._running["a"].wait()
        time.sleep(AFTER_S)
        now = self.slots("b")
        after = self.calls(killed_s, killed_s + AFTER_S)
        first: dict[str, float] = {}
        for call in after:
            if call.ending == "in_time" and call.robot in had:
                first[call.robot] = min(call.at_s - killed_s, first.get(call.robot, AFTER_S))
        missed = Counter(call.robot for call in after if call.ending == "missed")
        self.serve("a")
        self.until(lambda: "peer_here" in self.log("a"), "the other gateway")
        time.sleep(1.0)
        back_s = time.monotonic()
        time.sleep(CALM_S)
        return GatewayLoss(
            round(median(first.values() or (0.0,)), 3),
            round(max(first.values(), default=0.0), 3),
            max((missed[robot] for robot in had), default=0),
            sum(count for robot, count in missed.items() if robot not in had),
            len(had) - len(first),
            sum(now.get(robot) == slot for robot, slot in had.items()),
            self._median_ms(calm_s, killed_s, had),
            self._median_ms(back_s, back_s + CALM_S, had),
        )

    def _served(self, since_s: float) -> int:
        calls = self.calls(since_s, time.monotonic())
        return len({call.robot for call in calls if call.ending == "in_time"})

    def _median_ms(self, since_s: float, until_s: float, robots: dict[str, str]) -> float:
        took = [call.duration_ms for call in self.calls(since_s, until_s) if call.robot in robots]
        return round(median(took or [0.0]), 2)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        end_s = time.monotonic() + START_S
        while not condition():
            if time.monotonic() > end_s:
                raise TimeoutError(
                    f"{what} did not come within {START_S:g} s:\n{self.log('a')}{self.log('b')}"
                )
            time.sleep(0.05)

    def close(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--robots", type=int, default=16, help="an even number")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = []
    for number in range(arguments.repeat):
        with tempfile.TemporaryDirectory(prefix="rosa-shared-schedule-") as folder:
            story = SharedScheduleStory(Path(folder), arguments.robots)
            try:
                story.begin()
                found.append(story.lose())
            finally:
                story.close()
        print(f"{number + 1:3}. {found[-1]}", flush=True)
    print(
        f"{len(found)} gateways killed: answered in time again after {median(one.median_s for one in found):.2f} s"
        f" (median), {max(one.worst_s for one in found):.2f} s (worst); at most"
        f" {max(one.max_missed for one in found)} calls missed by one robot,"
        f" {sum(one.others_missed for one in found)} by robots of the other gateway"
    )
    own, forwarded = (
        median(values) for values in zip(*((o.own_ms, o.forwarded_ms) for o in found), strict=True)
    )
    print(f"a call takes {own:.2f} ms with its own gateway, {forwarded:.2f} ms forwarded (medians)")
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")
    return 1 if any(one.lost for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
