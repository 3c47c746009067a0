"""What `ros2 run rosa_client NAME` starts: signals and the parent's death are seen to before anything is imported.

Importing a node takes a second or more. A Ctrl-C in that time ends the process at once, without a traceback: while
Python itself starts, `first_line.py` sees to that, then `run`; in the end `rosa_client/nodes/base/shell.py` decides.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys

from rosa_contract.process import die_with

SIGNALS = (signal.SIGINT, signal.SIGTERM)
CONSOLE = ("operator_node",)  # nodes that belong to no robot
PARENT = "ROSA_PARENT"  # set by the launch files: the process that this one must not outlive


def program(module: str) -> list[str]:
    """The command that runs a node, or a module of that kind, without `ros2 run`."""
    first_line = os.path.join(os.path.dirname(os.path.abspath(__file__)), "first_line.py")
    return [sys.executable, "-SP", first_line, module]


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
    """Get SIGTERM when the process `parent`, which started this one, is gone; empty: do not."""
    if parent.isdigit():
        die_with(int(parent), signal.SIGTERM)


def module_of(executable: str) -> str:
    """An executable of this package, or a module of its own, as the name of a module."""
    if "." in executable:
        return executable
    folder = "console" if executable in CONSOLE else "robot"
    return f"rosa_client.nodes.{folder}.{executable}"
