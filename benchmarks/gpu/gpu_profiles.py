"""How long batches of two large models take on a GPU. Part of `python -m benchmarks.gpu.gpu`.

System 1's call of pi0.5's shape (pictures, prompt, flow) and a whole action of OpenVLA-7B's shape, in bf16 with random
weights and CUDA graphs, by batch size. `tables` of the result has `batch_latency_ms` of each model: a file with one of
them is a profile of `backend: emulated`. `rosa profile` measures your own model with latencies under load as well.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch

from benchmarks import RESULTS
from benchmarks.engines import kv_sharing, pipelined_decode
from benchmarks.engines.gpu_report import Report, Row, add_arguments, device_of, free
from rosa_server.engines.kv_sharing.passes import PassCall
from rosa_server.models.token_policy.config import OPENVLA_7B
from rosa_server.models.vla.config import PI05, SHIPPED

BATCHES = (1, 2, 4, 8, 16)
PREFIX = 276  # tokens of OpenVLA's pictures and a short instruction
STEPS = 10  # of the flow
RUNS = 10


def timed_ms(run: Callable[[], object], wait: Callable[[], None], runs: int) -> float:
    """Mean time of a run, after two that do not count."""
    for _ in range(2):
        run()
    wait()
    began_s = time.perf_counter()
    for _ in range(runs):
        run()
        wait()
    return 1000 * (time.perf_counter() - began_s) / runs


def acting(
    device: torch.device, dtype: torch.dtype, tiny: bool
) -> Iterator[tuple[int, Callable[[], object]]]:
    """Batch sizes of System 1's call, each with what runs it."""
    network = kv_sharing.random_network(SHIPPED if tiny else PI05, device, dtype)
    for size in BATCHES[:2] if tiny else BATCHES:
        bench = kv_sharing.Bench(network, kv_sharing.Work("paper", size, 2 if tiny else STEPS))
        calls = [next(bench.calls_of(robot, 0)) for robot in range(size)]

        def run(bench: kv_sharing.Bench = bench, calls: Sequence[PassCall] = calls) -> object:
            with torch.inference_mode():
                return bench.batch(calls)

        yield size, run


def speaking(
    device: torch.device, dtype: torch.dtype, tiny: bool
) -> Iterator[tuple[int, Callable[[], object]]]:
    """Batch sizes of an action in tokens, each with what runs it."""
    base = pipelined_decode.SMALL if tiny else OPENVLA_7B
    config = pipelined_decode.sized(base, 24 if tiny else PREFIX, 2 if tiny else OPENVLA_7B.action_tokens)
    decoder = pipelined_decode.random_decoder(device, dtype)(config)
    bench = pipelined_decode.Bench(decoder, config, device)
    for size in BATCHES[:2] if tiny else BATCHES:
        way = bench.static(size)
        yield size, partial(way, 0.0)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_arguments(parser, RESULTS)
    parser.add_argument("--tiny", action="store_true", help="to see that it works")
    args = parser.parse_args(arguments)
    device = device_of(parser, args)
    command = f"python -m benchmarks.gpu.gpu --part gpu_profiles --device {args.device}"
    report = Report("gpu_profiles", command, device, args.out, args.limit)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    models = {"pi0.5's shape, system1": acting, "OpenVLA-7B's shape": speaking}
    for model, sizes in models.items():
        for size, run in sizes(device, dtype, args.tiny):
            if not report.has_time():
                break
            ms = timed_ms(run, wait, 1 if args.tiny else RUNS)
            report.add({"model": model, "batch": size, "ms": round(ms, 3)})
            print(json.dumps(report.rows[-1]), flush=True)
        free(device)
    return 0 if report.finish(report.rows, judged(report.rows, list(models)), None) else 1


def tables(rows: Sequence[Row]) -> dict[str, dict[int, float]]:
    """Model -> batch size -> ms."""
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        found.setdefault(row["model"], {})[row["batch"]] = row["ms"]
    return found


def judged(rows: Sequence[Row], models: Sequence[str]) -> list[Row]:
    """Whether each model was measured with more than one size, and larger batches are worth it."""
    known = tables(rows)
    aims = []
    for model in models:
        table = known.get(model, {})
        gain = max(table, default=0) * table[min(table)] / table[max(table)] / min(table) if table else 0.0
        aims.append(
            {
                "aim": f"{model}: the largest batch answers more requests a second than the smallest",
                "value": f"{gain:.2f}x with {max(table)}" if table else "not measured",
                "holds": gain > 1,
            }
        )
    return aims
