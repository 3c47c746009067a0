"""A node that does nothing but run until it is told to end."""

from __future__ import annotations

import time


def main() -> None:
    """SIGINT and SIGTERM end the process at once, as for a node that is still being imported."""
    time.sleep(600)
