"""The shipped policy in physics, by execution horizon and latency: closed_loop_trials.json."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from benchmarks import RESULTS, ROOT
from rosa_server.models.panda.flow_policy import FlowPolicyBackend
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.closed_loop.physics import trials
from rosa_sim.closed_loop.table import PieceTrial, summary
from rosa_sim.training.data.pictures import POLICY_CAMERAS

TRIALS = RESULTS / "closed_loop_trials.json"
CACHE = ROOT / ".cache" / "closed_loop"
HORIZONS = (4, 8)  # steps of 50 ms
LATENCIES_MS = (50.0, 100.0, 200.0)
RESTS_MS, AT_MS = (100.0, 250.0), 100.0  # before each look, at this latency
PIECES, AT_ONCE = 32, 32
FIRST_SEED = 2_000_000  # no training, evaluation or demo has seen these cells


def kept(name: str, make: Callable[[], Any]) -> Any:
    """What `make` gives, or what it gave before an interruption."""
    path = CACHE / f"{name}.json"
    if not path.exists():
        begun_s = time.process_time()
        value = make()
        cpu_s = round(time.process_time() - begun_s, 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"value": value, "cpu_s": cpu_s}))
        print(f"{name}: {cpu_s:.0f} s", file=sys.stderr, flush=True)
    return json.loads(path.read_text())["value"]


def measure() -> None:
    """Every horizon and latency; goes on where it was interrupted."""
    policy, renderer = FlowPolicyBackend(), SceneRenderer(POLICY_CAMERAS)
    policy.load()

    def run(steps: int, rest_ms: float, latency_ms: float, first: int) -> list[list[Any]]:
        seeds = range(FIRST_SEED + first, FIRST_SEED + first + AT_ONCE)
        times_s = (latency_ms / 1000, rest_ms / 1000)
        found = trials(steps, times_s[0], seeds, policy, renderer, times_s[1])
        return [[one.done, one.rounds] for one in found]

    cells, rows = [], []
    for steps in HORIZONS:
        for rest_ms, latency_ms in [(0.0, ms) for ms in LATENCIES_MS] + [(ms, AT_MS) for ms in RESTS_MS]:
            found: list[list[Any]] = []
            for first in range(0, PIECES, AT_ONCE):
                name = f"trials-{steps}-{latency_ms:g}-{first}" + (f"-rest-{rest_ms:g}" if rest_ms else "")
                found += kept(name, partial(run, steps, rest_ms, latency_ms, first))
            cells.append({"steps": steps, "rest_ms": rest_ms, "latency_ms": latency_ms, "trials": found})
            rows.append(summary(steps, rest_ms, latency_ms, [PieceTrial(*one) for one in found]))
    renderer.close()
    result = {
        "name": "closed_loop_trials",
        "command": "python -m benchmarks.fleet.closed_loop trials",
        "machine": f"{platform.machine()}, {os.cpu_count()} shared cores, one used",
        "date": datetime.now(UTC).date().isoformat(),
        "aims": [],
        "notes": [
            "The shipped policy in physics: `steps` of 50 ms are executed of each chunk, whose observation is"
            " `latency_ms` old when it begins; before each look the arm had rested for `rest_ms`. Wilson's 95 %"
            " interval of the success; `rounds` of a success, with theirs."
        ],
        "rows": rows,
        "trials": cells,
    }
    TRIALS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
