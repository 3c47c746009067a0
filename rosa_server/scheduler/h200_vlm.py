"""The VLMs of `configs/profiles/h200/`: a roofline of the data sheet, then a simulation of continuous batching."""

from __future__ import annotations

from rosa_server.scheduler.h200 import COMMAND, GPU_MEMORY_MB, HARDWARE, RATE_SHARES, seed_of
from rosa_server.scheduler.h200_system1 import system1_service_ms
from rosa_server.scheduler.profiles import (
    CONTINUOUS,
    SCHEMA,
    Configuration,
    Fact,
    LatencyPoint,
    Profile,
    ServiceTime,
)
from rosa_server.scheduler.queueing import TokenModel, continuous_latencies_ms, summarise

# --- VLMs: a roofline of the data sheet (989 TFLOPS dense BF16, 4.8 TB/s) with assumed efficiencies
TFLOPS, EFFICIENCY_COMPUTE = 989.0, 0.4
BANDWIDTH_GB_S, EFFICIENCY_BANDWIDTH = 4800.0, 0.7
STEP_OVERHEAD_MS = 1.0  # vLLM's own time per iteration
REQUEST_OVERHEAD_MS = 10.0  # image preprocessing, tokenizer, HTTP
IMAGE_TOKENS, PROMPT_TOKENS = 391, 60  # one 640x480 image: 23 x 17 tokens of 28 x 28 pixels
VISION_PARAMETERS_G = 0.675  # Qwen2.5-VL technical report: the same ViT in 3B and 7B, 4 patches a token
LANGUAGE_PARAMETERS_G = {"Qwen2.5-VL-7B-Instruct": 7.6, "Qwen2.5-VL-3B-Instruct": 3.09}
VERDICT_TOKENS = {"monitor": 3, "safety": 2}


def token_model(model: str, tokens: int, spread: float) -> TokenModel:
    """Roofline of one VLM: prefill is bound by compute, a decoding iteration by reading the weights."""
    language = LANGUAGE_PARAMETERS_G[model]
    length = IMAGE_TOKENS + PROMPT_TOKENS
    gflop = 2 * language * length + 2 * VISION_PARAMETERS_G * 4 * IMAGE_TOKENS
    prefill_ms = gflop / (TFLOPS * EFFICIENCY_COMPUTE)
    step_ms = 2 * language / (BANDWIDTH_GB_S * EFFICIENCY_BANDWIDTH) * 1000 + STEP_OVERHEAD_MS
    return TokenModel(prefill_ms, step_ms, 0.03, REQUEST_OVERHEAD_MS, tokens, spread, 64)


def plan_tokens(model: str) -> int:
    """Answer length of System 2 that gives the published latency alone."""
    _, alone_ms = system1_service_ms()
    base = token_model(model, 0, 0.0)
    return round((alone_ms - base.alone_ms()) / (base.step_ms + base.step_per_request_ms))


def vlm(model: str, tokens: dict[str, int], memory_mb: float, requests: int) -> Profile:
    configurations = []
    facts: list[Fact] = []
    for component, count in tokens.items():
        worker = token_model(model, count, 0.3)
        maximum_hz = worker.max_throughput_hz()
        points: list[LatencyPoint] = []
        for share in RATE_SHARES:
            rate = maximum_hz * share
            seed = seed_of(model, component, share)
            points.append(summarise(rate, continuous_latencies_ms(rate, worker, requests, seed)))
        service = tuple(ServiceTime(size, worker.alone_ms(size)) for size in (1, 2, 4, 8, 16, 32))
        configurations.append(Configuration(CONTINUOUS, 64, maximum_hz, tuple(points), service, (component,)))
        source = (
            "fitted: the length that gives System 2 its published latency alone (ROSA 4.2, see the System 1 profile)"
            if component == "system2"
            else "one-word verdict"
        )
        facts.append(
            Fact(
                f"answer length of {component}",
                f"{count} tokens +-30 %",
                "derived" if component == "system2" else "assumed",
                source,
            )
        )
    worker = token_model(model, 1, 0.0)
    facts += [
        Fact(
            "prefill of one request",
            f"{worker.prefill_ms:.1f} ms",
            "derived",
            f"2 x parameters x tokens ({LANGUAGE_PARAMETERS_G[model]} G x {IMAGE_TOKENS + PROMPT_TOKENS}, vision"
            f" {VISION_PARAMETERS_G} G x {4 * IMAGE_TOKENS} patches) at {EFFICIENCY_COMPUTE:.0%} of 989 TFLOPS",
        ),
        Fact(
            "one decoding iteration",
            f"{worker.step_ms:.1f} ms",
            "derived",
            f"16-bit weights read once at {EFFICIENCY_BANDWIDTH:.0%} of 4.8 TB/s, and {STEP_OVERHEAD_MS:g} ms for vLLM",
        ),
        Fact(
            "per request outside the GPU loop",
            f"{REQUEST_OVERHEAD_MS:g} ms",
            "assumed",
            "preprocessing, HTTP",
        ),
        Fact("image", "640 x 480", "assumed", "391 tokens of 28 x 28 pixels; prompt 60 tokens"),
        Fact(
            "efficiencies",
            "40 % of compute, 70 % of bandwidth",
            "assumed",
            "usual for dense 16-bit inference",
        ),
        Fact(
            "latency under load",
            "per rate",
            "derived",
            "simulation of continuous batching, Poisson (queueing.py)",
        ),
    ]
    return Profile(
        SCHEMA,
        model,
        HARDWARE,
        "derived",
        memory_mb,
        GPU_MEMORY_MB,
        tuple(configurations),
        COMMAND,
        tuple(facts),
        {str(entry.size): entry.ms for entry in configurations[0].service},  # of the first component
    )
