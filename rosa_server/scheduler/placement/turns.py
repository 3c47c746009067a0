"""Several models on one GPU, which runs one batch at a time: batch sizes that leave all in time, and their latencies.

A batch cannot be interrupted, so a call may wait for the longest batch of the others. Sizes are chosen so that any two
batches in a row keep both models' SLOs; what more of them in a row do is found by playing them through, with calls at
their rates and random gaps, by the rule of the gateway (`timing/turns.py`).

Robots are told when to call for System 1 and 2, and the GPU's next turn is theirs then. So where SLOs need not hold for
any arrivals, such a call waits for no other model (`Tenant.told`): only verdicts, which come whenever they are due, may
find a batch of it that runs.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from random import Random
from typing import NamedTuple

import numpy as np

from rosa_contract.config.tasks import GOAL_COUPLED, SYSTEM1
from rosa_server.scheduler.placement.packing import ServerKind
from rosa_server.scheduler.placement.servers import PlacedServer
from rosa_server.scheduler.profiles.catalog import Assessment, Catalog, Load
from rosa_server.scheduler.profiles.profile import DYNAMIC, IN_TURN
from rosa_server.timing.batches import RETURN_MARGIN_S, BatchProfile, in_time
from rosa_server.timing.turns import Turn, leaves_in_time, whose_turn

VARIATION = 0.03  # of one run: standard deviation, as a share
MAX_BUSY = 0.95  # of a GPU's time: beyond, calls wait for ever longer
TOLD_S = 0.02  # that a GPU may wait for calls of robots that were told
MIN_CALLS, MAX_CALLS = 300, 4000  # that are played through: of the rarest component, and of all
MAX_LATE = 0.03  # share of a component's calls: with more nothing else is looked at
WARM_UP = 0.05  # of the time, left out


@dataclass(frozen=True)
class Tenant:
    """One model for one component on a GPU of several, with the streams that it answers there."""

    kind: ServerKind
    loads: tuple[Load, ...]
    times: BatchProfile
    batch: int = 1
    told: bool = False  # its robots are told when to call, and their batch is next then

    @property
    def slo_s(self) -> float:
        """The tightest of its streams."""
        return min(load.slo_ms for load in self.loads) / 1000

    @property
    def rate_hz(self) -> float:
        return sum(load.streams * load.rate_hz for load in self.loads)

    @property
    def runs_s(self) -> float:
        """Of its largest batch."""
        return self.times.service_s(self.batch)

    @property
    def busy(self) -> float:
        """Share of the GPU's time that it needs with full batches."""
        return self.rate_hz * self.runs_s / self.batch


def tenant_of(catalog: Catalog, server: PlacedServer) -> Tenant | None:
    """A server's streams as those of a tenant; None where it answers several components."""
    if len(server.kind.components) != 1:
        return None
    (component,) = server.kind.components
    told = component in GOAL_COUPLED and not catalog.options.any_arrivals
    return Tenant(server.kind, server.loads, catalog.times(server.kind.model, component), told=told)


def with_batches(
    tenants: Sequence[Tenant], network_s: float = 0.0, largest: int | None = None
) -> list[Tenant] | None:
    """The tenants with the largest batches that keep each SLO after the longest of the others; None where not even
    single calls do. The busiest one grows first, none beyond its streams, and System 1 not beyond `largest`."""
    found = list(tenants)

    def kept(candidate: Sequence[Tenant]) -> bool:
        for index, one in enumerate(candidate):
            others = [
                other.runs_s + (TOLD_S if other.told else 0.0)
                for at, other in enumerate(candidate)
                if at != index
            ]
            before_s = 0.0 if one.told else max(others, default=0.0)
            if not in_time(before_s + one.runs_s, RETURN_MARGIN_S, one.slo_s - network_s):
                return False
        return True

    if not kept(found):
        return None
    growing = set(range(len(found)))
    while growing:
        index = max(growing, key=lambda each: found[each].busy)
        tenant = found[index]
        streams = sum(load.streams for load in tenant.loads)
        limit = (
            largest if largest is not None and SYSTEM1 in tenant.kind.components else max(tenant.times.sizes)
        )
        sizes = (size for size in tenant.times.sizes if tenant.batch < size <= limit)
        larger = list(sizes) if tenant.batch < streams else []
        grown = [*found[:index], replace(tenant, batch=min(larger)), *found[index + 1 :]] if larger else found
        if larger and grown[index].busy < tenant.busy and kept(grown):
            found = grown
        else:
            growing.remove(index)
    return found


def on_one_gpu(
    catalog: Catalog, tenants: Sequence[Tenant], largest: int | None = None
) -> list[PlacedServer] | None:
    """The tenants as servers with what is expected of them; None where memory, time or an SLO does not suffice.
    `largest`: batch of System 1."""
    if catalog.memory_mb(tenant.kind.model for tenant in tenants) > catalog.hardware_memory_mb:
        return None
    if len({tenant.kind for tenant in tenants}) < len(tenants):
        return None
    options = catalog.options
    batched = with_batches(tenants, options.network_ms / 1000, largest)
    if batched is None or sum(tenant.busy for tenant in batched) > MAX_BUSY:
        return None
    placed = []
    for tenant, taken in zip(batched, latencies_s(batched), strict=True):
        ms = [1000 * each + options.network_ms for each in taken.robots_s]
        slo_ms = _statistic(
            [1000 * each + options.network_ms for each in taken.calls_s], options.slo_statistic
        )
        if slo_ms > 1000 * tenant.slo_s:
            return None
        (component,) = tenant.kind.components
        configuration = replace(
            catalog.configurations(tenant.kind.model, component)[0], batching=DYNAMIC, batch=tenant.batch
        )
        loop_ms, mean_ms = _statistic(ms, options.loop_statistic), _statistic(ms, "mean")
        state = Assessment(
            configuration, tenant.busy, {component: mean_ms}, {component: loop_ms}, {component: slo_ms}
        )
        placed.append(PlacedServer(tenant.kind, tenant.loads, state))
    return placed


def _statistic(ms: Sequence[float], name: str) -> float:
    if not ms:
        return 0.0
    if name == "mean":
        return sum(ms) / len(ms)
    if name in IN_TURN:
        name = "p50"  # they are played through with random gaps
    return float(np.percentile(ms, float(name.removeprefix("p").replace("_", "."))))


class TakenTimes(NamedTuple):
    """How long the calls of a tenant took: from when their robots were ready, and from when they were told to call."""

    robots_s: list[float]
    calls_s: list[float]


def latencies_s(tenants: Sequence[Tenant], seed: int = 0) -> list[TakenTimes]:
    """How long the calls of each tenant take; longer than the SLO for those that are given up at their deadline.

    Each stream has one call open at most; the next one comes a random time, of its period on average, after the last
    one was sent. Deterministic for its `seed`.
    """
    if min(tenant.rate_hz for tenant in tenants) <= 0:
        return [TakenTimes([], []) for _ in tenants]
    return _Play(tenants, seed).run()


class _Play:
    """One GPU played through."""

    def __init__(self, tenants: Sequence[Tenant], seed: int) -> None:
        self._tenants, self._rng = tenants, Random(seed)
        rates_hz = [tenant.rate_hz for tenant in tenants]
        self._until_s = min(MIN_CALLS / min(rates_hz), MAX_CALLS / sum(rates_hz))
        self._number = 0
        # When this many were given up at their deadlines, it is clear that this GPU does not suffice.
        self._patience = [max(2, ceil(MAX_LATE * rate_hz * self._until_s)) for rate_hz in rates_hz]
        self._comes: list[tuple[float, int, int, Load]] = []  # (when, number, tenant, its stream)
        # By tenant: (due, number, came, its stream).
        self._waiting: list[list[tuple[float, int, float, Load]]] = [[] for _ in tenants]
        self._taken = [TakenTimes([], []) for _ in tenants]
        for index, tenant in enumerate(tenants):
            for load in tenant.loads:
                for _ in range(load.streams):
                    self._comes_after(0.0, 0.0, index, load)

    def run(self) -> list[TakenTimes]:
        now_s = 0.0
        while now_s < self._until_s:
            while self._comes and self._comes[0][0] <= now_s:
                came_s, number, index, load = heapq.heappop(self._comes)
                heapq.heappush(self._waiting[index], (came_s + load.slo_ms / 1000, number, came_s, load))
            for index, calls in enumerate(self._waiting):
                while calls and calls[0][0] <= now_s and not self._tenants[index].told:
                    self._ends(now_s, index, calls[0][2], calls[0][3].slo_ms / 1000)
                    self._patience[index] -= 1
            if min(self._patience) <= 0:
                break
            turns = self._turns(now_s)
            if not turns:
                now_s = self._comes[0][0]
                continue
            index, count, turn = turns[whose_turn(now_s, [turn for _, _, turn in turns])]
            begun_s = now_s
            now_s += turn.runs_s * (1 + VARIATION * max(-3.0, min(3.0, self._rng.gauss(0.0, 1.0))))
            for _ in range(count):
                began_s = begun_s if self._tenants[index].told else self._waiting[index][0][2]
                self._ends(now_s, index, began_s)
        return self._taken

    def _turns(self, now_s: float) -> list[tuple[int, int, Turn]]:
        """The batches that may run now. Robots are told to call where that leaves all others in time."""
        waiting = [index for index, calls in enumerate(self._waiting) if calls]
        found = [self._turn(now_s, index) for index in waiting if not self._tenants[index].told]
        others = [turn for _, _, turn in found]
        told = [self._turn(now_s, index) for index in waiting if self._tenants[index].told]
        return [*found, *(each for each in told if leaves_in_time(now_s, each[2].runs_s, others))]

    def _turn(self, now_s: float, index: int) -> tuple[int, int, Turn]:
        """The batch that a tenant would run, and of how many calls."""
        tenant, calls = self._tenants[index], self._waiting[index]
        count = tenant.times.best_count(min(tenant.batch, len(calls)))
        first = heapq.nsmallest(count, calls)
        came_s = min(came_s for _, _, came_s, _ in first)
        due_s = now_s + tenant.slo_s if tenant.told else first[0][0]
        return index, count, Turn(came_s, due_s - RETURN_MARGIN_S, tenant.times.service_s(count))

    def _ends(self, now_s: float, index: int, began_s: float, late_s: float = 0.0) -> None:
        """The call that is due first has its answer, or is given up; its deadline ran since `began_s`."""
        _, _, came_s, load = heapq.heappop(self._waiting[index])
        if came_s >= WARM_UP * self._until_s:
            self._taken[index].robots_s.append(now_s - came_s + late_s)
            self._taken[index].calls_s.append(now_s - began_s + late_s)
        self._comes_after(now_s, came_s, index, load)

    def _comes_after(self, now_s: float, came_s: float, index: int, load: Load) -> None:
        self._number += 1
        next_s = max(now_s, came_s + self._rng.expovariate(load.rate_hz))
        heapq.heappush(self._comes, (next_s, self._number, index, load))
