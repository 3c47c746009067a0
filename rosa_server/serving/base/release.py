"""Which files a worker consists of, and a name for them: a server and its workers are of one release.

A worker in a separate Python environment has them from the wheel `rosa-worker`, which `rosa env` makes and installs.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

PACKAGES = Path(__file__).resolve().parents[3]
FOLDERS = (
    "rosa_contract",
    "rosa_server/engines",
    "rosa_server/models",
    "rosa_server/plan",
    "rosa_server/serving",
    "rosa_server/timing",
)
SINGLE = ("rosa_server/__init__.py",)
SUFFIXES = (".py", ".yaml")


def worker_files() -> list[str]:
    """Paths below the folder of the packages, in order."""
    found = [
        path.relative_to(PACKAGES).as_posix()
        for folder in FOLDERS
        for path in (PACKAGES / folder).rglob("*")
        if path.suffix in SUFFIXES
    ]
    return sorted([*found, *SINGLE])


@lru_cache(maxsize=1)
def release() -> str:
    """A name that two installations share when these files are the same: 12 hexadecimal digits."""
    digest = hashlib.sha256()
    for name in worker_files():
        content = (PACKAGES / name).read_bytes()
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:12]
