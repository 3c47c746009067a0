"""Runs a command that ends with the launch that started it, for programs which cannot see to that themselves.

    python -m rosa_client.bringup.tied rosa serve factory.yaml

SIGTERM to `ros2 launch` ends only the launch itself. The kernel then sends SIGTERM to this process, because the launch
files name its parent in the environment (`rosa_client/executables.py`).
"""

import os
import signal
import sys

from rosa_client.executables import PARENT, SIGNALS, die_with_parent

if __name__ == "__main__":
    usual = {number: signal.signal(number, lambda *_: os._exit(0)) for number in SIGNALS}
    die_with_parent(os.environ.get(PARENT, ""))
    for number, handler in usual.items():
        signal.signal(number, handler)
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as error:
        sys.exit(f"cannot start {sys.argv[1]}: {error.strerror}")
