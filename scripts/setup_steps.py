"""The steps of a set-up: each runs a command or two, and again only when what it depends on has changed."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
# The wheels' executables start Python once more to find their libraries, and mark that with this variable. A child that
# runs in another environment must do the same, so it must not inherit the mark.
BOOTSTRAP_GUARD = "_ROS_WHEELS_BOOTSTRAP_COMPLETE"
SAYS_EVERY_S = 15.0  # how a long command is getting on
LOOKS_EVERY_S = 0.05  # whether it has ended
MAX_SAID_CHARS = 90
SPENT = threading.local()  # `cpu_s`: processor time of the commands of the step that runs in this thread


class SetupError(Exception):
    """What went wrong and what to do about it."""


def say(text: str) -> None:
    print(f"[setup] {text}", flush=True)


def run(
    command: Sequence[str | Path], step: str, cwd: Path = ROOT, env: dict[str, str] | None = None
) -> None:
    """Run `command`, its output in .cache/setup/<step>.log; say how it is getting on, and show the end if it fails."""
    log = ROOT / ".cache" / "setup" / f"{step}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as out:
        process = subprocess.Popen(
            [str(c) for c in command], cwd=cwd, env=env, stdout=out, stderr=subprocess.STDOUT
        )
        try:
            status = _wait(process, step, log)
        finally:
            process.kill()  # nothing, unless this is interrupted
            process.wait()
    if status != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
        raise SetupError(
            f"step '{step}' failed with status {status}: {' '.join(map(str, command))}\n"
            f"{tail}\n(the whole output is in {log.relative_to(ROOT)})"
        )


def _wait(process: subprocess.Popen[bytes], step: str, log: Path) -> int:
    said_s = begin_s = time.monotonic()
    while True:
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        if ended:
            process.returncode = os.waitstatus_to_exitcode(status)
            SPENT.cpu_s = getattr(SPENT, "cpu_s", 0.0) + usage.ru_utime + usage.ru_stime
            return process.returncode
        time.sleep(LOOKS_EVERY_S)
        if time.monotonic() - said_s > SAYS_EVERY_S:
            said_s = time.monotonic()
            with log.open("rb") as written:
                last = _last_line(written)
            say(f"  {step}, {said_s - begin_s:.0f} s: {last[:MAX_SAID_CHARS]}")


def _last_line(written: IO[bytes]) -> str:
    written.seek(max(0, written.seek(0, 2) - 4096))
    lines = written.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "...")


def fresh_venv(venv: Path, name: str, python: str | Path = sys.executable) -> list[str | Path]:
    """A new environment in `venv`, whatever was there; returns the command that installs into it."""
    run([python, "-m", "venv", "--clear", venv], f"{name}_venv")
    return [venv / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]


def look_behind(venv: Path, beside: Path) -> None:
    """Python of `venv` finds what it has not in `beside`. Raises `SetupError`."""
    packages = next((venv / "lib").glob("python3*/site-packages"))
    others = next((beside / "lib").glob("python3*/site-packages"), None)
    if others is None:
        raise SetupError(f"{beside} has no packages; run `make setup` first")
    (packages / "zz_rosa.pth").write_text(f"import site; site.addsitedir({str(others.resolve())!r})\n")


def status_of(set_up: Callable[[], None]) -> int:
    """The exit status of a set-up; says what went wrong."""
    try:
        set_up()
    except SetupError as error:
        print(f"[setup] {error}", file=sys.stderr)
        return 1
    return 0


def digest(*parts: Path | str) -> str:
    """One hash of texts, files and whole folders (names and contents)."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            total.update(part.encode())
            continue
        for path in [part] if part.is_file() else sorted(p for p in part.rglob("*") if p.is_file()):
            total.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return total.hexdigest()


class Steps:
    """Runs a step only when its key differs from the one of its last success (kept in <venv>/rosa-setup.json)."""

    def __init__(self, venv: Path) -> None:
        self._file = venv / "rosa-setup.json"
        self._lock = threading.Lock()  # steps that do not need each other run side by side
        self._done: dict[str, str] = json.loads(self._file.read_text()) if self._file.exists() else {}

    def has(self, name: str, key: str) -> bool:
        """Whether the step was done with this key."""
        return self._done.get(name) == key

    def any(self) -> bool:
        """Whether a step was ever done here."""
        return bool(self._done)

    def step(self, name: str, key: str, what: str, action: Callable[[], None]) -> None:
        if self.has(name, key):
            return
        say(f"{what} ...")
        begin_s, SPENT.cpu_s = time.monotonic(), 0.0
        action()
        with self._lock:
            self._done[name] = key
            self._file.write_text(json.dumps(self._done, indent=1))
        took_s = time.monotonic() - begin_s
        say(f"{what}: done in {took_s:.0f} s ({SPENT.cpu_s:.0f} s of processor time)")

    def once(self, name: str, text: str) -> None:
        """Say something, and not again while the environment lasts."""
        key = digest(text)
        if self._done.get(name) != key:
            say(text)
            with self._lock:
                self._done[name] = key
                self._file.write_text(json.dumps(self._done, indent=1))
