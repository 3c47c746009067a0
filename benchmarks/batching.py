"""Fixed batches against deadline-aware ones, in the server's own decisions under a simulated clock.

    python benchmarks/batching.py [--seconds 120]

Robots in a closed loop call one System 1 worker: observe, call, act for 200 ms, again; a call that missed its
deadline is sent again at once (`stop_and_resend`). The gateway's real core (queue, batcher, router) decides; only the
worker's time is made up, from the derived H200 profile of GR00T N1.6. Half of the robots have an SLO of 200 ms, half of
400 ms.

    padded b   takes what waits, up to b, and runs a batch of b: one CUDA Graph
    greedy b   takes what waits, up to b, and runs that
    aware b    the server's dynamic batching: no more than the tightest deadline allows, and waits where that pays
"""

from __future__ import annotations

import argparse
import heapq
import json
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from random import Random

from rosa_contract import codec
from rosa_contract import messages as m
from rosa_contract.config import parse_factory
from rosa_server.models.emulated import load_profile
from rosa_server.serving.core.actions import Dispatch, Reply
from rosa_server.serving.core.core import ServingCore
from rosa_server.serving.core.placement import Placement, Replica

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "batching"
PROFILE = load_profile(ROOT / "configs" / "profiles" / "h200" / "nvidia--GR00T-N1.6-3B.yaml")
ACTION_S, JITTER = 0.2, 0.03
SLOS_MS = (200.0, 400.0)
FLEETS = (2, 4, 8, 12, 16, 24)
VARIANTS = (("padded", 1), ("padded", 4), ("padded", 16), ("greedy", 16), ("aware", 16))
FACTORY = """
server_cluster: {num_servers: 1}
robot_fleet: [{task: act, num_robots: 1}]
act:
  pipeline: {action_period_ms: 200}
  components: {system1: {model: policy, slo_ms: 400}}
"""


class Loop:
    """Robots, a worker and a clock around a serving core."""

    def __init__(self, robots: int, how: str, batch: int, seed: int = 0) -> None:
        replica = Replica("gpu0", "policy", "gpu0", batch=batch, deadline_aware=how == "aware")
        slots = {f"act/{index}": {"system1": "gpu0"} for index in range(robots)}
        self._core = ServingCore(parse_factory(FACTORY), Placement({"gpu0": replica}, slots))
        self._padded_to = batch if how == "padded" else 0
        self._random = Random(seed)
        self._events: list[tuple[float, int, str, object]] = []
        self._order = count()
        self._busy_until_s = 0.0
        self._sent: dict[int, tuple[int, float]] = {}  # request -> (robot, when)
        self._ids = count()
        self.latencies_ms: list[float] = []
        self.missed = 0
        self.batches: list[int] = []
        self._core.on_ready(0.0, m.WorkerReady("gpu0/0.1", "policy", 16, {}, {}))
        for robot in range(robots):
            self._core.on_robot(0.0, b"%d" % robot, m.Hello(f"r{robot}", "act", {}, {}))
            self._at(self._random.uniform(0.0, 0.4), "send", robot)
        self._core.actions()

    def run(self, seconds: float) -> None:
        now_s, tick_s = 0.0, 0.0
        while now_s < seconds:
            if self._events[0][0] <= tick_s:
                now_s, _, kind, what = heapq.heappop(self._events)
                if kind == "send" and isinstance(what, int):
                    self._send(now_s, what)
                elif isinstance(what, m.Executed):
                    self._core.on_executed(now_s, "gpu0/0.1", what)
            else:
                now_s = tick_s
            tick_s = max(self._core.tick(now_s), now_s + 1e-4)
            for action in self._core.actions():
                if isinstance(action, Dispatch):
                    self._work(now_s, action)
                elif isinstance(action, Reply):
                    self._answered(now_s, action)

    def _at(self, when_s: float, kind: str, what: object) -> None:
        heapq.heappush(self._events, (when_s, next(self._order), kind, what))

    def _send(self, now_s: float, robot: int) -> None:
        request_id = next(self._ids)
        self._sent[request_id] = (robot, now_s)
        frames = codec.encode(m.Request(request_id, "system1", SLOS_MS[robot % 2]))
        self._core.on_request(now_s, b"%d" % robot, codec.read_header(frames), frames)

    def _work(self, now_s: float, dispatch: Dispatch) -> None:
        size = len(dispatch.calls)
        self.batches.append(size)
        took_s = PROFILE.service_s(self._padded_to or size) * (1 + JITTER * self._random.gauss(0, 1))
        self._busy_until_s = max(self._busy_until_s, now_s) + took_s
        tickets = [call.ticket for call in dispatch.calls]
        done = m.Executed(dispatch.batch_id, tickets, took_s * 1000, [("", "")] * size, [b""] * size)
        self._at(self._busy_until_s, "done", done)

    def _answered(self, now_s: float, answer: Reply) -> None:
        robot, sent_s = self._sent.pop(answer.call.request_id)
        latency_ms = (now_s - sent_s) * 1000
        if answer.status == m.OK and latency_ms <= SLOS_MS[robot % 2]:
            self.latencies_ms.append(latency_ms)
            self._at(now_s + ACTION_S * (1 + JITTER * self._random.gauss(0, 1)), "send", robot)
        else:
            self.missed += 1
            self._at(now_s + 0.001, "send", robot)


def measure(robots: int, how: str, batch: int, seconds: float) -> dict[str, object]:
    loop = Loop(robots, how, batch)
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
    worst, where = 1.0, 0
    for robots in FLEETS:
        mine = {
            str(row["batching"]): float(str(row["actions_hz"])) for row in rows if row["robots"] == robots
        }
        aware = mine.pop("aware 16")
        if aware / max(mine.values()) < worst:
            worst, where = aware / max(mine.values()), robots
    aim = "deadline-aware batching acts at least 0.97 times as often as the best of the others, at any fleet"
    value = f"{worst:.2f} at {where} robots" if where else "never less often"
    return [{"aim": aim, "value": value, "holds": worst >= 0.97}]


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
        "command": f"python benchmarks/batching.py --seconds {args.seconds:g}",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, simulated clock: no machine is measured",
        "rows": rows,
        "aims": aims,
    }
    RESULT.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
