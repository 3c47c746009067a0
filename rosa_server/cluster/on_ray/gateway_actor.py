"""What runs on a node for one gateway of several: a Ray actor that keeps the process of `rosa serve --nodes` running.

The gateway starts its own workers, as it does without Ray, on the GPUs that Ray has given to the actor. It ends with
its actor, whatever ends that.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from rosa_server.cluster.groups import Reaper, end_group
from rosa_server.cluster.restart import Backoff

COMMAND = (sys.executable, "-m", "rosa_server.cli")
STEP_S = 0.1
READY = b"ROSA is ready"
MAX_LOG_BYTES = 16 << 20  # of an earlier gateway; a longer one begins anew
MAX_TAIL_BYTES = 2000
REFUSED = 2  # exit status of a command line that cannot be served
END_S = 5.0  # beside the grace: until all its workers have ended


class GatewayActor:
    """The gateway of one node."""

    def __init__(self, words: list[str], files: dict[str, str], folder: str) -> None:
        """`words`: of the command, in which {folder} is where `files` (name -> content) are, and its log. `folder`: of
        this user, in which that one is made; empty: where slots are written down. Raises `OSError`."""
        from rosa_server.serving.edge.slots_file import state_folder

        node = words[words.index("--node") + 1]
        self._folder = (Path(folder) if folder else state_folder()) / f"gateway-{node}"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, content in files.items():
            beside = self._folder / f".{name}.{os.getpid()}"
            beside.write_text(content)
            beside.replace(self._folder / name)
        self._words = [word.replace("{folder}", str(self._folder)) for word in words]
        self._log = self._folder / "gateway.log"
        self._reaper, self._backoff = Reaper(), Backoff()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._began_at = 0  # in the log
        self._ready_s: float | None = None
        self._start_at_s = 0.0
        self._lives, self._refused = 0, ""
        threading.Thread(target=self._run, daemon=True).start()

    def look(self) -> dict[str, Any]:
        """How the gateway is. `refused`: what it has said where it cannot be served as it is configured."""
        with self._lock:
            process = self._process
            return {
                "pid": process.pid if process is not None else None,
                "ready": self._ready_s is not None,
                "lives": self._lives,
                "refused": self._refused,
                "log": str(self._log),
            }

    def end(self, grace_s: float) -> None:
        """End the gateway: after SIGTERM it has `grace_s`."""
        self._stop.set()
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(grace_s)
            except subprocess.TimeoutExpired:
                end_group(process.pid)
                process.wait(END_S)
            self._reaper.forget(process.pid)
        self._reaper.close()

    def _run(self) -> None:
        while not self._stop.wait(STEP_S):
            with self._lock:
                if not self._stop.is_set():
                    self._step(time.monotonic())

    def _step(self, now_s: float) -> None:
        process = self._process
        if process is None:
            if now_s >= self._start_at_s:
                self._start(now_s)
        elif (status := process.poll()) is not None:
            end_group(process.pid)
            self._reaper.forget(process.pid)
            if status == REFUSED and self._ready_s is None:
                self._refused = self._tail().strip() or f"it ended with status {status}"
            self._start_at_s = self._backoff.ended(self._ready_s, now_s)
            self._process = self._ready_s = None
        elif self._ready_s is None and READY in self._said():
            self._ready_s, self._refused = now_s, ""

    def _start(self, now_s: float) -> None:
        try:
            if self._log.exists() and self._log.stat().st_size > MAX_LOG_BYTES:
                self._log.unlink()
            with self._log.open("ab") as out:
                self._began_at = out.tell()
                self._process = subprocess.Popen(
                    [*COMMAND, *self._words],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    process_group=0,
                )
        except OSError as error:
            self._refused = f"it could not be started: {error}"
            self._start_at_s = self._backoff.later(now_s)
            return
        self._lives += 1
        self._reaper.watch(self._process.pid)

    def _said(self) -> bytes:
        """What this life of the gateway has said."""
        try:
            with self._log.open("rb") as file:
                file.seek(self._began_at)
                return file.read(MAX_LOG_BYTES)
        except OSError:
            return b""

    def _tail(self) -> str:
        lines = [
            line for line in self._said()[-MAX_TAIL_BYTES:].decode(errors="replace").splitlines() if line
        ]
        return next((line for line in reversed(lines) if not line.startswith("{")), "")
