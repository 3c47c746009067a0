"""What `ros2 run rosa_client NAME` starts: signals and the parent's death are seen to before anything is imported.

    python -m rosa_client.executables arm_node --ros-args ...

Importing a node takes a second or more. A Ctrl-C in that time ends the process at once, without a traceback; from then
on `rosa_client/nodes/shell.py` decides.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import sys

SIGNALS = (signal.SIGINT, signal.SIGTERM)
PARENT = "ROSA_PARENT"  # set by the launch files: the process that this one must not outlive
_PR_SET_PDEATHSIG = 1


def arm_node() -> None:
    run("rosa_client.nodes.arm_node")


def camera_node() -> None:
    run("rosa_client.nodes.camera_node")


def operator_node() -> None:
    run("rosa_client.nodes.operator_node")


def recorder_node() -> None:
    run("rosa_client.nodes.recorder_node")


def runtime_node() -> None:
    run("rosa_client.nodes.runtime_node")


def run(module: str) -> None:
    """Import `module` and call its `main`."""
    for number in SIGNALS:
        signal.signal(number, lambda *_: os._exit(0))
    die_with_parent(os.environ.get(PARENT, ""))
    try:
        importlib.import_module(module).main()
    finally:
        for number in SIGNALS:
            # The interpreter takes our handlers away before it ends, and a second Ctrl-C would then count as a crash.
            signal.signal(number, signal.SIG_IGN)


def die_with_parent(parent: str) -> None:
    """Make the kernel send SIGTERM when the process `parent`, which started this one, is gone; empty: do not."""
    if not parent.isdigit():
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):  # it was gone before the line above
        os._exit(0)


def module_of(executable: str) -> str:
    """An executable of this package, or a module of its own, as the name of a module."""
    return executable if "." in executable else f"rosa_client.nodes.{executable}"


if __name__ == "__main__":
    run(module_of(sys.argv.pop(1)))
