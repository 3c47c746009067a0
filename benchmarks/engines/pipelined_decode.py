"""Pipelined decoding of action tokens against the usual ways, shaped like ActionFlow's Table 1 and Figure 5.

    python -m benchmarks.engines.pipelined_decode [--device cpu] [--seconds 2]
    python -m benchmarks.engines.pipelined_decode --device cuda  # OpenVLA-7B in bf16, random weights, under ten minutes

Only torch and numpy have to be installed: run it from the repository's root.

One saturated stream: whenever the engine takes a frame, the newest one is there. Each way answers the same frames; they
are measured in turn, several rounds, and the best round of each is reported: what else runs on a machine only slows.
On a CPU times are those that the process computes. Writes benchmarks/results/pipelined_decode.json and .png
(pipelined_decode_cuda on a GPU).

eager       one frame after another, the cache concatenated at each step, as `transformers` does by default
static      one frame after another, the cache allocated once; CUDA graphs on a GPU, as all that follow
batch K     K frames at a time, from their prefill to their last token; and batch 2K
continuous  K frames in flight, prefill and decode steps in passes of their own
chunked     a frame's prefix in two passes, each with one decode step of all others, as vLLM does it
pipelined   K frames in flight, each pass one prefill and one decode step of all others

`over_static` is over `static`, `over_best` over the fastest of all ways but `pipelined`. `age_ms`: how old the frame of
the action in force is, on average over time. `jitter_ms`: standard deviation of the time between two actions of the
stream. Only the decoder is timed: the vision encoder runs once for each frame, whichever way it is decoded.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from benchmarks import RESULTS
from benchmarks.engines.captured import Captured
from benchmarks.engines.chunked_prefill import ChunkedPrefill
from benchmarks.engines.decode_roof import CHUNKS, Roof, measure_roof
from benchmarks.engines.gpu_report import Report, Row, add_arguments, clock_of, device_of, free
from benchmarks.engines.pipelined_decode_report import draw, judged
from rosa_server.engines.pipelined_decode.graphs import runner_for
from rosa_server.engines.pipelined_decode.pipe import Pipe, PipeFrame
from rosa_server.models.token_policy.config import OPENVLA_7B, TokenPolicyConfig
from rosa_server.models.token_policy.decoder import Decoder, attend_causally
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
MIN_ANSWERS = 3  # of batches, of which the times between them say something
CPU_PREFIXES = (24, 64)
GPU_PREFIXES = (276, 320, 384, 512)  # 256 image tokens and instructions of several lengths
ROUNDS = 3
COLUMNS = (
    *("K", "prefill", "way", "fps", "over_static", "over_best"),
    *("p50_ms", "p99_ms", "age_ms", "jitter_ms", "memory_mb"),
)
# Of a token that an engine says, how far below the likeliest of exact logits it may be, in their standard deviations:
# rounding, of which plain generation has its own share in 16 bits.
CLOSE, TIMES_PLAIN = 1e-3, 2.0
CHECKED_LAYERS = 4  # of a decoder in 32 bits, where all of them would not fit


@dataclass
class Run:
    """What one way did in one round: when frames were taken and answered, in the order of answering."""

    seconds: float
    taken_s: list[float]
    ended_s: list[float]

    @property
    def fps(self) -> float:
        return len(self.ended_s) / self.seconds

    @property
    def latencies_s(self) -> list[float]:
        return [end - begin for begin, end in zip(self.taken_s, self.ended_s, strict=True)]

    def age_s(self) -> float:
        """Mean age of the newest answered frame, from the first answer to the last."""
        total_s, newest_s = 0.0, self.taken_s[0]
        for index in range(1, len(self.ended_s)):
            newest_s = max(newest_s, self.taken_s[index - 1])
            before_s, now_s = self.ended_s[index - 1], self.ended_s[index]
            total_s += (now_s - before_s) * ((before_s + now_s) / 2 - newest_s)
        whole_s = self.ended_s[-1] - self.ended_s[0]
        return total_s / whole_s if whole_s > 0 else self.latencies_s[0]

    def jitter_s(self) -> float | None:
        """Of the times at which actions come; those of one instant are one. None: there were too few."""
        return float(np.std(np.diff(sorted(set(self.ended_s))))) if len(set(self.ended_s)) > 2 else None


class Bench:
    """One decoder, one K and one prefill length."""

    def __init__(self, decoder: Decoder, config: TokenPolicyConfig, device: torch.device) -> None:
        self.decoder, self.config, self.device = decoder, config, device
        self.clock = clock_of(device)
        weight = decoder.head.weight
        generator = torch.Generator().manual_seed(3)
        shape = (4, 1, config.prefix, config.width)
        self.prefixes = torch.randn(shape, generator=generator).to(device, weight.dtype)

    def ways(self) -> dict[str, Callable[[float], Run]]:
        """The ways to measure on this device, the baselines first."""
        k = self.config.action_tokens
        return {
            "eager": self.together(1, lambda one: self.said(one, GrowingCache(self.config))),
            "static": self.static(1),
            "batch K": self.static(k),
            "batch 2K": self.static(2 * k),
            "continuous": self.engine(k, packed=False),
            "chunked": self.chunked(),
            "pipelined": self.engine(k, packed=True),
        }

    def said(self, prefixes: Tensor, cache: GrowingCache | StaticCache) -> Tensor:
        return generate(self.decoder, self.config, prefixes, cache)

    def static(self, frames: int) -> Callable[[float], Run]:
        """So many frames at a time, with one cache for all; the whole of it is one graph on CUDA."""
        cache = StaticCache(self.config, frames, self.device, self.decoder.head.weight.dtype)
        captured = Captured(lambda prefixes: self.said(prefixes, cache), [self.some(0, frames)])
        return self.together(frames, captured)

    def some(self, first: int, count: int) -> Tensor:
        """The prefixes of these frames `(count, L_P, width)`."""
        return torch.cat([self.prefixes[(first + one) % len(self.prefixes)] for one in range(count)])

    def together(self, frames: int, answer: Callable[[Tensor], Tensor]) -> Callable[[float], Run]:
        """So many frames, and then the next."""

        def run(seconds: float) -> Run:
            taken: list[float] = []
            ended: list[float] = []
            began_s = now_s = self.clock()
            few = (MIN_ANSWERS if seconds else 1) * frames
            while len(ended) < few or now_s - began_s < seconds:
                taken += [now_s] * frames
                answer(self.some(len(ended), frames)).cpu()
                now_s = self.clock()
                ended += [now_s] * frames
            return Run(now_s - began_s, taken, ended)

        return run

    def chunked(self) -> Callable[[float], Run]:
        """Each prefix in several passes; nothing counts until as many frames are inside as ever are."""
        engine = ChunkedPrefill(self.decoder, self.config, min(CHUNKS, self.config.prefix))

        def run(seconds: float) -> Run:
            took: dict[int, float] = {}
            taken: list[float] = []
            ended: list[float] = []
            number, began_s = 0, 0.0
            while True:
                now_s = self.clock()
                prefix = self.prefixes[number % len(self.prefixes)][0]
                done, entered = engine.step(prefix, number)
                engine.tokens.cpu()
                ended_s = self.clock()
                if entered:
                    took[number] = now_s
                    number += 1
                for one in done:
                    if began_s and one.number in took:
                        taken.append(took[one.number])
                        ended.append(ended_s)
                    elif not began_s and number > 2 * engine.slots:
                        began_s = ended_s
                if began_s and ended_s - began_s >= seconds and ended:
                    return Run(ended_s - began_s, taken, ended)

        return run

    def engine(self, slots: int, packed: bool) -> Callable[[float], Run]:
        """Through the pipe, which is filled before the time counts and always has a frame waiting."""
        runner = runner_for(self.decoder, self.config, slots)

        def run(seconds: float) -> Run:
            pipe = Pipe(self.config.action_tokens, slots, packed=packed)
            entered: dict[int, float] = {}
            taken: list[float] = []
            ended: list[float] = []
            number, filled, began_s = 0, 0, 0.0
            while True:
                if not len(pipe) or number == filled:
                    pipe.offer(PipeFrame(number))
                    number += 1
                do = pipe.next_pass(0.0)
                assert do is not None
                now_s = self.clock()
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
                ended_s = self.clock()
                for seat in pipe.passed(do):
                    if began_s:
                        taken.append(entered[seat.frame.number])
                        ended.append(ended_s)
                    elif seat.frame.number + 1 >= slots:
                        began_s = ended_s
                if began_s and ended_s - began_s >= seconds and ended:
                    return Run(ended_s - began_s, taken, ended)

        return run


def memory_mb(bench: Bench, way: str) -> float:
    """Weights, and the keys and values of all frames in flight."""
    config, weight = bench.config, bench.decoder.head.weight
    weights = sum(one.numel() for one in bench.decoder.parameters())
    k = config.action_tokens
    chunked = -(-(CHUNKS + k - 1) // CHUNKS) + 1
    inside = {"batch K": k, "batch 2K": 2 * k, "continuous": k + 1, "chunked": chunked, "pipelined": k + 1}
    frames = inside.get(way, 1)
    cache = 2 * config.layers * frames * config.longest * config.kv_heads * config.head_dim
    return (weights + cache) * weight.element_size() / 1e6


def pipelined(bench: Bench) -> list[list[int]]:
    """What the pipelined engine says of four frames."""
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
    return [said[number][:k] for number in range(4)]


def chunked(bench: Bench) -> list[list[int]]:
    """What chunked prefill says of four frames."""
    engine = ChunkedPrefill(bench.decoder, bench.config, min(CHUNKS, bench.config.prefix))
    said: dict[int, list[int]] = {}
    number = 0
    while len(said) < 4:
        done, entered = engine.step(bench.prefixes[number % 4][0], number)
        number += entered
        for one in done:
            said.setdefault(one.number, engine.tokens[one.slot].tolist()[: bench.config.action_tokens])
    return [said[number] for number in range(4)]


def plain(bench: Bench) -> list[list[int]]:
    """What plain generation says of four frames."""
    return [bench.said(prefix, GrowingCache(bench.config))[0].tolist() for prefix in bench.prefixes]


@torch.inference_mode()
def below_likeliest(bench: Bench, said: Sequence[Sequence[int]]) -> float:
    """How far below the likeliest token one that was said is at most, in standard deviations of its logits.

    Logits are those of the same weights in 32 bits, a block at a time. All tokens before it are given, so that a tie
    that fell the other way changes nothing after it.
    """
    decoder, config = bench.decoder, bench.config
    given = torch.tensor(said, device=bench.device)  # (frames, K)
    hidden = torch.cat([bench.prefixes[:, 0], decoder.embedding(given[:, :-1])], dim=1).float()
    cos, sin = decoder.cos[: hidden.shape[1]], decoder.sin[: hidden.shape[1]]
    for layer, block in enumerate(decoder.blocks):
        hidden = deepcopy(block).float()(layer, hidden, cos, sin, attend_causally)
    states = deepcopy(decoder.norm).float()(hidden)[:, config.prefix - 1 :]
    logits = functional.linear(states, decoder.head.weight.float())
    own = logits.gather(2, given[..., None])[..., 0]
    return float(((logits.max(dim=2).values - own) / logits.std(dim=2)).max())


def checked(bench: Bench) -> tuple[bool, float, float]:
    """Whether a decoder in 32 bits says the same in every way.

    Of the one that is measured: `below_likeliest` of the engines, and of plain generation.
    """
    small = bench
    if bench.decoder.head.weight.dtype != torch.float32:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        config = replace(bench.config, layers=min(CHECKED_LAYERS, bench.config.layers))
        small = Bench(random_decoder(bench.device, torch.float32)(config), config, bench.device)
    expected = plain(small)
    same = pipelined(small) == expected and chunked(small) == expected
    worst = max(below_likeliest(bench, said(bench)) for said in (pipelined, chunked))
    return same, worst, below_likeliest(bench, plain(bench))


def measure(bench: Bench, seconds: float, rounds: int) -> Iterator[Row]:
    """A row for each way, measured in turn."""
    ways = bench.ways()
    runs: dict[str, list[Run]] = {way: [] for way in ways}
    for way in ways.values():
        way(0.0)
    for _ in range(rounds):
        for name, way in ways.items():
            runs[name].append(way(seconds))
    best = {name: max(done, key=lambda run: run.fps) for name, done in runs.items()}
    fps = {name: round(run.fps, 2) for name, run in best.items()}  # as printed, so that columns agree
    rival = max(value for name, value in fps.items() if name != "pipelined")
    for name, run in best.items():
        latencies = np.array(run.latencies_s) * 1000
        yield {
            "K": bench.config.action_tokens,
            "prefill": bench.config.prefix,
            "way": name,
            "fps": fps[name],
            "over_static": round(fps[name] / fps["static"], 2),
            "over_best": round(fps[name] / rival, 2),
            "p50_ms": round(float(np.percentile(latencies, 50)), 2),
            "p99_ms": round(float(np.percentile(latencies, 99)), 2),
            "age_ms": round(1000 * run.age_s(), 2),
            "jitter_ms": None if (jitter_s := run.jitter_s()) is None else round(1000 * jitter_s, 2),
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
            same, below, by_plain = checked(bench)
            roof = roof.better(measure_roof(decoder, device))  # the machine at its best, whoever else uses it
            for row in measure(bench, args.seconds, args.rounds):
                row |= {"roofline": share_of(roof, row, decoder, config)}
                found = {"equal": same, "below": round(below, 5), "below_plain": round(by_plain, 5)}
                found |= {"close": below <= max(CLOSE, TIMES_PLAIN * by_plain)}
                report.add(row | found if row["way"] == "pipelined" else row)
                print("  ".join(f"{row[name]!s:>11}" for name in COLUMNS), flush=True)
            del bench
            free(device)
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


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_arguments(parser, RESULTS)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one way in one round")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--lengths", type=int, nargs="*", help=f"K (default {LENGTHS})")
    parser.add_argument("--prefixes", type=int, nargs="*", help="prefill lengths")
    args = parser.parse_args(arguments)
    device = device_of(parser, args)
    command = (
        f"python -m benchmarks.engines.pipelined_decode --device {args.device} --seconds {args.seconds:g}"
    )
    report = Report("pipelined_decode", command, device, args.out, args.limit)
    all_rows(random_decoder(device, torch.bfloat16 if device.type == "cuda" else torch.float32), args, report)
    aims = judged(report.rows, args.device)
    hidden = ("equal", "below", "below_plain", "close")
    rows = [{key: value for key, value in row.items() if key not in hidden} for row in report.rows]
    words = {"fps": "not measured: run with --device cuda"}
    gpu = {"K": "7 to 32", "prefill": "276 to 512", "way": "OpenVLA-7B, bf16, GPU", **words}
    shown = [*rows, gpu] if device.type == "cpu" else rows
    return 0 if report.finish(shown, aims, lambda path: draw(rows, path, report.machine)) else 1


if __name__ == "__main__":
    raise SystemExit(main())
