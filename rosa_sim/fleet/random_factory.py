"""Factories that nobody tuned anything for: tasks, models, profiles and fleets drawn at random, the same for a seed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import exp, log
from random import Random
from typing import Any

from rosa_contract.config.factory import Factory, factory_from
from rosa_contract.config.tasks import GOAL_COUPLED, SYSTEM1, SYSTEM2
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.profile import (
    CONTINUOUS,
    DYNAMIC,
    SCHEMA,
    STATIC,
    Configuration,
    LatencyPoint,
    Profile,
    ServiceTime,
)
from rosa_server.scheduler.profiles.queueing import (
    TokenModel,
    batch_latencies_ms,
    continuous_latencies_ms,
    summarise,
)

HARDWARE = "NVIDIA RANDOM"
OTHERS = (SYSTEM2, "safety", "monitor", "inspector")
SIZES = (1, 2, 4, 8, 16)  # of batches that have a graph
RATE_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # of the greatest throughput
REQUESTS, JITTER = 1500, 0.03  # requests of each point of a profile; variation of one run
FALLBACKS = {SYSTEM1: "stop_and_resend", SYSTEM2: "use_last_plan", "safety": "stop_and_replan"}


@dataclass(frozen=True)
class RandomFactory:
    """A factory with the profiles of its models."""

    seed: int
    factory: Factory
    library: ProfileLibrary
    document: dict[str, Any]  # the factory file


def random_factory(seed: int, max_robots: int = 120, max_servers: int = 20) -> RandomFactory:
    """2 to 6 tasks with 2 to 5 components on 3 servers or more, with 5 robots or more."""
    rng = Random(f"factory {seed}")
    names = [SYSTEM1, *OTHERS]
    action_ms = _log_uniform(rng, 15, 60)
    profiles = {"act/A0": _action_model(rng, seed, action_ms)}
    model_of = {SYSTEM1: "act/A0"}
    alone_ms = {SYSTEM1: action_ms}
    shared = rng.random() < 0.4  # a verdict's model also answers others
    for name in OTHERS:
        model = "vlm/shared" if shared and name in ("safety", "inspector") else f"vlm/{name}"
        model_of[name] = model
        if model not in profiles:
            profiles[model] = _token_model(rng, seed, model, plans=name == SYSTEM2)
        alone_ms[name] = profiles[model].configurations[0].service[0].ms
    document: dict[str, Any] = {}
    tasks = [f"task_{number}" for number in range(rng.randint(2, 6))]
    for task in tasks:
        others = rng.sample(OTHERS, rng.randint(1, 4))
        document[task] = _task(rng, [name for name in names if name == SYSTEM1 or name in others], model_of)
        for name, part in document[task]["components"].items():
            tight = (1.8, 6.0) if name in GOAL_COUPLED else (2.0, 8.0)
            part["slo_ms"] = round(alone_ms[name] * _log_uniform(rng, *tight))
        if SYSTEM2 in others:
            ratio = rng.choice([0.05, 0.1, 0.1, 0.2, 0.5, 1.0])
            document[task]["pipeline"]["system2_to_system1_call_ratio"] = ratio
        if rng.random() < 0.3:
            document[task]["value_weight"] = rng.choice([0.5, 2, 3])
    robots = max(len(tasks), round(_log_uniform(rng, 5, max_robots)))
    counts = _counts(rng, robots, tasks)
    models = {part["model"] for task in tasks for part in document[task]["components"].values()}
    lowest = max(3, len(models), robots // 12)
    servers = rng.randint(min(lowest, max_servers), max_servers)
    return _drawn(f"random factory {seed}", seed, document, counts, servers, profiles)


def random_lab(seed: int) -> RandomFactory:
    """1 to 4 tasks with 1 to 4 components and 1 to 10 robots on 1 to 3 servers, which models mostly have to share.

    Two models may answer System 1, SLOs go from tight to generous, and periods from 30 to 1,500 ms.
    """
    rng = Random(f"lab {seed}")
    acts = [(f"act/A{number}", _log_uniform(rng, 8, 90)) for number in range(rng.randint(1, 2))]
    profiles = {name: _action_model(rng, seed, ms, name) for name, ms in acts}
    for name in OTHERS:
        profiles[f"vlm/{name}"] = _token_model(rng, seed, f"vlm/{name}", plans=name == SYSTEM2)
    document: dict[str, Any] = {}
    tasks = [f"task_{number}" for number in range(rng.randint(1, 4))]
    for task in tasks:
        others = rng.sample(OTHERS, rng.randint(0, 3))
        model_of = {SYSTEM1: rng.choice(acts)[0], **{name: f"vlm/{name}" for name in OTHERS}}
        names = [SYSTEM1, *(name for name in OTHERS if name in others)]
        document[task] = _task(rng, names, model_of)
        document[task]["pipeline"]["action_period_ms"] = round(_log_uniform(rng, 30, 1500))
        for part in document[task]["components"].values():
            alone_ms = profiles[part["model"]].configurations[0].service[0].ms
            part["slo_ms"] = round(alone_ms * _log_uniform(rng, 2.5, 20))
        if SYSTEM2 in others:
            ratio = rng.choice([0.02, 0.1, 0.5, 1.0])
            document[task]["pipeline"]["system2_to_system1_call_ratio"] = ratio
    robots = rng.randint(len(tasks), max(len(tasks), rng.choice([4, 10])))
    counts = _counts(rng, robots, tasks)
    return _drawn(f"random lab {seed}", seed, document, counts, rng.randint(1, 3), profiles)


def _counts(rng: Random, robots: int, tasks: list[str]) -> dict[str, int]:
    """The robots of each task, one at least."""
    cuts = sorted(rng.sample(range(1, robots), len(tasks) - 1))
    return {task: high - low for task, low, high in zip(tasks, [0, *cuts], [*cuts, robots], strict=True)}


def _drawn(
    name: str,
    seed: int,
    document: dict[str, Any],
    counts: dict[str, int],
    servers: int,
    profiles: dict[str, Profile],
) -> RandomFactory:
    """With a fleet, servers, and the profiles of the models that are used."""
    models = {part["model"] for task in counts for part in document[task]["components"].values()}
    document["server_cluster"] = {"num_servers": servers, "gpu_type": HARDWARE}
    document["robot_fleet"] = [{"task": task, "num_robots": count} for task, count in counts.items()]
    library = ProfileLibrary(profiles=[profile for model, profile in profiles.items() if model in models])
    return RandomFactory(seed, factory_from(document, name), library, document)


def _log_uniform(rng: Random, low: float, high: float) -> float:
    return exp(rng.uniform(log(low), log(high)))


def _task(rng: Random, names: list[str], model_of: dict[str, str]) -> dict[str, Any]:
    components: dict[str, Any] = {}
    for name in names:
        fallback = FALLBACKS.get(name, "stop_and_resend")
        components[name] = {"model": model_of[name], "prompt": name, "fallback": fallback}
        if name not in GOAL_COUPLED:
            components[name]["freq_hz"] = rng.choice([0.2, 0.5, 1, 2, 3])
    return {
        "pipeline": {"action_period_ms": round(_log_uniform(rng, 80, 1000))},
        "components": components,
    }


def _action_model(rng: Random, seed: int, alone_ms: float, model: str = "act/A0") -> Profile:
    """Batches of fixed sizes. Twice the batch takes between hardly longer and twice as long."""
    times = {1: alone_ms}
    for low, high in pairwise(SIZES):
        times[high] = times[low] * rng.uniform(1.15, 1.75)
    configurations = []
    for batching, sizes in ((STATIC, SIZES), (DYNAMIC, SIZES[1:])):
        for batch in sizes:
            known = [batch] if batching == STATIC else [size for size in SIZES if size <= batch]

            def runs_ms(count: int, known: list[int] = known) -> float:
                return times[next(size for size in known if size >= count)]

            max_hz = 1000 * batch / times[batch]
            points: list[LatencyPoint] = []
            for share in RATE_SHARES:
                found = batch_latencies_ms(max_hz * share, batch, runs_ms, JITTER, REQUESTS, seed)
                points.append(summarise(max_hz * share, found))
            service = tuple(ServiceTime(size, times[size]) for size in known)
            configurations.append(
                Configuration(batching, batch, max_hz, tuple(points), service, components=(SYSTEM1,))
            )
    return _profile(model, tuple(configurations))


def _token_model(rng: Random, seed: int, model: str, plans: bool) -> Profile:
    """A vision-language model that batches continuously: long answers of a planner, short verdicts."""
    tokens = TokenModel(
        prefill_ms=_log_uniform(rng, 4, 25),
        step_ms=_log_uniform(rng, 5, 14),
        step_per_request_ms=_log_uniform(rng, 0.1, 0.6),
        overhead_ms=rng.uniform(5, 20),
        tokens=rng.randint(15, 50) if plans else rng.randint(1, 6),
        token_spread=0.2,
        max_running=rng.choice([16, 32, 64]),
    )
    max_hz = tokens.max_throughput_hz()
    points = []
    for share in RATE_SHARES:
        latencies = continuous_latencies_ms(max_hz * share, tokens, REQUESTS, seed)
        points.append(summarise(max_hz * share, latencies))
    service = tuple(ServiceTime(size, tokens.alone_ms(size)) for size in (1, 2, 4, 8, 16, 32))
    one = Configuration(
        CONTINUOUS, tokens.max_running, max_hz, tuple(points), service, prefill_ms=tokens.prefill_ms
    )
    return _profile(model, (one,))


def _profile(model: str, configurations: tuple[Configuration, ...]) -> Profile:
    widest = max(configurations, key=lambda each: len(each.service)).service
    times = {str(one.size): one.ms for one in widest}
    return Profile(
        SCHEMA, model, HARDWARE, "derived", 9000.0, 141_000.0, configurations, batch_latency_ms=times
    )
