"""`python -m rosa_client.bringup`: bring up robots without `ros2 launch`."""

import sys
from collections.abc import Callable

from rosa_contract.interrupt import interruptible


def load() -> Callable[[], int]:
    from rosa_client.bringup.bringup import main

    return main


sys.exit(interruptible(load))
