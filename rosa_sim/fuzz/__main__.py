"""python -m rosa_sim.fuzz [--messages 1000000] [--seed 1]: exit status 0 when every promise holds."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rosa_sim.fuzz.attack import Attacker
from rosa_sim.fuzz.run import ROOT, fuzz, report, save


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="rosa_sim.fuzz", description="hostile messages against a live server"
    )
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2, help="hostile processes")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "fuzz.json")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="do again what one connection did")
    parser.add_argument("--endpoint", help="with --only: the server, such as tcp://127.0.0.1:5570")
    arguments = parser.parse_args(argv)
    if arguments.only is not None:
        if not arguments.endpoint:
            parser.error("--only needs --endpoint")
        print(f"sent {Attacker(arguments.endpoint, arguments.seed).connection(arguments.only)} messages")
        return 0
    with tempfile.TemporaryDirectory(prefix="rosa-fuzz-") as folder:
        outcome = fuzz(
            Path(folder),
            arguments.messages,
            arguments.seed,
            arguments.processes,
            lambda line: print(line, flush=True),
        )
    command = f"make fuzz ARGS='--messages {arguments.messages} --seed {arguments.seed}'"
    if (arguments.messages, arguments.seed) == (1_000_000, 1):
        command = "make fuzz"
    processor = platform.processor() or platform.machine()
    machine = f"{processor}, {os.cpu_count()} cores, Python {platform.python_version()}"
    result = report(outcome, command, machine, datetime.date.today().isoformat())
    save(result, arguments.out)
    for aim in result["aims"]:
        print(f"{'holds ' if aim['holds'] else 'MISSED'}  {aim['aim']}: {aim['value']}")
    print(f"wrote {arguments.out}")
    return 0 if all(aim["holds"] for aim in result["aims"]) else 1


if __name__ == "__main__":
    sys.exit(main())
