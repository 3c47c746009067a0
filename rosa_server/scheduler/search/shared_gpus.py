"""Placements in which models share GPUs and take turns on them: for factories with fewer GPUs than models, and for
models that hardly use one of their own.

Streams are first packed on as few servers as possible, as if each had a GPU to itself. These servers are then put
together on GPUs, the busiest first, each on the first GPU where memory and every SLO allow it (`placement/turns.py`).
Rates are one common share of every task's fastest rate, the largest that fits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from rosa_server.scheduler.bisection import bisect
from rosa_server.scheduler.placement.packing import Packer
from rosa_server.scheduler.placement.schedule import Schedule
from rosa_server.scheduler.placement.servers import (
    PlacedServer,
    demands_of,
    fastest_rate_hz,
    kinds_of,
    latencies_ms,
    loop_rate_hz,
    placed_servers,
)
from rosa_server.scheduler.placement.standby import with_standby
from rosa_server.scheduler.placement.to_schedule import build_schedule
from rosa_server.scheduler.placement.turns import on_one_gpu, tenant_of
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.search.impossible import impossible

NAME = "rosa"
RATE_STEPS = 7
SLOWEST = 0.01  # of a task's fastest rate: less is no service
LEVELS = (
    1.0,
    0.7,
    0.5,
    0.35,
)  # how full GPUs of several models may be: the first that leaves rounds short enough
BATCHES = (1, 2, 4, None)  # of System 1 on a shared GPU, at most; none: as large as SLOs allow
Gpu = list[PlacedServer]


def batches(problem: Problem) -> list[int | None]:
    """The bounds of System 1's batch on a shared GPU that are worth a try: no batch is larger than its robots."""
    return [largest for largest in BATCHES if largest is None or largest < problem.robots]


def solve_shared(
    problem: Problem,
    library: ProfileLibrary,
    options: Options,
    clock: Callable[[], float] = lambda: 0.0,
    largest: int | None = None,
) -> Schedule | None:
    """The schedule with shared GPUs whose common share of the fastest rates is the largest; None where none is found.

    `largest`: batch of System 1 on shared GPUs. The larger, the more calls a GPU carries, and the longer each of them
    takes: which is better depends on how often robots then act, which the rates for any arrivals do not tell.
    """
    options = replace(options, share_gpus=True, share_components=False)
    catalog = Catalog(problem, library, options)
    if impossible(catalog, problem):
        return None
    gpus = problem.servers - options.standby
    ends_s = clock() + options.time_budget_s

    def placed(share: float) -> tuple[dict[str, float], list[Gpu]] | None:
        rates = shared_rates(catalog, problem, share)
        found = None if clock() > ends_s else place_on_gpus(catalog, problem, rates, gpus, largest)
        return None if found is None else (rates, found)

    lowest = placed(SLOWEST)
    if lowest is None:
        return None
    rates, found = bisect(placed, 0.0, 1.0, lowest, RATE_STEPS)[1]
    schedule = replace(on_gpus(catalog, problem, found, rates), options=options.changes())
    return with_standby(schedule, problem, library, options.standby)


def shared_rates(catalog: Catalog, problem: Problem, share: float) -> dict[str, float]:
    """Every task at this share of its fastest rate, or at its minimum rate where that is higher."""
    return {cls.name: max(cls.min_rate_hz, share * fastest_rate_hz(catalog, cls)) for cls in problem.classes}


def gpus_needed(
    problem: Problem, library: ProfileLibrary, options: Options, share_of_fastest: float
) -> int | None:
    """GPUs for every SLO and minimum rate, or for this share of every task's fastest rate where that is more; None
    where none suffice, and with a standby: it covers servers with a GPU to themselves only, and on so few GPUs there
    may be none."""
    if options.standby:
        return None
    catalog = Catalog(problem, library, replace(options, share_gpus=True, share_components=False))
    if impossible(catalog, problem):
        return None
    rates_hz = shared_rates(catalog, problem, max(SLOWEST, share_of_fastest))
    found = [place_on_gpus(catalog, problem, rates_hz, inf, largest) for largest in batches(problem)]
    return min((len(gpus) for gpus in found if gpus is not None), default=None)


def place_on_gpus(
    catalog: Catalog,
    problem: Problem,
    rates_hz: Mapping[str, float],
    gpus: float,
    largest: int | None = None,
) -> list[Gpu] | None:
    """Servers that carry these rates within every SLO and equation (4), on at most `gpus` GPUs; None where none are
    found."""
    servers = _servers(catalog, problem, rates_hz)
    if servers is None:
        return None
    for level in LEVELS:
        found = _grouped(catalog, servers, level, largest)
        if len(found) > gpus:
            return None  # less full ones are more
        latency = latencies_ms([server for gpu in found for server in gpu])
        if all(rates_hz[c.name] <= loop_rate_hz(c, latency) * (1 + 1e-9) for c in problem.classes):
            return found
    return None


def _servers(catalog: Catalog, problem: Problem, rates_hz: Mapping[str, float]) -> list[PlacedServer] | None:
    """As few servers as possible for all components, full ones first, so that what is left shares."""
    found: list[PlacedServer] = []
    for kind in kinds_of(problem, share_components=False):
        packer = Packer(catalog, kind, demands_of(problem, kind, rates_hz))
        if packer.min_servers() == inf:
            return None
        placed = placed_servers(catalog, kind, packer.compacted())
        if placed is None:
            return None
        found += placed
    return found


def _grouped(
    catalog: Catalog, servers: Sequence[PlacedServer], level: float, largest: int | None
) -> list[Gpu]:
    """The servers on GPUs, busiest first; several on one only up to this share of its time."""
    found: list[Gpu] = []
    for server in sorted(servers, key=lambda each: -each.state.utilisation):
        for number, gpu in enumerate(found):
            together = _together(catalog, [*gpu, server], level, largest)
            if together is not None:
                found[number] = together
                break
        else:
            found.append([server])
    return found


def _together(
    catalog: Catalog, servers: Sequence[PlacedServer], level: float, largest: int | None
) -> Gpu | None:
    tenants = [tenant for server in servers if (tenant := tenant_of(catalog, server)) is not None]
    if len(tenants) < len(servers):
        return None
    found = on_one_gpu(catalog, tenants, largest)
    return None if found is None or sum(server.state.utilisation for server in found) > level else found


@dataclass(frozen=True)
class _Name:
    server: str
    gpu: str


def on_gpus(
    catalog: Catalog, problem: Problem, gpus: Sequence[Gpu], rates_hz: Mapping[str, float]
) -> Schedule:
    """The schedule of these GPUs: `gpu0` with one model, `gpu1-safety` and `gpu1-monitor` on another."""
    flat = [server for gpu in gpus for server in gpu]
    names = [name for number, gpu in enumerate(gpus) for name in _named(number, gpu)]
    plain = build_schedule(catalog, problem, flat, rates_hz, NAME)
    renamed = {server.id: name.server for server, name in zip(plain.servers, names, strict=True)}
    return replace(
        plain,
        servers=tuple(
            replace(server, id=name.server, gpu=name.gpu)
            for server, name in zip(plain.servers, names, strict=True)
        ),
        routing={
            slot: {component: renamed[server] for component, server in routes.items()}
            for slot, routes in plain.routing.items()
        },
        idle_servers=problem.servers - len(gpus),
    )


def _named(number: int, gpu: Gpu) -> list[_Name]:
    """The servers of one GPU by what they answer; with a number, where several models answer the same."""
    if len(gpu) == 1:
        return [_Name(f"gpu{number}", "")]
    answers = ["-".join(server.kind.components) for server in gpu]
    names = [
        f"{name}-{answers[:at].count(name) + 1}" if answers.count(name) > 1 else name
        for at, name in enumerate(answers)
    ]
    return [_Name(f"gpu{number}-{name}", f"gpu{number}") for name in names]
