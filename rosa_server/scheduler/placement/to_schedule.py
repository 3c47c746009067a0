"""From a placement to a schedule: names for servers, a route for every (robot, component), predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from rosa_server.scheduler.placement.schedule import Schedule, ServerPlan, slot_name
from rosa_server.scheduler.placement.servers import PlacedServer, fastest_rate_hz, latencies_ms, loop_rate_hz
from rosa_server.scheduler.problem import Problem, StreamClass, TaskClass
from rosa_server.scheduler.profiles.catalog import Catalog


def build_schedule(
    catalog: Catalog,
    problem: Problem,
    placed: Sequence[PlacedServer],
    rates_hz: Mapping[str, float],
    scheduler: str,
) -> Schedule:
    """A feasible schedule of these servers. Robots of a task are routed in order, so neighbours share servers."""
    routing: dict[str, dict[str, str]] = {
        slot_name(cls.name, number): {} for cls in problem.classes for number in range(cls.robots)
    }
    servers = []
    routed: dict[StreamClass, int] = {}
    for index, server in enumerate(placed):
        described = server_plan(f"gpu{index}", server)
        servers.append(described)
        for load in server.loads:
            first = routed.get(load.stream_class, 0)
            routed[load.stream_class] = first + load.streams
            for number in range(first, first + load.streams):
                routing[slot_name(load.task, number)][load.component] = described.id
    return Schedule(
        scheduler=scheduler,
        gpu_type=problem.gpu_type,
        feasible=True,
        servers=tuple(servers),
        robots={cls.name: cls.robots for cls in problem.classes},
        rates_hz=component_rates(problem, rates_hz),
        routing=routing,
        action_throughput_hz=problem.action_throughput_hz(rates_hz),
        objective=problem.objective(rates_hz),
        limits=limits(catalog, problem, placed, rates_hz),
        idle_servers=problem.servers - len(servers),
    )


def server_plan(server_id: str, server: PlacedServer) -> ServerPlan:
    """What a server is expected to do."""
    state = server.state
    streams: dict[StreamClass, int] = {}
    for load in server.loads:
        streams[load.stream_class] = streams.get(load.stream_class, 0) + load.streams
    used = {load.component for load in server.loads}
    return ServerPlan(
        id=server_id,
        models=(server.kind.model,),
        components=tuple(c for c in server.kind.components if c in used),
        batching=state.configuration.batching,
        batch=state.configuration.batch,
        engine=state.configuration.engine,
        streams=streams,
        rate_hz=server.rate_hz,
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
    catalog: Catalog, problem: Problem, placed: Sequence[PlacedServer], rates_hz: Mapping[str, float]
) -> tuple[str, ...]:
    """What a round of each class consists of (equation (4)), and what keeps it from being shorter."""
    waiting_ms = latencies_ms(placed)
    found = []
    for cls in problem.classes:
        rate = rates_hz[cls.name]
        if rate <= 0:
            continue
        fastest = fastest_rate_hz(catalog, cls)
        parts = [f"{1000 * cls.action_s:g} ms action"]
        for need in cls.goals:
            waits_ms = need.calls_per_action * waiting_ms[StreamClass(cls.name, need.component)]
            parts.append(f"{waits_ms:.0f} ms {need.component}")
        pause_ms = 1000 / rate - 1000 / loop_rate_hz(cls, waiting_ms)
        if pause_ms >= 1:
            parts.append(f"{pause_ms:.0f} ms pause")
        found.append(
            f"{cls.name}: {rate:.2f} Hz of at most {fastest:.2f} Hz; a round of {1000 / rate:.0f} ms is"
            f" {' + '.join(parts)}; {_what_would_help(catalog, cls, placed, rate / fastest)}"
        )
    return tuple(found)


def _what_would_help(
    catalog: Catalog, cls: TaskClass, placed: Sequence[PlacedServer], share_of_fastest: float
) -> str:
    if share_of_fastest >= 0.97:
        return "more servers would hardly help"
    goals = {need.component for need in cls.goals}
    fullest, component = 0.0, ""
    for server in placed:
        for load in server.loads:
            if load.task == cls.name and load.component in goals:
                capacity = catalog.capacity_hz(server.kind.model, load.component, server.tightest_ms)
                filled = server.rate_hz / capacity if capacity else inf
                if filled > fullest:
                    fullest, component = filled, load.component
    busy = f"{component} servers are at {fullest:.0%} of what their SLO allows"
    return busy if fullest > 0.9 else f"more servers would shorten the waiting ({busy})"
