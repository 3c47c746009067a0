"""Starts processes and never leaves one behind: not when a child hangs, nor when this process is killed."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rosa_client.nodes.base.readiness import READY, SOCKET
from rosa_contract.process import die_with

GRACE_S = 5.0
READ_S = 1.0  # for what an ended child wrote; a child of its own may hold its output open
SHM = Path("/dev/shm")
LOCKS = ("_el", "_sl")  # a process of Fast DDS holds an exclusive or a shared one on what it reads
SIGNALS = (signal.SIGINT, signal.SIGTERM)
GONE = " (deleted)"  # how /proc marks a file that was removed; a new one of that name is another file

log = logging.getLogger("rosa.supervisor")


class BringupError(Exception):
    """Something did not start, in words for a person."""


@dataclass
class Child:
    """One started process."""

    name: str
    process: subprocess.Popen[bytes]
    reader: threading.Thread
    news: socket.socket  # what it says to `NOTIFY_SOCKET`
    ready: bool = False
    read: bool = False  # it has ended, and what it wrote was read


class Supervisor:
    """Each child has its own process group. `say(name, line)` gets what a child writes, from its own thread."""

    def __init__(self, say: Callable[[str, str], None], environment: Mapping[str, str]) -> None:
        self._say = say
        self._children: dict[str, Child] = {}
        self._environment = dict(environment)
        remove_shared_memory(set())  # what killed processes left can make Fast DDS deaf on the same domain
        self._shared_before = shared_memory()

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start `command` as `name`; a child of that name that has ended is replaced."""
        if name in self._children and self.is_running(name):
            raise BringupError(f"{name} is already running (pid {self.pid(name)})")
        parent = os.getpid()
        with signals_wait(), contextlib.ExitStack() as opened:
            try:
                news = opened.enter_context(
                    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
                )
                news.bind("")  # to an abstract name that the kernel chooses
                environment = {**self._environment, SOCKET: "@" + news.getsockname()[1:].decode()}
                process = subprocess.Popen(
                    list(command),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    preexec_fn=lambda: _die_with(parent),
                    start_new_session=True,
                )
            except OSError as error:
                raise BringupError(f"{name}: cannot start {command[0]}: {error.strerror}") from error
            reader = threading.Thread(target=self._read, args=(name, process), daemon=True)
            # Known before its first line is read, since `say` may ask for it.
            before = self._children.get(name)
            self._children[name] = Child(name, process, reader, news)
            opened.pop_all()  # it is the child's now
            if before is not None:
                before.news.close()
            reader.start()

    def is_running(self, name: str) -> bool:
        return self._children[name].process.poll() is None

    def is_ready(self, name: str) -> bool:
        """Whether it has said so (`sd_notify(3)`), as ROSA's nodes do when they become active."""
        child = self._children[name]
        with contextlib.suppress(BlockingIOError):
            while not child.ready:
                child.ready = READY in child.news.recv(4096).splitlines()
        return child.ready

    def pid(self, name: str) -> int:
        return self._children[name].process.pid

    def ended(self) -> dict[str, int]:
        """Children that have ended, with their exit status (negative: the signal). What they wrote has been said by
        then, unless something that they started holds their output open. Not to be called by `say`."""
        statuses = {name: child.process.poll() for name, child in self._children.items()}
        found = {name: status for name, status in statuses.items() if status is not None}
        for child in (self._children[name] for name in found):
            if not child.read:
                child.reader.join(timeout=READ_S)
                child.read = True
        return found

    def kill(self, name: str) -> None:
        """SIGKILL one child at once, as a crash would."""
        self._signal(self._children[name], signal.SIGKILL)
        self._children[name].process.wait()

    def stop(self, grace_s: float = GRACE_S, listening: bool = True) -> None:
        """End every child, the last started first: SIGINT, then SIGKILL after `grace_s`; then remove their traces.

        `listening`: this process takes part in ROS itself, so what it has mapped is still in use.
        """
        children = list(reversed(self._children.values()))
        for child in children:
            self._signal(child, signal.SIGINT)
        until_s = time.monotonic() + grace_s
        for child in children:
            try:
                child.process.wait(max(0.0, until_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._say(child.name, f"did not end within {grace_s:g} s; killed")
            self._signal(child, signal.SIGKILL)  # also what the child itself may have left in its group
            child.process.wait()
            child.reader.join(timeout=1.0)
            child.news.close()
        self._children.clear()
        remove_shared_memory(self._shared_before, spared=None if listening else os.getpid())

    def _signal(self, child: Child, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.process.pid, number)

    def _read(self, name: str, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self._say(name, line.decode(errors="replace").rstrip())


@contextmanager
def signals_wait() -> Iterator[None]:
    """SIGINT and SIGTERM wait for the end of this block.

    For what an exception in the middle would leave half done: nobody would know a process that is being started, and
    C++ that calls Python turns Ctrl-C into an error of its own. A signal that is blocked for this thread may reach
    another one, and Python then calls the handler in this one nevertheless; so the handlers wait as well.
    """
    main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in SIGNALS if main}
    mask, came = signal.pthread_sigmask(signal.SIG_BLOCK, ()), list[int]()
    try:
        for number in handlers:
            signal.signal(number, lambda number, _: came.append(number))
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        yield
    finally:
        # What comes now is still only noted. Ctrl-C's handler is the last one, as it raises.
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number in reversed(handlers):
            signal.signal(number, handlers[number])
        for one in came:
            signal.raise_signal(one)


def shared_memory() -> set[str]:
    """Fast DDS's files in shared memory now."""
    return {path.name for path in SHM.glob("*fastdds*")} | {path.name for path in SHM.glob("sem.fastdds*")}


def remove_shared_memory(before: set[str], spared: int | None = None) -> None:
    """Remove our files that came after `before` and that no process uses: killed nodes leave theirs.

    What only the process `spared` has mapped goes too: Fast DDS keeps the ports of others mapped until a process ends.
    A process that cannot be looked into, or is in another container that shares /dev/shm, shows by its locks alone.
    """
    candidates = {name for name in shared_memory() - before if _is_ours(SHM / name)}
    if not candidates:
        return
    used = _open_shared_memory(spared)
    locked = {_owner(name) for name in candidates if name.endswith(LOCKS) and _is_locked(SHM / name)}
    for name in candidates - used:
        if _owner(name) not in locked:
            try:
                (SHM / name).unlink(missing_ok=True)
            except OSError as error:
                log.warning("could not remove what a killed node left: %s", error)


def _is_ours(path: Path) -> bool:
    try:
        return path.stat().st_uid == os.geteuid()
    except OSError:  # it is gone
        return False


def _owner(name: str) -> str:
    """The segment or port that a file belongs to: its memory, its lock and its semaphore have the same."""
    stem = name.removeprefix("sem.").removesuffix("_mutex")
    return stem[: -len(LOCKS[0])] if stem.endswith(LOCKS) else stem


def _is_locked(path: Path) -> bool:
    """Whether a living process holds it; the kernel frees the lock of one that ends. In doubt it is held."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _open_shared_memory(spared: int | None) -> set[str]:
    used = set()
    for process in Path("/proc").glob("[0-9]*"):
        if process.name == str(spared):
            continue
        # A process that is not ours to look into, or that has just ended, shows nothing.
        with contextlib.suppress(OSError):
            if _has_our_memory(process):
                used |= _opened(process)
    return used


def _has_our_memory(process: Path) -> bool:
    """Not so in a container, or a mount namespace, with a /dev/shm of its own: its files merely have the same names."""
    theirs, ours = os.stat(f"{process}/root{SHM}"), SHM.stat()
    return (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)


def _opened(process: Path) -> set[str]:
    """The names of what `process` has in shared memory."""
    opened = []
    # Files first: a process that starts opens a file, maps it and closes it, so that one of the two looks finds it.
    for entry in (process / "fd").iterdir():
        with contextlib.suppress(OSError):
            opened.append(os.readlink(entry))
    opened += (process / "maps").read_text().splitlines()
    return {line.rsplit("/", 1)[1] for line in opened if f"{SHM}/" in line and not line.endswith(GONE)}


def _die_with(parent: int) -> None:
    """In the child, before exec: SIGKILL it when the thread that started it is gone."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    die_with(parent)
