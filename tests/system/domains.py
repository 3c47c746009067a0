"""A ROS domain that no other test of this machine uses at the same time, in whatever process or checkout it runs."""

from __future__ import annotations

import fcntl
import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DOMAINS = 101  # 1 to 101: the UDP ports of higher ones may be taken by anybody (they are ephemeral), and 0 is a user's
STEP = 37  # prime to their number: a domain is used again late, when nobody remembers its nodes
_turn = itertools.count(os.getpid())


@contextmanager
def own_domain() -> Iterator[int]:
    """Sets `ROS_DOMAIN_ID` for this process and its children; puts it back on leaving."""
    number, path, lock = _take()
    before = os.environ.get("ROS_DOMAIN_ID")
    os.environ["ROS_DOMAIN_ID"] = str(number)
    try:
        yield number
    finally:
        if before is None:
            del os.environ["ROS_DOMAIN_ID"]
        else:
            os.environ["ROS_DOMAIN_ID"] = before
        path.unlink(missing_ok=True)
        os.close(lock)


def _take() -> tuple[int, Path, int]:
    """A free domain, its lock's file, and that file opened; the kernel frees the lock of a process that ends."""
    for _ in range(DOMAINS):
        number = 1 + next(_turn) * STEP % DOMAINS
        path = Path(tempfile.gettempdir()) / f"rosa-test-domain-{number}"
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except PermissionError:  # another user's
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        if _is_at(path, lock):
            return number, path, lock
        os.close(lock)  # its owner removed it meanwhile; somebody may hold a new one of this name
    raise RuntimeError(f"all {DOMAINS} ROS domains are in use by other tests")


def _is_at(path: Path, opened: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(opened))
    except FileNotFoundError:
        return False
