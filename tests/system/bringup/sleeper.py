"""A node that does nothing but run until it is told to end."""

import contextlib
import time

with contextlib.suppress(KeyboardInterrupt):
    time.sleep(600)
