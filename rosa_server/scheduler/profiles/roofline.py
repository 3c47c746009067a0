"""Profiles of models and GPUs that nobody has measured: a roofline of the data sheet, then a simulated queue.

A request is a few runs of networks: so many times, with so many parameters, over so many tokens. A run takes as long as
its arithmetic or as reading its weights does, whichever is longer, and a fixed time besides. Peaks are those of the
data sheets (dense, 16 bit); how much of them is reached is assumed. docs/bring_your_own.md compares it with published
figures.
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

COMPUTE_SHARE, BANDWIDTH_SHARE = 0.4, 0.7  # of the peaks
RUN_OVERHEAD_MS = 1.0
JITTER = 0.03  # variation of one run
BUFFERS = 1.3  # memory, times that of the weights
RATE_SHARES = tuple(step / 10 for step in range(1, 11))
REQUESTS = 10_000  # that are simulated at each rate
RUN = re.compile(r"(\d+)x(\d+(?:\.\d+)?(?:e\d+)?)x(\d+)")


@dataclass(frozen=True)
class DataSheet:
    """Of the data sheet: dense 16-bit TFLOPS, GB/s, MB."""

    tflops: float
    gb_s: float
    memory_mb: float


GPUS = {
    "h200": DataSheet(989.0, 4800.0, 141_000.0),
    "h100": DataSheet(989.0, 3350.0, 80_000.0),
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
    """`times` runs of a network with so many `parameters` over so many `tokens` of one request."""

    times: int
    parameters: float
    tokens: int


def run_from(text: str) -> Run:
    """`TIMESxPARAMETERSxTOKENS`, such as 10x0.3e9x51. Raises `ValueError`."""
    found = RUN.fullmatch(text)
    made = Run(int(found[1]), float(found[2]), int(found[3])) if found else Run(0, 0.0, 0)
    if not (made.times >= 1 and made.parameters >= 1 and made.tokens >= 1):
        raise ValueError(f"expected TIMESxPARAMETERSxTOKENS, such as 10x0.3e9x51, got {text!r}")
    return made


def gpu_of(hardware: str) -> DataSheet:
    """By the name of `server_cluster.gpu_type`. Raises `KeyError`."""
    return GPUS[hardware_folder(hardware)]


def service_ms(
    runs: Sequence[Run], gpu: DataSheet, batch: int = 1, bytes_per_parameter: float = 2.0
) -> float:
    """How long a batch takes on an idle GPU."""
    total = 0.0
    for run in runs:
        arithmetic = 2e3 * run.parameters * run.tokens * batch / (gpu.tflops * 1e12 * COMPUTE_SHARE)
        reading = 1e3 * run.parameters * bytes_per_parameter / (gpu.gb_s * 1e9 * BANDWIDTH_SHARE)
        total += run.times * (max(arithmetic, reading) + RUN_OVERHEAD_MS)
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
    told = ", ".join(f"{run.times} x {run.parameters:g} parameters x {run.tokens} tokens" for run in runs)
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
            f"{COMPUTE_SHARE:.0%} of the arithmetic, {BANDWIDTH_SHARE:.0%} of the bandwidth",
            "assumed",
            f"and {RUN_OVERHEAD_MS:g} ms for each run; what a model's own code takes besides is not in it",
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
