"""`make bench` runs every benchmark that has no command of its own."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
OF_THEIR_OWN = {
    "chaos",  # hours
    "faults",  # an hour
    "gpu",  # `make gpu` runs it where a GPU is
    "lerobot_act",  # it needs `make train-act` before it
    "machine_faults",  # hours of Ray
    "soak",  # as long as HOURS says
}


def scripts() -> set[str]:
    """What can be run in `benchmarks/`."""
    return {path.stem for path in (ROOT / "benchmarks").glob("*/*.py") if "__main__" in path.read_text()}


def test_make_bench_runs_every_benchmark() -> None:
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    [listed] = re.findall(r"^BENCHMARKS = (.*)$", makefile, re.MULTILINE)
    names = listed.split()
    assert sorted(names) == sorted(scripts() - OF_THEIR_OWN)
    assert names.index("figures") > max(names.index("claims"), names.index("paper_schedules")), (
        "it draws what they wrote"
    )
