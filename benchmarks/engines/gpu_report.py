"""What the benchmarks share that also run on a lent GPU: a row is on disk as soon as it is measured, and time is short.

Such a machine has Python, torch and the repository, and ends without asking. So nothing else is imported, a row that is
measured is never lost, and what a limit of time leaves out is said.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

Row = dict[str, Any]
GPU_LIMIT_S = 540.0  # such a machine is lent for ten minutes


def add_arguments(parser: argparse.ArgumentParser, results: Path) -> None:
    """Those that all of them have."""
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument(
        "--limit", type=float, help="seconds; what would begin later is left out (540 on a GPU)"
    )
    parser.add_argument("--out", type=Path, default=results, help=f"(default {results})")


def device_of(parser: argparse.ArgumentParser, args: argparse.Namespace) -> torch.device:
    """The device, with one thread on a CPU. Ends the program where there is none; sets the limit of a GPU."""
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch sees no GPU")
    if args.limit is None:
        args.limit = GPU_LIMIT_S if args.device == "cuda" else float("inf")
    torch.set_num_threads(1)
    return torch.device(args.device)


def clock_of(device: torch.device) -> Callable[[], float]:
    """On a CPU, where one thread computes, the time that it computes: what else runs there makes nothing slower."""
    return time.process_time if device.type == "cpu" else time.perf_counter


def free(device: torch.device) -> None:
    """Give back the memory of what nobody names any more; graphs and what they call name each other."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


class Report:
    """A result file in the making: `NAME.partial` has its rows until `finish` writes `NAME.json`."""

    def __init__(self, name: str, command: str, device: torch.device, out: Path, limit_s: float) -> None:
        self.name = name if device.type == "cpu" else f"{name}_{device.type}"
        self.machine = (
            f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}"
            if device.type == "cuda"
            else f"{platform.machine()}, {os.cpu_count()} shared cores, one used; CPU time;"
            f" load average {os.getloadavg()[1]:.0f}"
        )
        self.rows: list[Row] = []
        self._head = {"name": self.name, "command": command, "machine": self.machine}
        self._out, self._limit_s, self._began_s = out, limit_s, time.monotonic()
        self._longest_s = self._since_s = 0.0

    def add(self, row: Row) -> None:
        """One more row, on disk when this returns."""
        self.rows.append(row)
        self._write(".partial", self.rows, [])

    def has_time(self) -> bool:
        """Whether another step, as long as the longest so far, ends before the limit. Ask once before each."""
        now_s = time.monotonic() - self._began_s
        if self._since_s:
            self._longest_s = max(self._longest_s, now_s - self._since_s)
        self._since_s = now_s
        return now_s + self._longest_s < self._limit_s

    def finish(self, rows: Sequence[Row], aims: Sequence[Row], draw: Callable[[Path], None] | None) -> bool:
        """Write everything, and the picture where the machine can draw. Whether all aims hold."""
        for aim in aims:
            print(f"{'holds' if aim['holds'] else 'MISSED':<7} {aim['aim']}: {aim['value']}")
        self._write(".json", rows, aims)
        self._path(".partial").unlink(missing_ok=True)
        try:
            if draw is not None:
                draw(self._path(".png"))
        except ImportError as error:
            print(f"no picture: {error}")
        return all(aim["holds"] for aim in aims)

    def _write(self, suffix: str, rows: Sequence[Row], aims: Sequence[Row]) -> None:
        spent_s = round(time.monotonic() - self._began_s, 1)
        told = {**self._head, "date": time.strftime("%Y-%m-%d"), "duration_s": spent_s}
        self._out.mkdir(parents=True, exist_ok=True)
        whole = self._path(suffix + ".new")
        whole.write_text(json.dumps({**told, "rows": list(rows), "aims": list(aims)}, indent=1) + "\n")
        whole.replace(self._path(suffix))

    def _path(self, suffix: str) -> Path:
        return self._out / f"{self.name}{suffix}"
