"""One client's process: obeys lines of JSON until its input ends.

{"module": ..., "address": ...}   connect, and answer "ready" after a first call
{"start_s": ..., "seconds": ...}  call again and again, and answer the round trips; times are of the monotonic clock
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any

from benchmarks.frontends.peers import NoAnswer
from benchmarks.transport.peers import observation

FIRST_WITHIN_S = 30.0  # a server may still be loading its model


def connected(module: str, address: str, seen: dict[str, Any]) -> Any:
    """A client that has had an answer."""
    client = importlib.import_module(f"benchmarks.frontends.peers.{module}").Client(address)
    until_s = time.monotonic() + FIRST_WITHIN_S
    while True:
        try:
            client.call(seen)
            return client
        except NoAnswer:
            if time.monotonic() > until_s:
                raise


def measured(client: Any, seen: dict[str, Any], start_s: float, seconds: float) -> dict[str, Any]:
    """Round trips in ms of the calls that were answered before the end, and the others' causes."""
    times_ms, refused = [], []
    time.sleep(max(0.0, start_s - time.monotonic()))
    while (began_s := time.monotonic()) < start_s + seconds:
        try:
            client.call(seen)
        except NoAnswer as error:
            refused.append(str(error).partition(":")[0])
            continue
        ended_s = time.monotonic()
        if ended_s <= start_s + seconds:
            times_ms.append((ended_s - began_s) * 1000)
    return {"times_ms": times_ms, "refused": refused}


def main() -> None:
    seen = observation()
    say = sys.stdout
    sys.stdout = sys.stderr  # what libraries print
    client: Any = None
    for line in sys.stdin:
        told = json.loads(line)
        if "module" in told:
            client = connected(told["module"], told["address"], seen)
            answer: Any = "ready"
        else:
            answer = measured(client, seen, told["start_s"], told["seconds"])
            client.close()
        print(json.dumps(answer), file=say, flush=True)


if __name__ == "__main__":
    main()
