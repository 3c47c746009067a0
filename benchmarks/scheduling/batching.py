"""Fixed batches against deadline-aware ones, in the server's own decisions under a simulated clock.

    python -m benchmarks.scheduling.batching [--seconds 120]

Robots in a closed loop call one System 1 worker: observe, call, act for 200 ms, again; a call that missed its
deadline is sent again at once (`stop_and_resend`). The gateway's real core (queue, batcher, router) decides; only the
worker's time is made up, from the derived H200 profile of GR00T N1.6. Half of the robots have an SLO of 200 ms, half of
400 ms.

    padded b   takes what waits, up to b, and runs a batch of b: one CUDA Graph
    greedy b   takes what waits, up to b, and runs that
    aware b    the server's dynamic batching: no more than the tightest deadline allows, and waits where that pays;
               it has no schedule and learns how long each size takes
    planned b  the same with a schedule: it knows the worker's sizes and times
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Sequence
from datetime import UTC, datetime

from benchmarks import RESULTS, ROOT
from rosa_server.models.emulated import load_profile
from rosa_sim.batching import BatchingLoop

RESULT = RESULTS / "batching"
PROFILE = load_profile(ROOT / "configs" / "profiles" / "h200" / "nvidia--GR00T-N1.6-3B.yaml")
OURS = ("aware", "planned")
MIN_SHARE = 0.97  # of the actions of the best of the others
FLEETS = (2, 4, 8, 12, 16, 24)
VARIANTS = (("padded", 1), ("padded", 4), ("padded", 16), ("greedy", 16), ("aware", 16), ("planned", 16))


def measure(robots: int, how: str, batch: int, seconds: float) -> dict[str, object]:
    aware, planned = how in OURS, how == "planned"
    loop = BatchingLoop(robots, batch, PROFILE, aware, padded=how == "padded", planned=planned)
    loop.run(seconds)
    ordered = sorted(loop.latencies_ms)
    calls = len(ordered) + loop.missed
    return {
        "robots": robots,
        "batching": f"{how} {batch}",
        "actions_hz": len(ordered) / seconds,
        "in_time": len(ordered) / calls if calls else 0.0,
        "p50_ms": ordered[len(ordered) // 2] if ordered else None,
        "p99_ms": ordered[int(0.99 * len(ordered))] if ordered else None,
        "mean_batch": sum(loop.batches) / len(loop.batches) if loop.batches else 0.0,
    }


def aims_of(rows: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Deadline-aware batches are to be never clearly worse than the best fixed one of the same fleet."""
    return [_aim_of(rows, how, words) for how, words in zip(OURS, ("without", "with"), strict=True)]


def _aim_of(rows: Sequence[dict[str, object]], how: str, words: str) -> dict[str, object]:
    worst, where = 1.0, 0
    for robots in FLEETS:
        of = {str(row["batching"]): float(str(row["actions_hz"])) for row in rows if row["robots"] == robots}
        best = max(hz for name, hz in of.items() if name.split()[0] not in OURS)
        if of[f"{how} 16"] / best < worst:
            worst, where = of[f"{how} 16"] / best, robots
    aim = (
        f"deadline-aware batching {words} a schedule acts at least {MIN_SHARE} times as often as the best of the "
        "others, at any fleet"
    )
    value = f"{worst:.2f} at {where} robots" if where else "never less often"
    return {"aim": aim, "value": value, "holds": worst >= MIN_SHARE}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="simulated time per row")
    args = parser.parse_args()
    rows = [measure(robots, how, batch, args.seconds) for robots in FLEETS for how, batch in VARIANTS]
    for row in rows:
        print({key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()})
    aims = aims_of(rows)
    for aim in aims:
        print("holds " if aim["holds"] else "MISSED", aim["aim"], "->", aim["value"])
    result = {
        "name": "batching",
        "command": f"python -m benchmarks.scheduling.batching --seconds {args.seconds:g}",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, simulated clock: no machine is measured",
        "rows": rows,
        "aims": aims,
    }
    RESULT.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
