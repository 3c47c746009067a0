"""`python -m rosa_sim.demo`: what `make demo` runs."""

import sys
from collections.abc import Callable

from rosa_contract.interrupt import interruptible


def load() -> Callable[[], int]:
    from rosa_sim.demo.demo import main

    return main


sys.exit(interruptible(load))
