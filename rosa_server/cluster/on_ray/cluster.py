"""Workers on the nodes of a Ray cluster: Ray reserves, starts and ends them, ROSA's own links say whether they work.

Talks to `driver.py`, a process, by lines of JSON and without ever waiting for it once the server serves: where the head
of the Ray cluster is lost, the driver ends, the workers go on, and another driver finds them when the head is back.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from secrets import token_hex
from typing import Any

from rosa_server.cluster.on_ray.mapping import Part, RayError
from rosa_server.cluster.output import Output
from rosa_server.cluster.restart import Lives, Numbers, Roster
from rosa_server.plan.placement import Placement
from rosa_server.serving.base import log
from rosa_server.serving.base.shared_memory import ShmWriter
from rosa_server.serving.base.worker_keys import WorkerKeys
from rosa_server.serving.base.worker_spec import WorkerSpec
from rosa_server.serving.edge.cluster import ClusterError

# A placement and the replicas of it that are new -> their workers, each with the name of its part, and all parts.
Further = Callable[[Placement, Collection[str]], tuple[list[tuple[WorkerSpec, str]], list[Part]]]
DRIVER = (sys.executable, "-m", "rosa_server.cluster.on_ray.driver")
CONNECT_S = 180.0  # until all is reserved, or refused
AGAIN_S = 5.0  # between two drivers
LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
STOP_S = 20.0  # beside the workers' grace


@dataclass(eq=False)
class Remote(Lives):
    """One worker to keep running on some node."""

    part: str = ""
    running: bool = False

    def forget_process(self) -> None:
        self.running, self.worker_id = False, ""


class RayCluster:
    """Reserves what `parts` need when it is made. Raises `RayError`; then nothing is reserved."""

    def __init__(
        self,
        workers: Sequence[tuple[WorkerSpec, str]],
        parts: Sequence[Part],
        address: str,
        port: int = 0,
        command: Sequence[str] = DRIVER,
        further: Further | None = None,
    ) -> None:
        """`workers`: each with the name of its part. `port`: where they connect; 0: any free one. `further`: describes
        what is added later."""
        self._workers = Roster(Remote(spec, part=part) for spec, part in workers)
        self._parts, self._address, self._command = list(parts), address, command
        self._further = further
        self._asked: dict[str, Part] = {}  # parts that the driver was asked to place
        self._lives: dict[str, int] = {}  # of workers that were dropped, by name
        self._server = token_hex(4)
        self._where: dict[str, dict[str, Any]] = {}
        self._keys: WorkerKeys | None = None
        self._endpoint = ""
        self._lost: list[tuple[str, str]] = []
        self._stopping = False
        self._next_driver_s = 0.0
        self.misconfigured = ""
        self._process: subprocess.Popen[bytes] | None = None  # the driver
        self._begin_driver({})
        told = self._first_answer()
        self.workers_bind = f"tcp://{told['address']}:{port or '*'}"
        self._place(told["where"])

    # -- the protocol ----------------------------------------------------------------------------------------------

    def start(self, endpoint: str, keys: WorkerKeys | None) -> None:
        self._endpoint, self._keys = endpoint, keys

    def poll(self, now_s: float) -> list[tuple[str, str]]:
        self._carry(now_s)
        for worker in self._workers:
            placed = worker.part in self._where
            if placed and not worker.running and not self._stopping and worker.starts(now_s):
                self._start(worker)
        lost, self._lost = self._lost, []
        return lost

    def ready(self, worker_id: str, now_s: float) -> None:
        self._workers.is_ready(worker_id, now_s)

    def hold(self, name: str, held: bool) -> None:
        self._workers.hold(name, held)

    def change(self, name: str, change: Callable[[WorkerSpec], WorkerSpec]) -> None:
        self._workers.change(name, change)

    def bequeath(self, name: str, change: Callable[[WorkerSpec], WorkerSpec], waits: bool = False) -> str:
        return self._workers.bequeath(name, change, waits)

    def inherit(self, name: str) -> None:
        self._workers.inherit(name)

    def revert(self, name: str) -> None:
        heir = self._workers.revert(name)
        if not heir.running:
            self._workers.remove(heir)

    def add(self, placement: Placement, replicas: Collection[str]) -> list[str]:
        """Their parts are placed meanwhile, or refused: then `poll` reports the workers as ended."""
        if self._further is None:
            raise ClusterError("not_here", ClusterError.CAUSES["not_here"])
        workers, parts = self._further(placement, replicas)
        known = {part.name for part in self._parts}
        new = [part for part in parts if part.name not in known]
        self._parts += new
        self._asked |= {part.name: part for part in new}
        for spec, part in workers:
            numbers = Numbers(self._lives.get(spec.worker_id, 0))
            self._workers.append(Remote(spec, part=part, numbers=numbers))
        if new:
            self._tell(do="place", parts=_plain(new))
        return [spec.worker_id for spec, _ in workers]

    def room(self) -> int:
        """Nobody asks: its gateway is the only one."""
        return 0

    def drop(self, name: str) -> list[str]:
        """With its last worker a part is given back."""
        dropped = []
        for worker in self._workers.named(name):
            self._lives[name] = worker.numbers.last  # no id is given twice
            worker.held = worker.dropped = True
            if worker.running:
                dropped.append(worker.worker_id)
                self.kill(worker.worker_id, "it is not in the new schedule")
            if worker in self._workers:
                self._workers.remove(worker)
        used = {worker.part for worker in self._workers}
        for part in [one for one in self._parts if one.name not in used]:
            self._parts.remove(part)
            self._asked.pop(part.name, None)
            self._where.pop(part.name, None)
            self._tell(do="release", part=part.name)
        return dropped

    def kill(self, worker_id: str, reason: str) -> None:
        """It counts as ended from now on: nobody knows when, or whether, its node hears of it."""
        worker = self._find(worker_id)
        if self._workers.forget_heir(worker_id):
            self._lost.append((worker_id, reason))
        elif worker is not None:
            worker.killed_for = reason
            self._tell(do="kill", part=worker.part, worker_id=worker_id)
            self._ended(worker, None, time.monotonic(), reason)

    def shm(self, worker_id: str) -> ShmWriter | None:
        return None

    def stop(self, grace_s: float) -> None:
        self._stopping = True
        self._tell(do="stop", grace_s=grace_s)
        deadline_s = time.monotonic() + grace_s + STOP_S
        while self._drives() and time.monotonic() < deadline_s:
            self._carry(time.monotonic())
            time.sleep(0.02)
        self._end_driver()

    # -- workers ---------------------------------------------------------------------------------------------------

    def _find(self, worker_id: str) -> Remote | None:
        worker = self._workers.find(worker_id)
        return worker if worker is not None and worker.running else None

    def _start(self, worker: Remote) -> None:
        if self._keys is None or not self._drives():
            return  # not yet, or not before Ray is there again
        worker_id = worker.begin()
        spec = replace(
            worker.spec, worker_id=worker_id, endpoint=self._endpoint, keys=self._keys.issue(worker_id)
        )
        worker.running = True
        self._tell(do="start", part=worker.part, spec=asdict(spec))
        log.event("worker_started", worker=worker_id, model=spec.model, backend=spec.backend)

    def _ended(self, worker: Remote, status: int | None, now_s: float, why: str = "") -> None:
        worker.running = False
        if self._keys is not None:
            self._keys.withdraw(worker.worker_id)
        worker_id = worker.worker_id
        self._lost.append((worker_id, worker.ended(status, now_s, why)))
        self.misconfigured = worker.misconfigured or self.misconfigured
        self._workers.settle(worker)

    def _place(self, where: dict[str, dict[str, Any]]) -> None:
        known = {part.name for part in self._parts}
        self._where = {name: at for name, at in where.items() if name in known}
        self._asked = {name: part for name, part in self._asked.items() if name not in where}
        log.event("parts_placed", nodes={part: at["address"] for part, at in where.items()})

    def _refused(self, parts: Sequence[str], why: str) -> None:
        """There is no place for these: their workers will never start."""
        for worker in [one for one in self._workers if one.part in parts]:
            self._lost.append((worker.begin(), why))
            self._lives[worker.spec.worker_id] = worker.numbers.last
            self._workers.remove(worker)
        self._parts = [part for part in self._parts if part.name not in parts]
        self._asked = {name: part for name, part in self._asked.items() if name not in parts}

    # -- the driver ------------------------------------------------------------------------------------------------

    def _drives(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _begin_driver(self, adopt: dict[str, Any]) -> None:
        """Raises `OSError`."""
        output = Output()
        try:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output.theirs,
                bufsize=0,
                process_group=0,  # Ctrl-C is the server's
            )
        except OSError:
            output.close()
            raise
        self._process, self._output, self._rest, self._unsent = process, output, b"", b""
        output.started()
        assert process.stdin is not None and process.stdout is not None
        os.set_blocking(process.stdin.fileno(), False)
        os.set_blocking(process.stdout.fileno(), False)
        placed = [part for part in self._parts if not adopt or part.name in adopt]
        self._tell(server=self._server, address=self._address, parts=_plain(placed), adopt=adopt)
        if adopt and self._asked:
            self._tell(do="place", parts=_plain(list(self._asked.values())))

    def _end_driver(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.kill()
            process.wait(5)
        self._output.read(time.monotonic(), "ray", last=True)
        self._output.close()
        for end in (process.stdin, process.stdout):
            if end is not None:
                end.close()

    def _first_answer(self) -> dict[str, Any]:
        """Wait until all is reserved."""
        deadline_s = time.monotonic() + CONNECT_S
        told: list[dict[str, Any]] = []
        while not told and self._drives() and time.monotonic() < deadline_s:
            self._send()
            time.sleep(0.02)
            told = self._read()
            self._output.read(time.monotonic(), "ray")
        told = told or self._read()
        if told and told[0]["event"] == "placed":
            return told[0]
        self._end_driver()
        if told:
            raise RayError(told[0]["cause"], told[0]["words"])
        raise RayError("no_ray", f"{self._address}: no answer within {CONNECT_S:g} s, or the driver ended")

    def _carry(self, now_s: float) -> None:
        """Hand on what was said on either side."""
        self._send()
        for told in self._read():
            worker = self._find(told.get("worker_id", ""))
            if told["event"] in ("placed", "moved", "added"):
                self._place(told["where"])
            elif told["event"] == "not_added":
                self._refused(told["parts"], f"{told['words']} ({told['cause']})")
            elif told["event"] == "output":
                _log(told["worker_id"], told["text"])
            elif told["event"] == "ended" and worker is not None:
                self._ended(worker, told.get("status"), now_s, told.get("why", ""))
            elif told["event"] == "refused":
                log.warning("ray_refused", cause=told["cause"], reason=told["words"])
        if self._process is not None:
            self._output.read(now_s, "ray")
        if not self._drives() and not self._stopping and now_s >= self._next_driver_s:
            log.warning("ray_lost", address=self._address, again_s=AGAIN_S)
            self._next_driver_s = now_s + AGAIN_S
            self._end_driver()
            running = {
                part.name: [w.worker_id for w in self._workers if w.running and w.part == part.name]
                for part in self._parts
                if part.name in self._where
            }
            try:
                self._begin_driver(
                    {name: {**at, "workers": running[name]} for name, at in self._where.items()}
                )
            except OSError as error:  # no descriptor, no process, no memory
                log.warning("driver_not_started", reason=str(error))

    def _tell(self, **what: Any) -> None:
        self._unsent += json.dumps(what).encode() + b"\n"
        self._send()

    def _send(self) -> None:
        if self._process is None:  # nobody hears it
            self._unsent = b""
            return
        assert self._process.stdin is not None
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(self._process.stdin.fileno(), self._unsent) :]
        except BlockingIOError:  # the rest another time
            return
        except OSError:  # it has ended
            self._unsent = b""

    def _read(self) -> list[dict[str, Any]]:
        if self._process is None:
            return []
        assert self._process.stdout is not None
        try:
            while data := os.read(self._process.stdout.fileno(), 1 << 16):
                self._rest += data
        except BlockingIOError:
            pass
        *lines, self._rest = self._rest.split(b"\n")
        return [json.loads(line) for line in lines]


def _plain(parts: Sequence[Part]) -> list[dict[str, Any]]:
    return [{**asdict(part), "protects": sorted(part.protects)} for part in parts]


def _log(worker_id: str, text: str) -> None:
    """What a worker has printed: its own events as such, and whatever its libraries print."""
    printed = []
    for line in text.splitlines():
        try:
            said = json.loads(line)
            log.event(said.pop("event"), level=LEVELS[said.pop("level")], at=said.pop("time"), **said)
        except (ValueError, KeyError, TypeError, AttributeError):
            printed.append(line)
    if printed:
        log.warning("worker_output", worker=worker_id, text="\n".join(printed))
