"""Profiles of models and GPUs that nobody has measured: a roofline of the data sheet, then a simulated queue.

A request is a few runs of networks, each with its count, parameters and tokens. A run takes as long as
its arithmetic or as moving its weights and, where given, activations and cache does, whichever is longer, and a fixed
time besides. Peaks are those of the data sheets (dense, 16 bit); how much of them is reached is assumed.
`python -m benchmarks.scheduling.roofline` compares it with published figures.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from rosa_server.scheduler.profiles.library import hardware_folder
from rosa_server.scheduler.profiles.profile import (
    DERIVED,
    DYNAMIC,
    SCHEMA,
    STATIC,
    Configuration,
    Fact,
    Profile,
    ServiceTime,
)
from rosa_server.scheduler.profiles.queueing import batch_latencies_ms, summarise

JITTER = 0.03  # variation of one run
BUFFERS = 1.3  # memory, times that of the weights
RATE_SHARES = tuple(step / 10 for step in range(1, 11))
REQUESTS = 10_000  # that are simulated at each rate
FORM = "TIMESxPARAMETERSxTOKENS[xBYTES]"
NUMBER = r"(\d+(?:\.\d+)?(?:e\d+)?)"
RUN = re.compile(rf"(\d+)x{NUMBER}x(\d+)(?:x{NUMBER})?")


@dataclass(frozen=True)
class Reached:
    """How much of the peaks a run reaches, and what it takes besides."""

    compute: float  # share
    bandwidth: float
    overhead_ms: float  # of each run


ASSUMED = Reached(0.4, 0.7, 1.0)  # what profiles are made with
PEAKS = Reached(1.0, 1.0, 0.0)  # what no implementation undercuts


@dataclass(frozen=True)
class DataSheet:
    """Of the data sheet: dense 16-bit TFLOPS, GB/s, MB."""

    tflops: float
    gb_s: float
    memory_mb: float


GPUS = {
    "h200": DataSheet(989.0, 4800.0, 141_000.0),
    "h100": DataSheet(989.0, 3350.0, 80_000.0),
    "b100": DataSheet(1750.0, 8000.0, 192_000.0),
    "a100": DataSheet(312.0, 2039.0, 80_000.0),
    "l40s": DataSheet(362.0, 864.0, 48_000.0),
    "rtx-a6000": DataSheet(154.8, 768.0, 48_000.0),
    "rtx-4090": DataSheet(165.2, 1008.0, 24_000.0),
    "rtx-5090": DataSheet(209.5, 1792.0, 32_000.0),
    "jetson-agx-orin": DataSheet(42.5, 204.8, 64_000.0),
    "jetson-agx-thor": DataSheet(258.8, 273.0, 128_000.0),
}


@dataclass(frozen=True)
class Run:
    """`times` runs of a network with this number of `parameters`, over this number of `tokens` of one request.

    `token_bytes`: activations and cache that are moved for each token, besides the weights. They decide where memory
    is slow for its GPU (Jetson) or tokens are many; 0 leaves them out.
    """

    times: int
    parameters: float
    tokens: int
    token_bytes: float = 0.0

    def __str__(self) -> str:
        moved = f" x {self.token_bytes:g} bytes" if self.token_bytes else ""
        return f"{self.times} x {self.parameters:g} parameters x {self.tokens} tokens{moved}"


def run_from(text: str) -> Run:
    """`TIMESxPARAMETERSxTOKENS[xBYTES]`, such as 10x0.3e9x51 or 10x0.3e9x51x1.2e6. Raises `ValueError`."""
    found = RUN.fullmatch(text)
    made = (
        Run(int(found[1]), float(found[2]), int(found[3]), float(found[4] or 0)) if found else Run(0, 0.0, 0)
    )
    if not (made.times >= 1 and made.parameters >= 1 and made.tokens >= 1):
        raise ValueError(f"expected {FORM}, such as 10x0.3e9x51, got {text!r}")
    return made


def gpu_of(hardware: str) -> DataSheet:
    """By the name of `server_cluster.gpu_type`. Raises `KeyError`."""
    return GPUS[hardware_folder(hardware)]


def service_ms(
    runs: Sequence[Run],
    gpu: DataSheet,
    batch: int = 1,
    bytes_per_parameter: float = 2.0,
    reached: Reached = ASSUMED,
) -> float:
    """How long a batch takes on an idle GPU."""
    total = 0.0
    for run in runs:
        tokens = run.tokens * batch
        arithmetic = 2e3 * run.parameters * tokens / (gpu.tflops * 1e12 * reached.compute)
        moved = run.parameters * bytes_per_parameter + run.token_bytes * tokens
        moving = 1e3 * moved / (gpu.gb_s * 1e9 * reached.bandwidth)
        total += run.times * (max(arithmetic, moving) + reached.overhead_ms)
    return total


def memory_mb(runs: Sequence[Run], bytes_per_parameter: float = 2.0) -> float:
    """Of the weights and what is beside them; networks with the same number of parameters are one."""
    return sum({run.parameters for run in runs}) * bytes_per_parameter * BUFFERS / 1e6


def roofline_profile(
    model: str,
    hardware: str,
    runs: Sequence[Run],
    batches: Sequence[int],
    components: tuple[str, ...] = (),
    bytes_per_parameter: float = 2.0,
    command: str = "",
) -> Profile:
    """The profile, marked `derived`. Raises `KeyError` for hardware that is not in `GPUS`."""
    gpu = gpu_of(hardware)

    def cost(batch: int) -> float:
        return service_ms(runs, gpu, batch, bytes_per_parameter)

    configurations = []
    for batch in sorted({1, *batches}):
        batching = STATIC if batch == 1 else DYNAMIC
        maximum_hz = 1000 * batch / cost(batch)
        points = []
        for share in RATE_SHARES:
            seed = zlib.crc32(repr((model, batch, share)).encode())
            latencies = batch_latencies_ms(maximum_hz * share, batch, cost, JITTER, REQUESTS, seed)
            points.append(summarise(maximum_hz * share, latencies))
        sizes = [size for size in sorted({1, *batches}) if size <= batch]
        service = tuple(ServiceTime(size, cost(size)) for size in sizes)
        configurations.append(Configuration(batching, batch, maximum_hz, tuple(points), service, components))
    return Profile(
        SCHEMA,
        model,
        hardware,
        DERIVED,
        memory_mb(runs, bytes_per_parameter),
        gpu.memory_mb,
        tuple(configurations),
        command,
        _facts(runs, gpu, cost(1), bytes_per_parameter),
        {str(size): cost(size) for size in sorted({1, *batches})},
        every_size=True,
    )


def _facts(
    runs: Sequence[Run], gpu: DataSheet, one_ms: float, bytes_per_parameter: float
) -> tuple[Fact, ...]:
    told = ", ".join(map(str, runs))
    return (
        Fact("one request alone", f"{one_ms:.1f} ms", "derived", f"roofline of {told}"),
        Fact("runs", told, "assumed", "as given on the command line"),
        Fact(
            "peaks",
            f"{gpu.tflops:g} TFLOPS, {gpu.gb_s:g} GB/s, {gpu.memory_mb:g} MB",
            "published",
            "data sheet: dense, 16 bit",
        ),
        Fact(
            "share of the peaks",
            f"{ASSUMED.compute:.0%} of the arithmetic, {ASSUMED.bandwidth:.0%} of the bandwidth",
            "assumed",
            f"and {ASSUMED.overhead_ms:g} ms for each run; what a model's own code takes besides is not in it",
        ),
        Fact("weights", f"{bytes_per_parameter:g} bytes a parameter", "assumed", "2: 16 bit"),
        Fact(
            "memory",
            f"{memory_mb(runs, bytes_per_parameter):.0f} MB",
            "assumed",
            f"weights times {BUFFERS:g}",
        ),
        Fact("variation of one run", f"{JITTER:.0%}", "assumed", "kernels run in nearly constant time"),
        Fact(
            "latency under load",
            "per rate",
            "derived",
            f"simulation of {REQUESTS} requests: Poisson arrivals, one worker (queueing.py)",
        ),
    )
