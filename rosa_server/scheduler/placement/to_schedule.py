"""From a placement to a schedule: names for servers, a route for every (robot, component), predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from rosa_server.scheduler.placement.placement import Worker, fastest_rate_hz, latencies_ms, loop_rate_hz
from rosa_server.scheduler.problem import Problem, TaskClass
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.schedule import RobotCounter, Schedule, ServerPlan


def build_schedule(
    catalog: Catalog,
    problem: Problem,
    workers: Sequence[Worker],
    rates_hz: Mapping[str, float],
    scheduler: str,
) -> Schedule:
    """A feasible schedule of these workers. Robots of a task are routed in order, so neighbours share servers."""
    counter = RobotCounter()
    routing: dict[str, dict[str, str]] = {
        f"{c.name}/{i}": {} for c in problem.classes for i in range(c.robots)
    }
    servers = []
    for index, worker in enumerate(workers):
        server = server_plan(f"gpu{index}", worker)
        servers.append(server)
        for load in worker.loads:
            for robot in counter.take(load.task, load.component, load.streams):
                routing[f"{load.task}/{robot}"][load.component] = server.id
    return Schedule(
        scheduler=scheduler,
        gpu_type=problem.gpu_type,
        feasible=True,
        servers=tuple(servers),
        robots={cls.name: cls.robots for cls in problem.classes},
        rates_hz=component_rates(problem, rates_hz),
        routing=routing,
        action_throughput_hz=sum(cls.robots * rates_hz[cls.name] for cls in problem.classes),
        objective=sum(cls.weight * cls.robots * rates_hz[cls.name] for cls in problem.classes),
        limits=limits(catalog, problem, workers, rates_hz),
        idle_servers=problem.servers - len(servers),
    )


def server_plan(server_id: str, worker: Worker) -> ServerPlan:
    """What a worker is expected to do."""
    state = worker.state
    streams: dict[str, int] = {}
    for load in worker.loads:
        key = f"{load.task}/{load.component}"
        streams[key] = streams.get(key, 0) + load.streams
    used = {load.component for load in worker.loads}
    return ServerPlan(
        id=server_id,
        models=(worker.kind.model,),
        components=tuple(c for c in worker.kind.components if c in used),
        batching=state.configuration.batching,
        batch=state.configuration.batch,
        streams=streams,
        rate_hz=worker.rate_hz,
        utilisation=state.utilisation,
        mean_ms=state.mean_ms,
        p99_ms=state.p99_ms,
    )


def component_rates(problem: Problem, rates_hz: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """task -> component -> calls per second of one robot."""
    return {
        c.name: {need.component: need.rate_hz(rates_hz[c.name]) for need in c.needs} for c in problem.classes
    }


def limits(
    catalog: Catalog, problem: Problem, workers: Sequence[Worker], rates_hz: Mapping[str, float]
) -> tuple[str, ...]:
    """What a round of each class consists of (equation (4)), and what keeps it from being shorter."""
    waiting_ms = latencies_ms(workers)
    found = []
    for cls in problem.classes:
        rate = rates_hz[cls.name]
        if rate <= 0:
            continue
        fastest = fastest_rate_hz(catalog, cls)
        parts = [f"{1000 * cls.action_s:g} ms action"]
        for need in cls.goals:
            waits_ms = need.calls_per_action * waiting_ms[(cls.name, need.component)]
            parts.append(f"{waits_ms:.0f} ms {need.component}")
        pause_ms = 1000 / rate - 1000 / loop_rate_hz(cls, waiting_ms)
        if pause_ms >= 1:
            parts.append(f"{pause_ms:.0f} ms pause")
        found.append(
            f"{cls.name}: {rate:.2f} Hz of at most {fastest:.2f} Hz; a round of {1000 / rate:.0f} ms is"
            f" {' + '.join(parts)}; {_why(catalog, cls, workers, rate / fastest)}"
        )
    return tuple(found)


def _why(catalog: Catalog, cls: TaskClass, workers: Sequence[Worker], share: float) -> str:
    if share >= 0.97:
        return "idle servers would answer hardly faster"
    goals = {need.component for need in cls.goals}
    fullest, component = 0.0, ""
    for worker in workers:
        for load in worker.loads:
            if load.task == cls.name and load.component in goals:
                slo = min(other.slo_ms for other in worker.loads)
                capacity = catalog.capacity_hz(worker.kind.model, load.component, slo)
                filled = sum(x.streams * x.rate_hz for x in worker.loads) / capacity if capacity else inf
                if filled > fullest:
                    fullest, component = filled, load.component
    if fullest > 0.9:
        return f"{component} servers are {fullest:.0%} as busy as their SLO allows"
    return f"more servers would shorten the waiting ({component} servers are {fullest:.0%} as busy as their SLO allows)"
