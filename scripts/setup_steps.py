"""The steps of a set-up: each runs a command or two, and again only when what it depends on has changed."""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The wheels' executables start Python once more to find their libraries, and mark that with this variable. A child that
# runs in another environment must do the same, so it must not inherit the mark.
BOOTSTRAP_GUARD = "_ROS_WHEELS_BOOTSTRAP_COMPLETE"


class SetupError(Exception):
    """What went wrong and what to do about it."""


def say(text: str) -> None:
    print(f"[setup] {text}", flush=True)


def run(
    command: Sequence[str | Path], step: str, cwd: Path = ROOT, env: dict[str, str] | None = None
) -> None:
    """Run `command`, its output in .cache/setup/<step>.log; show the end of that when it fails."""
    log = ROOT / ".cache" / "setup" / f"{step}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as out:
        done = subprocess.run(
            [str(c) for c in command], cwd=cwd, env=env, stdout=out, stderr=subprocess.STDOUT
        )
    if done.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
        raise SetupError(
            f"step '{step}' failed with status {done.returncode}: {' '.join(map(str, command))}\n"
            f"{tail}\n(the whole output is in {log.relative_to(ROOT)})"
        )


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
        self._done: dict[str, str] = json.loads(self._file.read_text()) if self._file.exists() else {}

    def step(self, name: str, key: str, what: str, action: Callable[[], None]) -> None:
        if self._done.get(name) == key:
            return
        say(f"{what} ...")
        begin_s = time.monotonic()
        action()
        self._done[name] = key
        self._file.write_text(json.dumps(self._done, indent=1))
        say(f"{what}: done in {time.monotonic() - begin_s:.0f} s")
