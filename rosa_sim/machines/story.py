"""A server on two machines with robots, and what each of them lost to what went wrong."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from rosa_sim.machines.nodes import Nodes
from rosa_sim.machines.robots import TASK
from rosa_sim.namespaces import Machine

SLO_MS = 500.0
AFTER_S = 5.0  # what ends so soon after an event counts as its consequence
START_S = 120.0
END_S = 60.0
COMMAND_S = 150.0
ROBOTS_PORT = 5570
MAX_SERVERS = 3  # of a schedule


def factory(nodes: Nodes, workers: int = 2, gpu_type: str = "cpu", **options: Any) -> dict[str, Any]:
    """One model with its workers on both machines, each of which could serve the whole fleet. Without `workers`: for a
    schedule."""
    chunk = {"horizon": 1, "dof": 2}  # of a virtual robot
    emulated = {"latency_ms": 30.0, "per_item_ms": 1.0, **chunk, **options}
    return {
        "server_cluster": {
            "num_servers": workers or MAX_SERVERS,
            "gpu_type": gpu_type,
            "cluster": "ray",
            "address": nodes.address,
        },
        "robot_fleet": [{"task": TASK, "num_robots": 32}],
        TASK: {
            "pipeline": {"action_period_ms": 800},
            "components": {"system1": {"model": "policy", "slo_ms": SLO_MS, "fallback": "stop_and_resend"}},
        },
        "models": {
            "policy": {"backend": "emulated", "options": emulated} | ({"workers": workers} if workers else {})
        },
        "gateway": {"bind": f"tcp://127.0.0.1:{ROBOTS_PORT}", "metrics_port": 0},
    }


@dataclass(frozen=True)
class Call:
    """One line of `robots.py`."""

    at_s: float
    robot: str
    component: str
    ending: str
    duration_ms: float


class Story:
    """A server on the first machine of `nodes`, and robots beside it."""

    def __init__(self, nodes: Nodes, folder: Path) -> None:
        self.nodes, self._folder = nodes, folder
        self._log = folder / "server.log"
        # Wall time minus monotonic time: the server's log has the one, robots' calls have the other.
        self._wall_s = time.time() - time.monotonic()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._server: subprocess.Popen[bytes] | None = None
        # Short, as a socket's path has at most 107 characters; of its own, as a server that is killed leaves its state.
        self._runtime = tempfile.mkdtemp(prefix="rosa-run-")
        self._environment = {**nodes.environment, "XDG_RUNTIME_DIR": self._runtime, "TZ": "UTC"}

    def rosa(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command for the server."""
        command = (sys.executable, "-m", "rosa_server.cli", *words, "--server", str(ROBOTS_PORT))
        return self.nodes.run(self.nodes.one, command, COMMAND_S, self._environment)

    def serve(self, content: dict[str, Any], *arguments: str) -> subprocess.Popen[bytes]:
        """Start `rosa serve`."""
        path = self._folder / "factory.yaml"
        path.write_text(yaml.safe_dump(content))
        words = (sys.executable, "-m", "rosa_server.cli", "serve", str(path), *arguments)
        self._server = self.nodes.popen(self.nodes.one, words, self._log, self._environment)
        self._processes.append(self._server)
        return self._server

    def robots(self, count: int, seconds: float, far: bool = False) -> subprocess.Popen[bytes]:
        """`far`: on the second machine, if the server can be reached from there."""
        machine, name = (self.nodes.two, "far") if far else (self.nodes.one, "robot")
        host = self.nodes.one.address if far else "127.0.0.1"
        words = (
            "rosa_sim.machines.robots",
            f"tcp://{host}:{ROBOTS_PORT}",
            str(self._folder / "factory.yaml"),
        )
        told = (str(count), str(seconds), str(self._folder / f"{name}.jsonl"), name)
        return self.start(machine, (sys.executable, "-m", *words, *told), self._folder / f"{name}s.log")

    def start(self, machine: Machine, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """A process that ends with the story."""
        self._processes.append(self.nodes.popen(machine, command, log))
        return self._processes[-1]

    def text(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def events(self, name: str, since_s: float = 0.0, text: str | None = None) -> list[dict[str, Any]]:
        """What the server's log says of this event, or `text` of it; `at_s` is on the monotonic clock."""
        found = []
        for line in (self.text() if text is None else text).splitlines():
            if line.startswith("{") and (said := json.loads(line))["event"] == name:
                at_s = datetime.fromisoformat(said["time"] + "+00:00").timestamp() - self._wall_s
                if at_s >= since_s - 0.002:  # its log has milliseconds
                    found.append({**said, "at_s": at_s})
        return found

    def noticed(self, since_s: float) -> list[dict[str, Any]]:
        """What the server's log says of workers that it has lost, the first one first."""
        found = self.events("worker_link_ended", since_s) + self.events("worker_silent", since_s)
        return sorted(found, key=lambda one: float(one["at_s"]))

    def calls(self) -> list[Call]:
        lines = [line for path in self._folder.glob("*.jsonl") for line in path.read_text().splitlines()]
        return [Call(*json.loads(line)) for line in lines if line.endswith("]")]

    def until(self, condition: Callable[[], Any], what: str, limit_s: float = END_S) -> Any:
        """Wait for it. Raises `TimeoutError` with the end of the server's log."""
        end_s = time.monotonic() + limit_s
        while not (found := condition()):
            if any((one.poll() or 0) > 0 for one in self._processes):
                raise TimeoutError(f"a process has ended before {what}:\n{self._tails()}")
            if time.monotonic() > end_s:
                raise TimeoutError(f"{what} did not happen within {limit_s:g} s; log:\n{self.text()[-3000:]}")
            time.sleep(0.02)
        return found

    def _tails(self) -> str:
        return "\n".join(
            path.read_text(errors="replace")[-1500:] for path in sorted(self._folder.glob("*.log"))
        )

    def missed(self, since_s: float, seconds: float = AFTER_S) -> Counter[str]:
        """Robot -> calls that were not answered in time."""
        ended = [call for call in self.calls() if since_s <= call.at_s < since_s + seconds]
        return Counter(call.robot for call in ended if call.component and call.ending == "missed")

    def first_served(self, since_s: float) -> dict[str, float]:
        """Robot -> its first answer in time since then."""
        first: dict[str, float] = {}
        for call in self.calls():
            if call.at_s >= since_s and call.ending == "in_time":
                first[call.robot] = min(call.at_s, first.get(call.robot, call.at_s))
        return first

    def served(self, since_s: float) -> set[str]:
        """The robots with an answer in time since then."""
        return set(self.first_served(since_s))

    def stop(self) -> int:
        """SIGTERM to the server. Returns its exit status."""
        assert self._server is not None
        self._server.send_signal(signal.SIGTERM)
        return self._server.wait(END_S)

    def kill_server(self) -> None:
        """SIGKILL to the server, which may be started again."""
        assert self._server is not None
        self._server.kill()
        self._server.wait(END_S)
        self._processes.remove(self._server)

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        shutil.rmtree(self._runtime, ignore_errors=True)


@contextmanager
def story(nodes: Nodes, folder: Path) -> Iterator[Story]:
    """Nothing that it started is left afterwards, and nothing of it on the nodes."""
    made = Story(nodes, folder)
    try:
        yield made
    finally:
        made.close()
