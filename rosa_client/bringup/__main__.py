"""`python -m rosa_client.bringup`: bring up robots without `ros2 launch`."""

import sys
from collections.abc import Callable

from rosa_contract.interrupt import interruptible
from rosa_contract.wording import NEEDS_ROS


def load() -> Callable[[], int]:
    try:
        from rosa_client.bringup.bringup import main
    except ModuleNotFoundError as error:  # as in an environment of wheels alone
        print(f"bringup: {NEEDS_ROS} ({error})", file=sys.stderr)
        raise SystemExit(2) from None

    return main


sys.exit(interruptible(load))
