"""The VLMs of `configs/profiles/h200/`: a roofline of the data sheet, then a simulation of continuous batching."""

from __future__ import annotations

from rosa_server.scheduler.profiles.profile import (
    CONTINUOUS,
    SCHEMA,
    Configuration,
    Fact,
    LatencyPoint,
    Profile,
    ServiceTime,
)
from rosa_server.scheduler.profiles.queueing import TokenModel, continuous_latencies_ms, summarise
from scripts.h200.hardware import (
    COMMAND,
    GPU_MEMORY_MB,
    HARDWARE,
    HARDWARE_MEMORY,
    RATE_SHARES,
    seed_of,
)
from scripts.h200.system1 import system1_service_ms

# --- VLMs: a roofline of the data sheet (989 TFLOPS dense BF16, 4.8 TB/s) with assumed efficiencies
TFLOPS, EFFICIENCY_COMPUTE = 989.0, 0.4
BANDWIDTH_GB_S, EFFICIENCY_BANDWIDTH = 4800.0, 0.7
STEP_OVERHEAD_MS = 1.0  # vLLM's own time per iteration
STEP_PER_REQUEST_MS = 0.03  # more per running request: its KV cache is read, a token is sampled
MAX_RUNNING = 64  # requests in one iteration
REQUEST_OVERHEAD_MS = 10.0  # image preprocessing, tokenizer, HTTP
IMAGE_TOKENS, PROMPT_TOKENS = 391, 60  # one 640x480 image: 23 x 17 tokens of 28 x 28 pixels
VISION_PARAMETERS_G = 0.675  # Qwen2.5-VL technical report: the same ViT in 3B and 7B, 4 patches a token
LANGUAGE_PARAMETERS_G = {"Qwen2.5-VL-7B-Instruct": 7.6, "Qwen2.5-VL-3B-Instruct": 3.09}
MEMORY_MB = {"Qwen2.5-VL-7B-Instruct": 24_000.0, "Qwen2.5-VL-3B-Instruct": 12_000.0}
VERDICT_TOKENS = {"monitor": 3, "safety": 2}


def token_model(model: str, tokens: int, spread: float) -> TokenModel:
    """Roofline of one VLM: prefill is bound by compute, a decoding iteration by reading the weights."""
    language = LANGUAGE_PARAMETERS_G[model]
    length = IMAGE_TOKENS + PROMPT_TOKENS
    gflop = 2 * language * length + 2 * VISION_PARAMETERS_G * 4 * IMAGE_TOKENS
    prefill_ms = gflop / (TFLOPS * EFFICIENCY_COMPUTE)
    step_ms = 2 * language / (BANDWIDTH_GB_S * EFFICIENCY_BANDWIDTH) * 1000 + STEP_OVERHEAD_MS
    return TokenModel(
        prefill_ms, step_ms, STEP_PER_REQUEST_MS, REQUEST_OVERHEAD_MS, tokens, spread, MAX_RUNNING
    )


def plan_tokens(model: str) -> int:
    """Answer length of System 2 that gives the published latency alone."""
    _, alone_ms = system1_service_ms()
    base = token_model(model, 0, 0.0)
    return round((alone_ms - base.alone_ms()) / (base.step_ms + base.step_per_request_ms))


def vlm(model: str, tokens: dict[str, int], requests: int) -> Profile:
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
        configurations.append(
            Configuration(
                CONTINUOUS,
                MAX_RUNNING,
                maximum_hz,
                tuple(points),
                service,
                (component,),
                prefill_ms=worker.prefill_ms,
            )
        )
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
            f"simulation of {requests} requests: continuous batching, Poisson arrivals (queueing.py)",
        ),
        Fact(
            "more per running request in an iteration",
            f"{STEP_PER_REQUEST_MS:g} ms",
            "assumed",
            f"its KV cache of {IMAGE_TOKENS + PROMPT_TOKENS} tokens is read in about 0.01 ms; the rest is sampling",
        ),
        Fact("running requests", f"{MAX_RUNNING} at most", "assumed", "as vLLM's max_num_seqs would be set"),
        Fact(
            "memory",
            f"{MEMORY_MB[model]:g} MB",
            "assumed",
            f"{LANGUAGE_PARAMETERS_G[model] + VISION_PARAMETERS_G:g} G parameters in 16 bit are"
            f" {2 * (LANGUAGE_PARAMETERS_G[model] + VISION_PARAMETERS_G):.1f} GB; the rest is for KV cache and buffers",
        ),
        HARDWARE_MEMORY,
    ]
    return Profile(
        SCHEMA,
        model,
        HARDWARE,
        "derived",
        MEMORY_MB[model],
        GPU_MEMORY_MB,
        tuple(configurations),
        COMMAND,
        tuple(facts),
        {str(entry.size): entry.ms for entry in configurations[0].service},  # of the first component
    )
