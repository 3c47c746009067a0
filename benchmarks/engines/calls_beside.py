"""Calls that run beside each other: the simulator's service times against the real token engine, call by call.

    python -m benchmarks.engines.calls_beside [--calls 60]

The engine is that of the shipped token policy with continuous batching, random weights, on the CPU. Calls arrive at
random and run beside each other, long ones and short ones (which end after a few tokens), as a planner and a monitor
share a server. The same arrivals go through `rosa_server/timing/continuous.py`, which simulator, prediction and
emulated worker ask, with the times of a prompt and of a decode step that the passes of the trace took on average:

    iterations   with the time of a prompt
    lenient      without it, as before: processor sharing

Time is the process's CPU time, and those averages are each trace's own, so that a busy machine changes little. Writes
benchmarks/results/calls_beside.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks import RESULTS
from benchmarks.engines.pipelined_decode import SMALL, random_decoder
from rosa_server.engines.pipelined_decode.graphs import runner_for
from rosa_server.engines.pipelined_decode.pipe import Pipe, PipeFrame
from rosa_server.timing.batches import BatchProfile
from rosa_server.timing.continuous import Shared

LONG, SHORT = 24, 3  # tokens
SLOTS = 8  # calls at a time
SIZES = (1, 2, 4, 8)
PREFIXES = (24, 64)  # tokens of a prompt
# Share of short calls, and load as a share of what the server answers at most.
TRACES = ((0.0, 0.7), (0.67, 0.7), (1.0, 0.7))
WITHIN = 0.1


class Call(NamedTuple):
    """One call of a trace."""

    arrives_s: float
    tokens: int


class RealEngine:
    """The engine, driven pass by pass, with the CPU time of each."""

    def __init__(self, prefix: int) -> None:
        self.config = replace(SMALL, prompt_tokens=prefix - SMALL.image_tokens, action_tokens=LONG)
        decoder = random_decoder(torch.device("cpu"), torch.float32)(self.config)
        self._runner = runner_for(decoder, self.config, SLOTS)
        self._prefix = torch.randn(1, prefix, self.config.width, generator=torch.Generator().manual_seed(3))

    def play(self, calls: Sequence[Call]) -> tuple[list[float], list[tuple[int, float]]]:
        """When each call ends, and what each pass took: (0, s) a prompt, (n, s) a decode step of `n` calls. Calls
        beyond `SLOTS` wait."""
        pipe = Pipe(LONG, SLOTS, packed=False)
        ends_s, passes = [0.0] * len(calls), list[tuple[int, float]]()
        now_s, coming = 0.0, deque(enumerate(calls))
        while coming or len(pipe):
            if not len(pipe):
                now_s = max(now_s, coming[0][1].arrives_s)
            while coming and coming[0][1].arrives_s <= now_s:
                pipe.offer(PipeFrame(coming.popleft()[0]))
            began_s = time.process_time()
            do = pipe.next_pass(0.0)
            assert do is not None
            with torch.inference_mode():
                self._runner.run(do, self._prefix if do.enter else None)
            took_s = time.process_time() - began_s
            now_s += took_s
            passes.append((0 if do.enter else len(do.decode), took_s))
            for seat in pipe.passed(do):
                ends_s[seat.frame.number] = now_s
            for seat in (*do.enter, *do.decode):
                if seat.step + 1 == calls[seat.frame.number].tokens < LONG:  # it has said enough
                    ends_s[seat.frame.number] = now_s
                    pipe.cancel(seat.frame.number)
        return ends_s, passes


def times_of(passes: Sequence[tuple[int, float]]) -> tuple[float, dict[int, BatchProfile]]:
    """The time of a prompt, and tokens -> `S(n)`, from the passes of a trace: their mean, and for decode steps the
    straight line through them."""
    prefill_s = float(np.mean([took_s for size, took_s in passes if not size]))
    steps = np.array([one for one in passes if one[0]])
    slope, alone = (
        np.polyfit(steps[:, 0], steps[:, 1], 1) if len(set(steps[:, 0])) > 1 else (0.0, steps[:, 1].mean())
    )
    tables = {
        tokens: {n: 1000 * (n * prefill_s + (tokens - 1) * (alone + slope * n)) for n in SIZES}
        for tokens in (LONG, SHORT)
    }
    return prefill_s, {tokens: BatchProfile(table) for tokens, table in tables.items()}


def modelled(calls: Sequence[Call], times: dict[int, BatchProfile], prefill_s: float) -> list[float]:
    """When each call ends in the simulator's model."""
    shared: Shared[int] = Shared(times[LONG].service_s)
    ends_s = [0.0] * len(calls)
    coming, waiting = deque(enumerate(calls)), deque[int]()
    now_s = 0.0
    while coming or waiting or len(shared):
        while waiting and len(shared) < SLOTS:
            number = waiting.popleft()
            shared.begin(now_s, number, 1.0, times[calls[number].tokens].service_s, prefill_s)
        arrives_s = coming[0][1].arrives_s if coming else inf
        now_s = min(arrives_s, shared.next_s)
        if arrives_s <= shared.next_s:
            waiting.append(coming.popleft()[0])
        else:
            number, _ = shared.end(now_s)
            ends_s[number] = now_s
    return ends_s


def trace(rng: Random, count: int, short: float, rate_hz: float) -> list[Call]:
    """Calls that arrive at random."""
    now_s, calls = 0.0, []
    for _ in range(count):
        now_s += rng.expovariate(rate_hz)
        calls.append(Call(now_s, SHORT if rng.random() < short else LONG))
    return calls


def measure(prefix: int, count: int) -> list[dict[str, Any]]:
    """Rows of one length of prompts."""
    engine = RealEngine(prefix)
    engine.play([Call(0.0, LONG)] * SLOTS)
    _, usual = times_of(engine.play([Call(0.002 * n, LONG) for n in range(2 * SLOTS)])[1])
    rows: list[dict[str, Any]] = []
    for short, load in TRACES:
        max_hz = SLOTS / sum(
            share * usual[tokens].service_s(SLOTS) for tokens, share in ((SHORT, short), (LONG, 1 - short))
        )
        calls = trace(Random(f"{prefix} {short} {load}"), count, short, load * max_hz)
        ends_s, passes = engine.play(calls)
        prefill_s, times = times_of(passes)
        arrived = np.array([call.arrives_s for call in calls])
        of_tokens = np.array([call.tokens for call in calls])
        real = np.array(ends_s) - arrived
        found = {
            "iterations": np.array(modelled(calls, times, prefill_s)) - arrived,
            "lenient": np.array(modelled(calls, times, 0.0)) - arrived,
        }
        for tokens in sorted(set(of_tokens.tolist()), reverse=True):
            mine = of_tokens == tokens
            row: dict[str, Any] = {
                "prompt_tokens": prefix,
                "prefill_ms": round(1000 * prefill_s, 2),
                "alone_ms": round(1000 * float(times[tokens].service_s(1)), 1),
                "of_8_ms": round(1000 * float(times[tokens].service_s(SLOTS)), 1),
                "short_calls": short,
                "load": load,
                "tokens": tokens,
                "calls": int(mine.sum()),
                "real_mean_ms": round(1000 * float(real[mine].mean()), 1),
            }
            for name, values in found.items():
                row[f"{name}_mean_ms"] = round(1000 * float(values[mine].mean()), 1)
                error = np.abs(values[mine] / real[mine] - 1)
                row[f"{name}_off_by_call"] = round(float(np.median(error)), 3)
            rows.append(row)
            print(row, flush=True)
    return rows


def aims_of(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the model has to get right."""

    def off(row: dict[str, Any], name: str) -> float:
        return float(abs(row[f"{name}_mean_ms"] / row["real_mean_ms"] - 1))

    worst = max(rows, key=lambda row: off(row, "iterations"))
    by_call = max(rows, key=lambda row: row["iterations_off_by_call"])
    sums = {name: sum(off(row, name) for row in rows) / len(rows) for name in ("iterations", "lenient")}
    where = f"{worst['tokens']} tokens, prompts of {worst['prompt_tokens']}, load {worst['load']}"
    return [
        {
            "aim": f"mean latency within {WITHIN:.0%} of the real engine's, in every row",
            "value": f"farthest {off(worst, 'iterations'):.1%}: {where}",
            "holds": off(worst, "iterations") <= WITHIN,
        },
        {
            "aim": f"half of the calls of every row within {WITHIN:.0%}, call by call",
            "value": f"farthest {by_call['iterations_off_by_call']:.1%}",
            "holds": by_call["iterations_off_by_call"] <= WITHIN,
        },
        {
            "aim": "mean latencies closer to the real engine's than those of processor sharing",
            "value": f"off by {sums['iterations']:.1%} and {sums['lenient']:.1%} on average",
            "holds": sums["iterations"] < sums["lenient"],
        },
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=60, help="calls of a trace")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = [row for prefix in PREFIXES for row in measure(prefix, args.calls)]
    aims = aims_of(rows)
    for aim in aims:
        print("holds " if aim["holds"] else "MISSED", aim["aim"], "->", aim["value"])
    result = {
        "name": "calls_beside",
        "command": f"python -m benchmarks.engines.calls_beside --calls {args.calls}",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, one thread, CPU time",
        "rows": rows,
        "aims": aims,
    }
    (RESULTS / "calls_beside.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
