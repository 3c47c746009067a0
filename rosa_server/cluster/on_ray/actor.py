"""What runs on a node for one part of a schedule: a Ray actor that starts the same worker processes as `local` does.

Ray gives the actor its GPU (`CUDA_VISIBLE_DEVICES`), and the workers inherit it. A worker ends with its actor, whatever
ends that; an actor without workers that nobody has asked for long removes itself and what was reserved for it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from rosa_server.cluster.groups import Reaper, end_group
from rosa_server.serving.base.release import release
from rosa_server.serving.base.worker_keys import WorkerKeyPair
from rosa_server.serving.base.worker_spec import WorkerSpec

FORGOTTEN_S = 60.0  # without a question, and without a worker: its server is gone, or cut off for good
LOOK_EVERY_S = 1.0
MAX_TEXT_BYTES = 1 << 16  # of what a worker prints between two looks; of more it is the last
LAST_WORDS_S = 1.0  # until the pipe of a worker that has ended is read


def python_version() -> str:
    return ".".join(map(str, sys.version_info[:2]))


def describe(files: list[str]) -> dict[str, Any]:
    """What a node is, asked on that node."""
    import ray

    return {
        "python": python_version(),
        "ray": ray.__version__,
        "release": release(),
        "missing": [name for name in files if not Path(name).exists()],
    }


class Printed:
    """The last of what a worker has printed. It is read at once: without the head of Ray nobody looks, and a worker
    must not wait for that."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe, self._text, self._lock = pipe, b"", threading.Lock()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def take(self, ended: bool) -> bytes:
        """What has come since the last time. `ended`: nothing more will."""
        if ended:
            self._thread.join(LAST_WORDS_S)
        with self._lock:
            text, self._text = self._text, b""
        return text

    def _read(self) -> None:
        with self._pipe:
            while come := os.read(self._pipe.fileno(), MAX_TEXT_BYTES):
                with self._lock:
                    self._text = (self._text + come)[-MAX_TEXT_BYTES:]


class WorkerActor:
    """The workers of one part, by worker id."""

    def __init__(self) -> None:
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._printed: dict[str, Printed] = {}
        self._reaper = Reaper()
        self._asked_s = time.monotonic()
        threading.Thread(target=self._watch, daemon=True).start()

    def start(self, spec: dict[str, Any]) -> str:
        """Start a worker. Returns why that failed; empty when it runs."""
        self._asked_s = time.monotonic()
        keys = WorkerKeyPair(**spec.pop("keys"))
        # Ray runs an actor's calls in its main thread, and the kernel ends a worker with the thread that started it.
        told = replace(WorkerSpec(**spec), keys=keys, parent_pid=os.getpid(), log_fd=2, far=True)
        try:
            process = subprocess.Popen(
                told.command(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=told.environment(os.environ),
                process_group=0,
            )
        except OSError as error:
            return f"could not be started: {error}"
        assert process.stdout is not None
        self._printed[told.worker_id] = Printed(process.stdout)
        self._reaper.watch(process.pid)
        self._processes[told.worker_id] = process
        return ""

    def look(self) -> dict[str, tuple[int | None, str]]:
        """Worker id -> (exit status, or None while it runs, and what it has printed since the last look)."""
        self._asked_s = time.monotonic()
        return {name: self._look_at(name, process) for name, process in list(self._processes.items())}

    def kill(self, worker_id: str) -> None:
        process = self._processes.get(worker_id)
        if process is not None:
            process.kill()

    def end(self, grace_s: float) -> None:
        """End every worker: after SIGTERM they have `grace_s`."""
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        deadline_s = time.monotonic() + grace_s
        for process in self._processes.values():
            try:
                process.wait(max(0.0, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
        for process in self._processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            end_group(process.pid)
        self._reaper.close()

    def _look_at(self, worker_id: str, process: subprocess.Popen[bytes]) -> tuple[int | None, str]:
        status = process.poll()
        if status is not None:
            end_group(process.pid)  # what it has started and left behind
            self._reaper.forget(process.pid)
        text = self._printed[worker_id].take(status is not None)
        if status is not None:
            del self._processes[worker_id], self._printed[worker_id]
        return status, text.decode(errors="replace")

    def _works(self) -> bool:
        """Whether a worker runs. Without its gateway it would have ended by itself."""
        return any(process.poll() is None for process in list(self._processes.values()))

    def _watch(self) -> None:
        while time.monotonic() - self._asked_s < FORGOTTEN_S or self._works():
            time.sleep(LOOK_EVERY_S)
        import ray

        group = ray.util.get_current_placement_group()
        with contextlib.suppress(Exception):  # without the head nothing can be given back; it forgets it too
            if group is not None:
                ray.util.remove_placement_group(group)
        os._exit(0)
