"""Raising class rates on a fixed placement, as far as SLOs and equation (4) allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rosa_server.scheduler.placement.placement import Worker, fastest_rate_hz, loop_rate_hz
from rosa_server.scheduler.problem import Need, Problem
from rosa_server.scheduler.profiles.catalog import Catalog

PASSES, STEPS = 2, 7
Sums = dict[tuple[str, str], float]
Needs = dict[tuple[str, str], Need]


def polish(
    catalog: Catalog, problem: Problem, rates_hz: dict[str, float], workers: Sequence[Worker]
) -> tuple[dict[str, float], list[Worker]]:
    """Rates no lower than `rates_hz`, and the workers under them. Placement and streams stay.

    Classes are raised one after the other, those with the most value per unit of server time first, by bisection. Only
    the workers that the class uses are assessed again, and equation (4) is checked for every class on them.
    """
    classes = {cls.name: cls for cls in problem.classes}
    needs = {(cls.name, need.component): need for cls in problem.classes for need in cls.needs}
    rates = dict(rates_hz)
    state = [_at(catalog, needs, worker, rates) for worker in workers]
    assert all(worker is not None for worker in state), (
        "rates below those of the placement cannot break an SLO"
    )
    current = [worker for worker in state if worker is not None]
    uses = {
        name: [i for i, w in enumerate(current) if any(x.task == name for x in w.loads)] for name in classes
    }
    waiting = _waiting(current)
    order = sorted(classes.values(), key=lambda cls: -cls.weight / sum(n.calls_per_action for n in cls.goals))
    for _ in range(PASSES):
        for cls in order:
            low, high = rates[cls.name], fastest_rate_hz(catalog, cls)
            for _ in range(STEPS):
                if high - low < 1e-3 * high:
                    break
                trial = {**rates, cls.name: (low + high) / 2}
                moved = [_at(catalog, needs, current[i], trial) for i in uses[cls.name]]
                found = [worker for worker in moved if worker is not None]
                if len(found) < len(moved):
                    high = trial[cls.name]
                    continue
                sums = _changed(waiting, [current[i] for i in uses[cls.name]], found)
                touched = {load.task for worker in found for load in worker.loads}
                if all(trial[name] <= _loop(problem, sums, name) for name in touched):
                    rates, waiting, low = trial, sums, trial[cls.name]
                    for i, worker in zip(uses[cls.name], found, strict=True):
                        current[i] = worker
                else:
                    high = trial[cls.name]
    return rates, current


def _at(catalog: Catalog, needs: Needs, worker: Worker, rates: dict[str, float]) -> Worker | None:
    loads = [
        replace(load, rate_hz=needs[(load.task, load.component)].rate_hz(rates[load.task]))
        for load in worker.loads
    ]
    state = catalog.assess(worker.kind.model, loads)
    return None if state is None else Worker(worker.kind, tuple(loads), state)


def _waiting(workers: Sequence[Worker]) -> Sums:
    """(task, component) -> streams times latency, ms."""
    sums: Sums = {}
    for worker in workers:
        for load in worker.loads:
            key = (load.task, load.component)
            sums[key] = sums.get(key, 0.0) + load.streams * worker.state.loop_ms[load.component]
    return sums


def _changed(sums: Sums, before: Sequence[Worker], after: Sequence[Worker]) -> Sums:
    result = dict(sums)
    for sign, workers in ((-1.0, before), (1.0, after)):
        for key, value in _waiting(workers).items():
            result[key] += sign * value
    return result


def _loop(problem: Problem, sums: Sums, name: str) -> float:
    cls = next(cls for cls in problem.classes if cls.name == name)
    return loop_rate_hz(cls, {(name, n.component): sums[(name, n.component)] / cls.robots for n in cls.goals})
