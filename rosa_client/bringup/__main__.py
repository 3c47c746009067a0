"""`python -m rosa_client.bringup`: bring up robots without `ros2 launch`."""

import sys
from collections.abc import Callable

from rosa_contract.interrupt import interruptible


def load() -> Callable[[], int]:
    try:
        from rosa_client.bringup.bringup import main
    except ModuleNotFoundError as error:  # as in an environment of wheels alone
        words = (
            "needs ROS 2 and the built rosa_interfaces; source them first, or use a clone with `make setup`"
        )
        print(f"bringup: {words} ({error})", file=sys.stderr)
        raise SystemExit(2) from None

    return main


sys.exit(interruptible(load))
