"""What a fleet does when a schedule is carried out: simulated with the real serving core and scripted robots.

The schedule's rates hold for any arrivals. Robots that may act faster than that are held back only by the rounds that
they wait for, and these depend on each other: equation (4) with the latencies that arise. They are found by letting the
robots run, on a local network. A search compares schedules by a faster estimate (`estimate.py`). The same random
numbers every time make both pure functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import floor

from rosa_contract.config.factory import Factory, FleetEntry, ServerCluster
from rosa_contract.config.gateway import Gateway
from rosa_contract.config.tasks import SYSTEM1, SYSTEM2, Component, Pipeline, Task
from rosa_server.plan.placement import Placement
from rosa_server.scheduler.choosing.estimate import Estimate, periodic_queues
from rosa_server.scheduler.placement.schedule import Schedule, task_of
from rosa_server.scheduler.problem import Problem
from rosa_server.simulator.network import Network
from rosa_server.simulator.scripted import ScriptedFleet, Tally
from rosa_server.simulator.servers import Serving

# Controllers of the serving core settle; then it is measured until `CALLS` calls were seen, within bounds in seconds.
SETTLE_S, CALLS = 6.0, 3000
GLANCE_S = (6.0, 20.0)
# What is told is measured for longer: rates still rise after ten seconds, by up to 3 %, and a few robots that plan
# every ten seconds do so twice in twenty.
TOLD_S = (30.0, 100.0)
# All that a schedule promises may rest on this. Who is late asks again at once, so a fleet that is in time at first may
# be later and later: draw 65 of the random factories would be in 99.5 % of calls for 7 s, and in 95 % over a minute.
RELIED_ON_S = (60.0, 100.0)
VARIATION = 0.03  # of one run: standard deviation, as a share
NETWORK_MS = 0.5  # one way
LOCAL = Network(NETWORK_MS)
MAX_LATE = 0.01  # share of a component's calls: with more, nothing beyond the schedule is promised
LARGER_PARTS = (1, 2, 4, 8)  # times as many, where some queue has too few servers to be divided so far
MAX_SIMULATED = 96  # robots; in a larger fleet the real core would take longer than the rest of a plan
MAX_ROBOTS = 256  # that an estimate plays through; of a larger fleet, an even slice of robots and servers
MAX_COMPARED = 128  # the same where schedules of a large fleet are compared, if servers can be divided so far


@dataclass(frozen=True)
class Prediction:
    """The predicted outcome of a schedule. Without `meet` nothing was simulated; the rates are the schedule's own."""

    rates_hz: Mapping[str, float]  # task -> actions per second of one robot
    throughput_hz: float  # actions per second of the fleet
    objective: float  # equation (1)
    meet: Mapping[str, float] = field(default_factory=dict)  # component -> share of calls in time
    missing: str = ""  # why nothing was simulated although robots act faster than planned
    # Of a schedule that holds as it is played through: component -> share of calls in time on slower networks.
    slower: Mapping[str, float] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether every component is in time as often as it has to be."""
        return not self.late

    @property
    def late(self) -> set[str]:
        """Components that are in time less often than that."""
        return {component for component, share in self.meet.items() if share < 1 - MAX_LATE}


def predicted(placement: Placement, schedule: Schedule, problem: Problem) -> Prediction:
    """What the fleet does, as `placement` carries the schedule out; of more than `MAX_SIMULATED` robots, as estimated,
    unless all that the schedule promises rests on this. Where calls would be late, only its rates are promised."""
    few = len(placement.routes or ()) <= MAX_SIMULATED or not schedule.holds_for_any_arrivals
    simulated = partial(_simulated, bounds_s=TOLD_S if schedule.holds_for_any_arrivals else RELIED_ON_S)
    return _promised(placement, schedule, problem, simulated if few else _estimated)


def estimated(placement: Placement, schedule: Schedule, problem: Problem) -> Prediction:
    """As `predicted`, ten times as fast and less exact: to compare schedules."""
    large = len(placement.routes or ()) > MAX_SIMULATED
    play = partial(_estimated, quick=large)
    return _promised(placement, schedule, problem, play, MAX_COMPARED if large else None)


def played(
    placement: Placement, problem: Problem, network: Network = LOCAL, bounds_s: tuple[float, float] = GLANCE_S
) -> Prediction | None:
    """What the real serving core makes of a placement, whatever was planned. `bounds_s`: of what is measured.

    Of a large fleet an even slice is played (`slice_of`); None where there is none.
    """
    part = slice_of(placement, MAX_ROBOTS)
    return None if part is None else _simulated(part, problem, network, bounds_s)


def _promised(
    placement: Placement,
    schedule: Schedule,
    problem: Problem,
    play: Callable[[Placement, Problem], Prediction],
    few: int | None = None,
) -> Prediction:
    """`few`: so few robots may stand for all, where that is possible."""
    rates_hz = {task: rates[SYSTEM1] for task, rates in schedule.rates_hz.items()}
    planned = Prediction(rates_hz, schedule.action_throughput_hz, schedule.objective)
    if not placement.adaptive or not placement.routes:
        return planned
    usual = [MAX_ROBOTS * times for times in LARGER_PARTS]
    parts = (slice_of(placement, limit) for limit in ([few, *usual] if few is not None else usual))
    part = next((part for part in parts if part is not None), None)
    if part is None:
        robots, limit = len(placement.routes), MAX_ROBOTS * LARGER_PARTS[-1]
        why = f"some queue has under one server for {limit} of {robots} robots, so no part of them can stand for all"
        return replace(planned, missing=why)
    if schedule.holds_for_any_arrivals:
        part = _thinned(part, placement)
    found = play(part, problem)
    if not found.holds:
        return replace(planned, meet=found.meet)
    return found if found.objective > planned.objective else replace(planned, meet=found.meet)


def slice_of(placement: Placement, limit: int) -> Placement | None:
    """A part of the fleet with at most `limit` robots, and its share of each queue's servers, rounded down.

    Of all possible sizes, the one that loses least by rounding; None where a queue has too few servers to be divided.
    In the whole fleet the robots of a part share their servers with all others, so the part is no faster.
    """
    routes = placement.routes or {}
    if len(routes) <= limit:
        return placement
    queues: dict[str, list[str]] = {}
    for replica in placement.replicas.values():
        if not replica.standby:
            queues.setdefault(replica.queue, []).append(replica.id)

    def lost(share: float) -> float:
        return max(1 - _whole(len(servers) * share) / (len(servers) * share) for servers in queues.values())

    share = min((robots / len(routes) for robots in range(limit, limit // 2, -1)), key=lost)
    if lost(share) == 1.0:
        return None
    kept = {queue: servers[: _whole(len(servers) * share)] for queue, servers in queues.items()}
    seen: Counter[str] = Counter()
    robots = {}
    for slot, routing in routes.items():
        task = task_of(slot)
        seen[task] += 1
        if _whole(seen[task] * share) > _whole((seen[task] - 1) * share):
            robots[slot] = {
                name: kept[placement.replicas[server].queue][0] for name, server in routing.items()
            }
    names = {server for servers in kept.values() for server in servers}
    replicas = {name: replica for name, replica in placement.replicas.items() if name in names}
    return replace(placement, replicas=replicas, routes=robots)


def _thinned(part: Placement, whole: Placement) -> Placement:
    """A part of a fleet without those periodic calls for whose servers there was no room in it.

    Their servers are planned for any arrivals, by themselves. With a tenth fewer of them than its share, as servers are
    whole, a part would be late where the fleet is not.
    """
    robots = len(part.routes or ()) / max(1, len(whole.routes or ()))
    if robots == 1:
        return part
    servers, servers_of_whole = (
        Counter(one.queue for one in each.replicas.values() if not one.standby) for each in (part, whole)
    )
    kept = {name: servers[name] / servers_of_whole[name] / robots for name in periodic_queues(part)}
    seen: Counter[str] = Counter()
    routes: dict[str, dict[str, str]] = {}
    for slot, routing in (part.routes or {}).items():
        routes[slot] = {}
        for component, name in routing.items():
            queue = part.replicas[name].queue
            share = min(1.0, kept.get(queue, 1.0))
            seen[queue] += 1
            if _whole(seen[queue] * share) > _whole((seen[queue] - 1) * share):
                routes[slot][component] = name
    return replace(part, routes=routes)


def _whole(number: float) -> int:
    return floor(number + 1e-9)


def _estimated(placement: Placement, problem: Problem, quick: bool = False) -> Prediction:
    seen = Estimate(placement, problem, quick).run()
    return _prediction(placement, problem, seen.actions, seen.calls, seen.late, seen.measured_s)


def _simulated(
    placement: Placement, problem: Problem, network: Network = LOCAL, bounds_s: tuple[float, float] = GLANCE_S
) -> Prediction:
    robots = {slot: task_of(slot) for slot in placement.routes or ()}
    services = {replica.id: replica.times for replica in placement.replicas.values()}
    serving = Serving(_factory(problem), placement, services, variation=VARIATION)
    tally = Tally(SETTLE_S)
    fleet = ScriptedFleet(serving, robots, tally, network)
    shortest_s, longest_s = bounds_s
    fleet.run(SETTLE_S + shortest_s)
    seconds = min(longest_s, shortest_s * max(1.0, CALLS / max(1, tally.calls.total())))
    fleet.run(SETTLE_S + seconds)
    return _prediction(placement, problem, tally.actions, tally.calls, tally.late, seconds)


def _prediction(
    placement: Placement,
    problem: Problem,
    actions: Mapping[str, int],
    calls: Mapping[str, int],
    late: Mapping[str, int],
    seconds: float,
) -> Prediction:
    robots = Counter(map(task_of, placement.routes or ()))
    rates_hz = {c.name: actions.get(c.name, 0) / seconds / max(1, robots[c.name]) for c in problem.classes}
    meet = {name: 1 - late.get(name, 0) / count for name, count in calls.items()}
    throughput_hz = problem.action_throughput_hz(rates_hz)
    return Prediction(rates_hz, throughput_hz, problem.objective(rates_hz), meet)


def _factory(problem: Problem) -> Factory:
    """What the serving core and scripted robots have to know of a problem."""
    tasks = {}
    for cls in problem.classes:
        plans = next((need.calls_per_action for need in cls.goals if need.component == SYSTEM2), 1.0)
        components = {
            need.component: Component(need.model, need.slo_ms, freq_hz=need.freq_hz or None)
            for need in cls.needs
        }
        tasks[cls.name] = Task(Pipeline(1000 * cls.action_s, plans), components)
    fleet = tuple(FleetEntry(cls.name, cls.robots) for cls in problem.classes)
    cluster = ServerCluster(problem.servers, problem.gpu_type)
    return Factory(cluster, fleet, tasks, {}, Gateway())
