"""The `rosa` command: its start. What it can do is in `rosa_server/commands/`, loaded when Ctrl-C can be answered."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from rosa_contract.interrupt import interruptible


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0; 2 for wrong input, which is explained on standard error; 130 after Ctrl-C."""

    def load() -> Callable[[], int]:
        from rosa_server.commands.parser import run

        return lambda: run(argv)

    return interruptible(load)


if __name__ == "__main__":
    sys.exit(main())
