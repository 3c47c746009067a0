"""A robot that asks until it is ended, on whatever machine this runs; each answer is a line of its file.

python -m tests.system.gateways.asks NAME TASK GATEWAYS COMPONENTS KEYS ANSWERS.jsonl
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from tests.system.gateways.nodes import Asks


def main(name: str, task: str, gateways: str, components: str, keys: str, path: str) -> None:
    """Raises `AssertionError` for an answer that comes twice."""
    one = Asks(name, task, gateways, components.split(","), keys)
    told = 0
    with Path(path).open("w", buffering=1) as out:
        while True:
            one.step()
            for endpoint, component, number in one.answered[told:]:
                out.write(json.dumps([time.monotonic(), endpoint, component, number]) + "\n")
            told = len(one.answered)


if __name__ == "__main__":
    main(*sys.argv[1:])
