"""Child processes that begin at once: forked from a process that has imported what most of them need.

With `spawn`, each would import it again, which is a second of processor time; a fork of this process itself would copy
locks that other threads hold.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext

IMPORTED = ["rosa_sim.hostile.robots", "rosa_sim.hostile.soak"]


def forked() -> ForkServerContext:
    """The context for `Process`, `Event`, `Pipe` and so on. Children have the environment of the first one's start."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    return context
