"""Isolated execution against shared prefixes and batched language, shaped like OxyGen's Figures 4 to 6.

    python -m benchmarks.engines.kv_sharing [--device cpu] [--seconds 0.6]
    python -m benchmarks.engines.kv_sharing --device cuda  # pi0.5's shape in bf16, random weights, under ten minutes

Only torch and numpy have to be installed: run it from the repository's root. On CUDA every way runs as CUDA graphs.

Saturated frames, one after another. The ways are measured in turn, several rounds, and the best round of each is
reported: what else runs on a machine only slows. On a CPU times are those that the process computes. Writes
benchmarks/results/kv_sharing.json and .png (kv_sharing_cuda).

isolated   each call by itself, as without an engine: its own prefill, its answer to the end
together   all calls of a frame in one batch, equal observations looked at once, as `engine: isolated` in the server
shared     one prefill for all calls about an observation; answers one after another, to their ends
batched    also: of every answer in words k tokens a frame, of all frames and robots together (Algorithm 1)

`components`: each robot asks all four components about its frame: an action chunk, a plan of N tokens and two verdicts
of one. `paper`: an action chunk and N tokens about each frame, k of them in each. Weights are random, nothing ends an
answer early, and the same calls get the same answers in every way, which is checked first.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from benchmarks import RESULTS
from benchmarks.engines.gpu_report import Report, Row, add_arguments, clock_of, device_of, free
from benchmarks.engines.graphed_network import GraphedNetwork
from benchmarks.engines.kv_sharing_report import draw, judged, not_measured
from rosa_server.engines.kv_sharing.engine import KvSharingEngine
from rosa_server.engines.kv_sharing.manager import KvManager
from rosa_server.engines.kv_sharing.network import PrefixNetwork
from rosa_server.engines.kv_sharing.passes import (
    PassCall,
    Words,
    acted,
    first_words,
    isolated,
    prefill,
    prompted,
    slice_room,
    speak,
)
from rosa_server.engines.kv_sharing.turns import Speak, TurnLimits
from rosa_server.models.vla.config import PI05, SHIPPED, VlaConfig
from rosa_server.models.vla.network import VlaNetwork

# About 110 MB of float32 weights in the backbone: a token is bound by memory, as those of large models on a GPU.
MIDDLE = replace(
    SHIPPED, width=512, layers=8, heads=8, head_dim=64, mlp=2048, expert_width=256, expert_mlp=1024, points=32
)
CHECKED_LAYERS = 4  # of a network in 32 bits
ROUNDS = 3
NEVER = -1  # no token ends an answer
PROMPT = 12  # tokens
LOOKS = 4  # different observations, over and over
PLAN = 10  # tokens of a plan, among four components
TOGETHER = 8  # prefills, and actions, of one turn, as in the server (`models/vla/sharing.py`)


@dataclass(frozen=True)
class Work:
    """What each frame asks, of each robot."""

    name: str  # components or paper
    robots: int = 1
    steps: int = 10  # S, of the flow
    tokens: int = PLAN  # N
    slices: tuple[int, ...] = (5,)  # k, each measured


@dataclass
class Run:
    """What one way did in one round."""

    frames: int
    tokens: int
    seconds: float
    batch: float = 1.0  # mean sequences of a slice
    kv_bytes: int = 0  # the most in use at a time

    @property
    def frames_s(self) -> float:
        return self.frames / self.seconds


class Bench:
    """One network, and the frames of one kind of work."""

    def __init__(self, network: VlaNetwork, work: Work) -> None:
        weight = network.embedding.weight
        self.clock = clock_of(weight.device)
        self.device, self.dtype, self.work = weight.device, weight.dtype, work
        self.weights = sum(one.numel() for one in network.parameters()) * weight.dtype.itemsize
        self.network: PrefixNetwork = GraphedNetwork(network) if self.device.type == "cuda" else network
        config, generator = network.config, torch.Generator().manual_seed(3)
        side = 96 if config.vision is None else config.vision.image

        def numbers(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator).clamp(-1, 1).to(self.device, self.dtype)

        cameras = range(config.cameras)
        self.pictures = [[numbers(1, 3, side, side) for _ in cameras] for _ in range(LOOKS)]
        self.told = [numbers(1, config.proprioception) for _ in range(LOOKS)]
        self.noise = numbers(1, config.horizon, config.action_dim)
        self.prompts = torch.randint(0, config.vocabulary, (4, PROMPT), generator=generator).tolist()

    def calls(self, frame: int) -> list[PassCall]:
        """All calls of one frame, of all robots."""
        return [call for robot in range(self.work.robots) for call in self.calls_of(robot, frame)]

    def calls_of(self, robot: int, frame: int) -> Iterator[PassCall]:
        """An action, an answer of N tokens, and for `components` two of one token."""
        look, name = (frame + robot) % LOOKS, f"{robot}:{frame}"
        seen = (self.pictures[look], self.told[look])
        yield PassCall("action", *seen, tuple(self.prompts[0]), 1, self.noise, self.work.steps, name)
        longest = (self.work.tokens, 1, 1) if self.work.name == "components" else (self.work.tokens,)
        for number, highest in enumerate(longest, start=1):
            yield PassCall("language", *seen, tuple(self.prompts[number]), highest, observation=name)

    def wait(self) -> None:
        """For the device."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def ways(self) -> dict[str, Callable[[float], Run]]:
        """The ways to measure, the baseline first."""
        ways = {
            "isolated": self.isolated,
            "together": self.together,
            "shared": self.engine(TurnLimits(slice_tokens=self.work.tokens, sequences=1), to_the_end=True),
        }
        for k in self.work.slices:
            ways[f"batched {k}"] = self.engine(
                TurnLimits(k, TOGETHER, TOGETHER, sequences=256), to_the_end=False
            )
        return ways

    def isolated(self, seconds: float) -> Run:
        """Call by call."""
        frames = tokens = longest = 0
        began_s = self.clock()
        while frames == 0 or self.clock() - began_s < seconds:
            for call in self.calls(frames):
                with torch.inference_mode():
                    answer = isolated(self.network, call, NEVER)
                said = len(answer.tokens) if isinstance(answer, Words) else 0
                tokens, longest = tokens + said, max(longest, said)
            frames += 1
            self.wait()
        at_a_time = self.network.config.observation + PROMPT + longest
        return Run(frames, tokens, self.clock() - began_s, kv_bytes=self.cache_bytes(at_a_time))

    def together(self, seconds: float) -> Run:
        """Frame by frame, each in one batch."""
        frames = tokens = 0
        network = self.network
        began_s = self.clock()
        while frames == 0 or self.clock() - began_s < seconds:
            with torch.inference_mode():
                tokens += sum(
                    len(one.tokens) for one in self.batch(self.calls(frames)) if isinstance(one, Words)
                )
            frames += 1
            self.wait()
        calls = self.calls(0)
        longest = max(call.longest for call in calls)
        at_a_time = len(calls) * (network.config.observation + PROMPT + longest)
        return Run(frames, tokens, self.clock() - began_s, len(calls), self.cache_bytes(at_a_time))

    def batch(self, calls: Sequence[PassCall]) -> list[Any]:
        """The answers of these calls, whose equal observations are looked at once."""
        first = {call.observation: call for call in calls}
        prefixes = dict(zip(first, prefill(self.network, list(first.values())), strict=True))
        answers: list[Any] = [None] * len(calls)
        acting = [row for row, call in enumerate(calls) if call.kind == "action"]
        if acting:
            asked = [calls[row] for row in acting]
            _, cache = prompted(
                self.network, [prefixes[one.observation] for one in asked], [one.prompt for one in asked]
            )
            for row, chunk in zip(acting, acted(self.network, cache, asked), strict=True):
                answers[row] = chunk
        speaking = [row for row in range(len(calls)) if row not in acting]
        if speaking:
            asked = [calls[row] for row in speaking]
            states = first_words(self.network, [prefixes[one.observation] for one in asked], asked, NEVER)
            while going := [index for index, state in enumerate(states) if not state.done]:
                batched = KvManager.batch([states[index] for index in going], slice_room(asked))
                some = [asked[index] for index in going]
                batched = speak(self.network, batched, some, min(one.longest for one in some), NEVER)
                for index, state in zip(going, KvManager.unbatch(batched), strict=True):
                    states[index] = state
            for row, state in zip(speaking, states, strict=True):
                answers[row] = Words.of(state, NEVER)
        return answers

    def engine(self, limits: TurnLimits, to_the_end: bool) -> Callable[[float], Run]:
        """Through the engine. `to_the_end`: all answers of a frame in it; otherwise one slice of all answers."""
        memory_mb = (
            4 * self.cache_bytes(self.network.config.longest) * self.work.robots * self.work.tokens / 1e6
        )

        def run(seconds: float) -> Run:
            engine = KvSharingEngine(
                self.network, NEVER, memory_mb, limits, longest_prompt=PROMPT, longest_answer=self.work.tokens
            )
            # Until as many answers are on their way as there ever are, nothing is counted.
            fill = 0 if to_the_end else -(-self.work.tokens // limits.slice_tokens)
            frame = tokens = 0
            began_s = before = 0.0
            open_answers: list[Any] = []
            counts: dict[str, int] = {}
            while True:
                if frame == fill:
                    began_s, tokens, counts = self.clock(), 0, engine.counts()
                open_answers += [engine.submit(call)[1] for call in self.calls(frame)]
                while (turn := engine.step(0.0)) is not None:
                    if isinstance(turn, Speak) and not to_the_end:
                        break
                self.wait()
                tokens += sum(_said(answer) for answer in open_answers if answer.done())
                open_answers = [answer for answer in open_answers if not answer.done()]
                frame += 1
                before = self.clock() - began_s
                if frame > fill and before >= seconds:
                    break
            after = engine.counts()
            new = {name: after[name] - counts[name] for name in ("slices", "sequences_in_slices")}
            batch = new["sequences_in_slices"] / max(1, new["slices"])
            return Run(frame - fill, tokens, before, batch, after["peak_in_use_bytes"])

        return run

    def cache_bytes(self, tokens: int) -> int:
        return self.network.cache_bytes(tokens)

    def equal(self) -> tuple[bool, float]:
        """Whether the batched engine says what isolated execution says, and how far its chunks are off at most."""
        calls = [call for frame in range(2) for call in self.calls(frame)]
        limits = TurnLimits(slice_tokens=2, sequences=256)
        memory_mb = 8 * self.cache_bytes(self.network.config.longest) * len(calls) / 1e6
        engine = KvSharingEngine(
            self.network, NEVER, memory_mb, limits, longest_prompt=PROMPT, longest_answer=self.work.tokens
        )
        answers = [engine.submit(call)[1] for call in calls]
        while engine.step(0.0) is not None:
            pass
        with torch.inference_mode():
            at_once = self.batch(calls)
        same, off = True, 0.0
        for call, answer, batched in zip(calls, answers, at_once, strict=True):
            with torch.inference_mode():
                alone = isolated(self.network, call, NEVER)
            for got in (answer.result(0), batched):
                if isinstance(alone, Words):
                    same &= isinstance(got, Words) and got.tokens == alone.tokens
                else:
                    assert isinstance(alone, Tensor) and isinstance(got, Tensor)
                    off = max(off, float((alone - got).abs().max()))
        return same, off


def equal(bench: Bench) -> tuple[bool, float]:
    """`Bench.equal` in 32 bits: of the network itself, or of one with fewer layers where that is in 16 bits."""
    if bench.dtype == torch.float32:
        return bench.equal()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    config = bench.network.config
    assert isinstance(config, VlaConfig)
    vision = None if config.vision is None else replace(config.vision, depth=min(2, config.vision.depth))
    few = replace(config, layers=min(CHECKED_LAYERS, config.layers), vision=vision)
    return Bench(random_network(few, bench.device, torch.float32), bench.work).equal()


def _said(answer: Any) -> int:
    words = answer.result(0)
    return len(words.tokens) if isinstance(words, Words) else 0


def measure(bench: Bench, model: str, seconds: float, rounds: int) -> Iterator[Row]:
    """A row for each way, measured in turn."""
    work, ways = bench.work, bench.ways()
    same, off = equal(bench)
    runs: dict[str, list[Run]] = {name: [] for name in ways}
    if bench.device.type == "cuda":  # graphs are recorded
        for way in ways.values():
            way(seconds)
    for _ in range(rounds):
        for name, way in ways.items():
            runs[name].append(way(seconds))
    best = {name: max(done, key=lambda run: run.frames_s) for name, done in runs.items()}
    for name, run in best.items():
        kind, _, k = name.partition(" ")
        yield {
            "model": model,
            "work": work.name,
            "robots": work.robots,
            "S": work.steps,
            "N": work.tokens,
            "k": int(k or work.tokens),
            "way": kind,
            "actions_hz": round(run.frames_s * work.robots * bench.network.config.horizon, 1),
            "tokens_s": round(run.tokens / run.seconds, 1),
            "frame_ms": round(1000 / run.frames_s, 2),
            "speedup": round(run.frames_s / best["isolated"].frames_s, 2),
            "mean_batch": round(run.batch, 1),
            "over_together": round(run.frames_s / best["together"].frames_s, 2),
            "memory_mb": round((bench.weights + run.kv_bytes) / 1e6, 2),
            "equal": same,
            "off": off,
        }


COLUMNS = (
    "model",
    "work",
    "robots",
    "S",
    "N",
    "k",
    "way",
    "actions_hz",
    "tokens_s",
    "frame_ms",
    "speedup",
    "over_together",
    "mean_batch",
    "memory_mb",
)


def works(device: str, short: bool) -> list[tuple[str, VlaConfig, list[Work]]]:
    """Which models do what, in the order of the table."""
    if short:
        return [("shipped", SHIPPED, [Work("components", steps=2, tokens=4, slices=(2,))])]
    components = [Work("components", robots, steps=8) for robots in (1, 2, 4)]
    sweep = [
        Work("paper", 1, steps, tokens, tuple(k for k in (5, 10) if k < tokens))
        for steps in (5, 10)
        for tokens in (10, 20, 30)
    ]
    if device == "cuda":
        return [("pi0.5's shape, bf16", PI05, [*components, *sweep])]
    return [("shipped", SHIPPED, components), ("middle, 32 M", MIDDLE, sweep)]


def all_rows(device: torch.device, dtype: torch.dtype, args: argparse.Namespace, report: Report) -> None:
    """Every model and work; prints and saves as it goes."""
    print("  ".join(f"{name:>12}" for name in COLUMNS))
    for model, config, todo in works(args.device, args.short):
        network = random_network(config, device, dtype)
        for work in todo:
            if not report.has_time():
                words = f"{work.name}, {work.robots} robots, S={work.steps}, N={work.tokens}"
                print(f"{model}: {words}: not measured: no time is left", flush=True)
                continue
            for row in measure(Bench(network, work), model, args.seconds, args.rounds):
                report.add(row)
                print("  ".join(f"{row[name]!s:>12.12}" for name in COLUMNS), flush=True)
            free(device)


def random_network(config: VlaConfig, device: torch.device, dtype: torch.dtype) -> VlaNetwork:
    """A network with random weights, made on the device."""
    torch.manual_seed(0)
    torch.set_default_dtype(dtype)  # else twice the memory is needed first
    with torch.device(device):
        network = VlaNetwork(config).eval().requires_grad_(False)
    torch.set_default_dtype(torch.float32)
    for name, weight in network.named_parameters():
        if "modulate" in name:  # zeros at first: the flow would stand still
            weight.normal_(0.0, 0.02)
    return network


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_arguments(parser, RESULTS)
    parser.add_argument("--seconds", type=float, default=0.6, help="of one way in one round")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--short", action="store_true", help="one small row, to see that it works")
    args = parser.parse_args(arguments)
    device = device_of(parser, args)
    command = f"python -m benchmarks.engines.kv_sharing --device {args.device} --seconds {args.seconds:g}"
    report = Report("kv_sharing", command, device, args.out, args.limit)
    all_rows(device, torch.bfloat16 if device.type == "cuda" else torch.float32, args, report)
    rows = report.rows
    shown = [{column: row[column] for column in COLUMNS} for row in rows]
    shown += not_measured() if device.type == "cpu" else []
    picture = None if args.short else lambda path: draw(rows, path, report.machine)
    return 0 if report.finish(shown, judged(rows, args.device), picture) else 1


if __name__ == "__main__":
    raise SystemExit(main())
