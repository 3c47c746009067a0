"""Pipelined decoding of action tokens against the usual ways, shaped like ActionFlow's Table 1 and Figure 5.

    python -m benchmarks.engines.pipelined_decode [--device cpu] [--seconds 2]
    python -m benchmarks.engines.pipelined_decode --device cuda  # OpenVLA-7B in bf16, random weights, under ten minutes

Only torch has to be installed: run it from the repository's root.

One saturated stream: whenever the engine takes a frame, the newest one is there. Each way answers the same frames; they
are measured in turn, several rounds, and the best round of each is reported: what else runs on a machine only slows.
Writes benchmarks/results/pipelined_decode.json and .png (pipelined_decode_cuda on a GPU).

eager       one frame after another, the cache concatenated at each step, as `transformers` does by default
static      one frame after another, the cache allocated once: the fair baseline
graph       the same as CUDA graphs (GPU only): the fair baseline there
continuous  K frames in flight, prefill and decode steps in passes of their own
pipelined   K frames in flight, each pass one prefill and one decode step of all others

Only the decoder is timed: the vision encoder runs once for each frame, whichever way it is decoded.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from benchmarks import RESULTS
from benchmarks.engines.decode_roof import Roof, measure_roof
from benchmarks.engines.gpu_report import Report, Row, add_arguments, device_of
from benchmarks.engines.pipelined_decode_report import draw, judged
from rosa_server.engines.pipelined_decode.graphs import runner_for
from rosa_server.engines.pipelined_decode.pipe import Pipe, PipeFrame
from rosa_server.models.token_policy.config import OPENVLA_7B, TokenPolicyConfig
from rosa_server.models.token_policy.decoder import Decoder
from rosa_server.models.token_policy.generate import GrowingCache, StaticCache, generate

# About 50 MB of float32 weights: more than a core's share of the cache, so a decode step is bound by memory here, too.
SMALL = TokenPolicyConfig(
    width=512,
    layers=4,
    heads=8,
    kv_heads=8,
    mlp=1376,
    vocabulary=512,
    image_tokens=16,
    state_tokens=0,
    prompt_tokens=8,
    action_tokens=7,
)
LENGTHS = (7, 16, 24, 32)  # K
CPU_PREFIXES = (24, 64)
GPU_PREFIXES = (276, 320, 384, 512)  # 256 image tokens and instructions of several lengths
ROUNDS = 3
COLUMNS = ("K", "prefill", "way", "fps", "over_fair", "p50_ms", "p99_ms", "mean_age_ms", "memory_mb")


@dataclass
class Run:
    """What one way did in one round."""

    frames: int
    seconds: float
    latencies_s: list[float]


class Bench:
    """One decoder, one K and one prefill length."""

    def __init__(self, decoder: Decoder, config: TokenPolicyConfig, device: torch.device) -> None:
        self.decoder, self.config, self.device = decoder, config, device
        weight = decoder.head.weight
        generator = torch.Generator().manual_seed(3)
        shape = (4, 1, config.prefix, config.width)
        self.prefixes = torch.randn(shape, generator=generator).to(device, weight.dtype)

    def ways(self) -> dict[str, Callable[[float], Run]]:
        """The ways to measure on this device, the baselines first."""
        k = self.config.action_tokens
        ways: dict[str, Callable[[float], Run]] = {
            "eager": self.plain(lambda: GrowingCache(self.config)),
            "static": self.static(),
        }
        if self.device.type == "cuda":
            ways["graph"] = self.engine(1, packed=False)
        ways["continuous"] = self.engine(k, packed=False)
        ways["pipelined"] = self.engine(k, packed=True)
        return ways

    def plain(self, cache: Callable[[], GrowingCache | StaticCache]) -> Callable[[float], Run]:
        """Frame by frame."""

        def run(seconds: float) -> Run:
            latencies = []
            began_s = now_s = time.perf_counter()
            while now_s - began_s < seconds:
                prefix = self.prefixes[len(latencies) % len(self.prefixes)]
                generate(self.decoder, self.config, prefix, cache()).cpu()
                ended_s = time.perf_counter()
                latencies.append(ended_s - now_s)
                now_s = ended_s
            return Run(len(latencies), now_s - began_s, latencies)

        return run

    def static(self) -> Callable[[float], Run]:
        """Frame by frame, with one cache for all."""
        cache = StaticCache(self.config, 1, self.device, self.decoder.head.weight.dtype)
        return self.plain(lambda: cache)

    def engine(self, slots: int, packed: bool) -> Callable[[float], Run]:
        """Through the pipe, which is filled before the time counts and always has a frame waiting."""
        runner = runner_for(self.decoder, self.config, slots)

        def run(seconds: float) -> Run:
            pipe = Pipe(self.config.action_tokens, slots, packed=packed)
            entered: dict[int, float] = {}
            latencies: list[float] = []
            number, filled, began_s = 0, 0, 0.0
            while True:
                if not len(pipe) or number == filled:
                    pipe.offer(PipeFrame(number))
                    number += 1
                do = pipe.next_pass(0.0)
                assert do is not None
                now_s = time.perf_counter()
                for seat in do.enter:
                    entered[seat.frame.number] = now_s
                    filled += 1
                prefixes = (
                    torch.cat([self.prefixes[seat.frame.number % len(self.prefixes)] for seat in do.enter])
                    if do.enter
                    else None
                )
                with torch.inference_mode():
                    runner.run(do, prefixes)
                    runner.tokens.cpu()
                ended_s = time.perf_counter()
                for seat in pipe.passed(do):
                    if began_s:
                        latencies.append(ended_s - entered[seat.frame.number])
                    elif seat.frame.number + 1 >= slots:
                        began_s = ended_s
                if began_s and ended_s - began_s >= seconds and latencies:
                    return Run(len(latencies), ended_s - began_s, latencies)

        return run


def memory_mb(bench: Bench, way: str) -> float:
    """Weights, and the keys and values of all frames in flight."""
    config, weight = bench.config, bench.decoder.head.weight
    weights = sum(one.numel() for one in bench.decoder.parameters())
    frames = config.action_tokens + 1 if way in ("continuous", "pipelined") else 1
    cache = 2 * config.layers * frames * config.longest * config.kv_heads * config.head_dim
    return (weights + cache) * weight.element_size() / 1e6


def check_equal(bench: Bench) -> bool:
    """Whether the pipelined engine says what plain generation says, on four frames."""
    k = bench.config.action_tokens
    pipe, runner = Pipe(k, k), runner_for(bench.decoder, bench.config, k)
    for number in range(4):
        pipe.offer(PipeFrame(number))
    said: dict[int, list[int]] = {}
    with torch.inference_mode():
        while (do := pipe.next_pass(0.0)) is not None:
            runner.run(do, bench.prefixes[do.enter[0].frame.number] if do.enter else None)
            for seat in pipe.passed(do):
                said[seat.frame.number] = runner.tokens[seat.slot].tolist()
    plain = [
        generate(bench.decoder, bench.config, prefix, GrowingCache(bench.config))[0].tolist()
        for prefix in bench.prefixes
    ]
    return [said[number] for number in range(4)] == plain


def measure(bench: Bench, seconds: float, rounds: int) -> Iterator[Row]:
    """A row for each way, measured in turn."""
    ways = bench.ways()
    runs: dict[str, list[Run]] = {way: [] for way in ways}
    for way in ways.values():
        way(0.0)
    for _ in range(rounds):
        for name, way in ways.items():
            runs[name].append(way(seconds))
    fair = "graph" if "graph" in ways else "static"
    fps = {name: max(run.frames / run.seconds for run in done) for name, done in runs.items()}
    for name, done in runs.items():
        best = max(done, key=lambda run: run.frames / run.seconds)
        latencies = np.array(best.latencies_s) * 1000
        period_ms = 1000 / fps[name]
        p50_ms = float(np.percentile(latencies, 50))
        yield {
            "K": bench.config.action_tokens,
            "prefill": bench.config.prefix,
            "way": name,
            "fps": round(fps[name], 2),
            "over_fair": round(fps[name] / fps[fair], 2),
            "p50_ms": round(p50_ms, 2),
            "p99_ms": round(float(np.percentile(latencies, 99)), 2),
            "mean_age_ms": round(p50_ms + period_ms / 2, 2),
            "memory_mb": round(memory_mb(bench, name), 1),
        }


def all_rows(
    decoder_for: Callable[[TokenPolicyConfig], Decoder], args: argparse.Namespace, report: Report
) -> None:
    """Every K and prefill length, the paper's shortest prefill first; prints and saves as it goes."""
    device = torch.device(args.device)
    base, prefixes = (OPENVLA_7B, GPU_PREFIXES) if device.type == "cuda" else (SMALL, CPU_PREFIXES)
    prefixes, lengths = (args.prefixes or prefixes), (args.lengths or LENGTHS)
    # Rotary tables for the longest, weights made once: K and the prefix change neither.
    decoder = decoder_for(sized(base, max(prefixes), 32))
    roof = measure_roof(decoder, device)
    print("  ".join(f"{name:>11}" for name in COLUMNS))
    for prefix in prefixes:
        for k in lengths:
            if not report.has_time():
                print(f"{k:>11}  {prefix:>11}  not measured: no time is left", flush=True)
                continue
            config = sized(base, prefix, k)
            bench = Bench(decoder, config, device)
            same = check_equal(bench)
            roof = roof.better(measure_roof(decoder, device))  # the machine at its best, whoever else uses it
            for row in measure(bench, args.seconds, args.rounds):
                row |= {"roofline": share_of(roof, row, decoder, config)}
                report.add(row | {"equal": same} if row["way"] == "pipelined" else row)
                print("  ".join(f"{row[name]:>11}" for name in COLUMNS), flush=True)
    print(f"roof: {roof.bytes_s / 1e9:.1f} GB/s, {roof.flops_s / 1e12:.3f} TFLOP/s", flush=True)
    for row in report.rows:  # the roof of the last configuration is that of all
        row["roofline"] = share_of(roof, row, decoder, sized(base, row["prefill"], row["K"]))


def sized(base: TokenPolicyConfig, prefix: int, action_tokens: int) -> TokenPolicyConfig:
    """A model with prefixes of `prefix` tokens, and this number of tokens in an action."""
    return replace(base, prompt_tokens=prefix - base.image_tokens, action_tokens=action_tokens)


def share_of(roof: Roof, row: Row, decoder: Decoder, config: TokenPolicyConfig) -> float:
    """Which share of the machine's limit a row reaches."""
    return round(roof.frame_s(row["way"], decoder, config) * float(row["fps"]), 3)


def random_decoder(device: torch.device, dtype: torch.dtype) -> Callable[[TokenPolicyConfig], Decoder]:
    """Decoders with random weights, made on the device: 7 billion numbers take minutes on a CPU."""

    def make(config: TokenPolicyConfig) -> Decoder:
        torch.manual_seed(0)
        torch.set_default_dtype(dtype)  # else 28 GB are made first, and then rounded to 14
        with torch.device(device):
            decoder = Decoder(config)
        torch.set_default_dtype(torch.float32)
        for weight in decoder.parameters():
            weight.requires_grad_(False)
            if weight.dim() > 1:
                weight.normal_(0.0, 0.02 if config.width > 1000 else 0.08)
        return decoder.eval()

    return make


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_arguments(parser, RESULTS)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one way in one round")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--lengths", type=int, nargs="*", help=f"K (default {LENGTHS})")
    parser.add_argument("--prefixes", type=int, nargs="*", help="prefill lengths")
    args = parser.parse_args()
    device = device_of(parser, args)
    command = (
        f"python -m benchmarks.engines.pipelined_decode --device {args.device} --seconds {args.seconds:g}"
    )
    report = Report("pipelined_decode", command, device, args.out, args.limit)
    all_rows(random_decoder(device, torch.bfloat16 if device.type == "cuda" else torch.float32), args, report)
    aims = judged(report.rows, args.device)
    rows = [{key: value for key, value in row.items() if key != "equal"} for row in report.rows]
    words = {"fps": "not measured: run with --device cuda"}
    gpu = {"K": "7 to 32", "prefill": "276 to 512", "way": "OpenVLA-7B, bf16, GPU", **words}
    shown = [*rows, gpu] if device.type == "cpu" else rows
    return 0 if report.finish(shown, aims, lambda path: draw(rows, path, report.machine)) else 1


if __name__ == "__main__":
    raise SystemExit(main())
