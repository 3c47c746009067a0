"""A Ray cluster of two nodes, each in a separate network namespace; a cable is cut by setting a link down."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from rosa_sim.namespaces import Machine, two_machines

START_S = 90.0
PORT = 6379
# The ROS 2 wheels start Python once more to find their libraries and mark that; a child of another Python must do the
# same.
ROS_FOUND = "_ROS_WHEELS_BOOTSTRAP_COMPLETE"
STORE_BYTES = 100_000_000
ENDS_S = 10.0


class Nodes:
    """`one` is the head. Every process in the two namespaces is ours."""

    def __init__(self, one: Machine, two: Machine, folder: Path) -> None:
        self.one, self.two = one, two
        self.address = f"{one.address}:{PORT}"
        self._folder = folder
        self.environment = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": token_hex(24),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_gcs_rpc_server_reconnect_timeout_s": "86400",  # nodes work on without their head
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "XDG_RUNTIME_DIR": str(folder.parent),  # of what Ray starts on the nodes
        }
        self.environment.pop(ROS_FOUND, None)

    def start(self, machine: Machine, gpus: int = 0) -> None:
        """Start the Ray node of a machine, and wait for it. Raises `RuntimeError` with what Ray said."""
        head = ("--head", "--port", str(PORT), "--temp-dir", str(self._folder), "--include-dashboard=false")
        role = head if machine is self.one else ("--address", self.address)
        here = ("--node-ip-address", machine.address, "--num-cpus", "1", "--num-gpus", str(gpus))
        store = ("--object-store-memory", str(STORE_BYTES))
        words = (sys.executable, "-m", "ray.scripts.scripts", "start", *role, *here, *store)
        done = self.run(machine, words, START_S)
        if done.returncode:
            raise RuntimeError(f"ray start on {machine.address}: {done.stdout[-2000:]}{done.stderr[-2000:]}")

    def run(
        self,
        machine: Machine,
        words: Sequence[str],
        limit_s: float,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """A command on a machine, ended after `limit_s`."""
        command = machine.command(*words)
        # Into files: what the command leaves running would keep a pipe open.
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = subprocess.Popen(command, stdout=out, stderr=err, env=environment or self.environment)
            try:
                status = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                process.kill()
                status = process.wait()
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(command, status, out.read(), err.read())

    def popen(
        self,
        machine: Machine,
        words: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """A command on a machine that goes on; what it prints is in `log`."""
        with log.open("ab") as out:
            return subprocess.Popen(
                machine.command(*words),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=environment or self.environment,
            )

    def pids(self, machine: Machine) -> list[int]:
        found = subprocess.run(
            ["ip", "netns", "pids", machine.name], capture_output=True, text=True, timeout=10, check=False
        )
        return [int(word) for word in found.stdout.split()]

    def kill(self, machine: Machine) -> None:
        """The machine is gone: all its processes at once, and its cable."""
        self.cut(machine)  # or its connections would say goodbye
        end_s = time.monotonic() + ENDS_S
        while (left := self.pids(machine)) and time.monotonic() < end_s:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        assert not left, f"{machine.name}: {left} do not end"

    def workers(self, machine: Machine) -> list[int]:
        """The model workers on a machine."""
        return self.named(machine, b"rosa_server.serving.worker.worker")

    def named(self, machine: Machine, part: bytes) -> list[int]:
        """The processes of a machine with this in their command line."""
        return [pid for pid in self.pids(machine) if part in _line(pid)]

    def cut(self, machine: Machine) -> None:
        self._link(machine, "down")

    def mend(self, machine: Machine) -> None:
        self._link(machine, "up")

    def _link(self, machine: Machine, state: str) -> None:
        cable = machine.name.replace("rosa-", "r").replace("-", "")
        words = ["ip", "-n", machine.name, "link", "set", cable, state]
        subprocess.run(words, check=True, capture_output=True, timeout=10)


def _line(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@contextmanager
def two_nodes(gpus: int = 0) -> Iterator[Nodes]:
    """Both nodes run; nothing of them is left afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="rosa-ray-"))
    try:
        with two_machines() as (one, two):
            nodes = Nodes(one, two, folder / "ray")
            try:
                nodes.start(one, gpus)
                nodes.start(two, gpus)
                yield nodes
            finally:
                for machine in (two, one):
                    with suppress(subprocess.CalledProcessError):
                        nodes.kill(machine)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
