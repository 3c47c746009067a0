"""The frontends of a server as processes: started, watched, restarted with backoff, and never left behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from rosa_contract.config.factory import Factory
from rosa_contract.process import ending
from rosa_server.cluster.groups import Reaper, end_group
from rosa_server.cluster.output import Output
from rosa_server.cluster.restart import Backoff
from rosa_server.frontends.spec import FrontendSpec, reachable
from rosa_server.serving.base import log
from rosa_server.serving.base.worker_spec import MISCONFIGURED

LOOK_EVERY_S = 0.1
MAX_LINE_BYTES = 1 << 16


class Counts(Protocol):
    """Where what frontends count goes (`metrics.py`)."""

    def frontend(self, name: str, clients: int, refused: Mapping[str, int]) -> None:
        """`refused`: by cause, since its process was started."""


@dataclass
class Running:
    """One frontend to keep running, and its present process."""

    spec: FrontendSpec
    backoff: Backoff = field(default_factory=Backoff)
    process: subprocess.Popen[bytes] | None = None
    output: Output | None = None
    status: int = -1  # our end of its pipe
    line: bytes = b""
    start_at_s: float = 0.0
    listening_s: float | None = None


def frontend_specs(factory: Factory, gateway: str, node: str = "") -> list[FrontendSpec]:
    """One per entry of `frontends`; `gateway`: where robots connect. `node`: its name, where there are several."""
    specs = []
    for name, one in factory.frontends.items():
        slo_ms = one.slo_ms or factory.tasks[one.task].components[one.component].slo_ms
        keys = factory.gateway.curve_keys
        specs.append(FrontendSpec(name, one, reachable(gateway), slo_ms, keys, node=node))
    return specs


class Frontends:
    """`step` often. `misconfigured`: why a frontend can never start, so that the server had better not go on."""

    def __init__(self, specs: list[FrontendSpec], counts: Counts) -> None:
        self._all = [Running(spec) for spec in specs]
        self._counts = counts
        self._reaper = Reaper()
        self._next_s = 0.0
        self._stopping = False
        self.misconfigured = ""

    @property
    def listening(self) -> bool:
        """Whether all of them accept clients."""
        return all(one.listening_s is not None for one in self._all)

    def step(self, now_s: float) -> None:
        """Notice ended ones, start those that are due, read what they count."""
        if now_s < self._next_s:
            return
        self._next_s = now_s + LOOK_EVERY_S
        for one in self._all:
            if one.process is not None:
                self._read(one, now_s)
                if one.process.poll() is not None:
                    self._ended(one, one.process, now_s)
            if one.process is None and not self._stopping and now_s >= one.start_at_s:
                self._start(one, now_s)

    def terminate(self) -> None:
        """Tell all to stop: clients get no more answers."""
        self._stopping = True
        for one in self._all:
            if one.process is not None and one.process.poll() is None:
                one.process.send_signal(signal.SIGTERM)

    def stop(self, grace_s: float) -> None:
        """End all of them: what has not ended by itself within `grace_s` is killed."""
        self.terminate()
        until_s = time.monotonic() + grace_s
        for one in self._all:
            if one.process is None:
                continue
            try:
                one.process.wait(max(0.0, until_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                one.process.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    one.process.wait(5)
            self._ended(one, one.process, time.monotonic())
        self._reaper.close()

    def _start(self, one: Running, now_s: float) -> None:
        ours, output = -1, None
        with contextlib.ExitStack() as theirs:  # what the process has, and is closed here
            try:
                ours, status_fd = os.pipe()
                theirs.callback(os.close, status_fd)
                os.set_blocking(ours, False)
                log_fd = os.dup(2)
                theirs.callback(os.close, log_fd)
                output = Output()
                spec = replace(one.spec, parent_pid=os.getpid(), log_fd=log_fd, status_fd=status_fd)
                one.process = subprocess.Popen(
                    spec.command(),
                    stdin=subprocess.DEVNULL,
                    stdout=output.theirs,
                    stderr=output.theirs,
                    pass_fds=(status_fd, log_fd),
                    process_group=0,  # Ctrl-C is the server's
                )
            except OSError as error:  # no descriptor, no process, no memory
                if ours >= 0:
                    os.close(ours)
                if output is not None:
                    output.close()
                one.start_at_s = one.backoff.later(now_s)
                log.warning("frontend_lost", frontend=one.spec.name, reason=f"could not be started: {error}")
                return
        self._reaper.watch(one.process.pid)
        output.started()
        one.output, one.status, one.line, one.listening_s = output, ours, b"", None
        log.event(
            "frontend_started",
            frontend=one.spec.name,
            protocol=one.spec.frontend.protocol,
            pid=one.process.pid,
        )

    def _ended(self, one: Running, process: subprocess.Popen[bytes], now_s: float) -> None:
        end_group(process.pid)
        self._reaper.forget(process.pid)
        if one.output is not None:
            one.output.read(now_s, one.spec.name, last=True)
            one.output.close()
        os.close(one.status)
        one.start_at_s = one.backoff.ended(one.listening_s, now_s)
        why = ending(process.returncode)
        if not self._stopping:
            log.warning("frontend_lost", frontend=one.spec.name, reason=why)
        if process.returncode == MISCONFIGURED and one.spec.life == 1 and one.listening_s is None:
            self.misconfigured = (
                f"frontends.{one.spec.name}: cannot work as configured; its last words in the log say why"
            )
        self._counts.frontend(one.spec.name, 0, {})
        one.process, one.output, one.status, one.listening_s = None, None, -1, None
        one.spec = replace(one.spec, life=one.spec.life + 1)

    def _read(self, one: Running, now_s: float) -> None:
        if one.output is not None:
            one.output.read(now_s, one.spec.name)
        with contextlib.suppress(BlockingIOError):
            one.line += os.read(one.status, MAX_LINE_BYTES)
        *lines, one.line = one.line.split(b"\n")
        for line in lines:
            told: dict[str, Any] = json.loads(line)
            if "listening" in told:
                one.listening_s = now_s
            elif "clients" in told:
                self._counts.frontend(one.spec.name, told["clients"], told["refused"])
