"""The serving systems that are compared: ROSA, ROSA as published, and the paper's four baselines (ROSA 4.1).

Each is a schedule. Executing a baseline means its placement with robots that send as soon as they can.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rosa_contract.config.factory import Factory, FleetEntry
from rosa_contract.config.policies import PUBLISHED as AS_PUBLISHED
from rosa_contract.config.tasks import SYSTEM1
from rosa_contract.errors import ConfigError
from rosa_server.plan.placement import Placement, Replica
from rosa_server.scheduler.choosing.choice import choose
from rosa_server.scheduler.choosing.prediction import predicted
from rosa_server.scheduler.placement.schedule import Refusal, Schedule
from rosa_server.scheduler.problem import Problem, problem_from
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.profiles.profile import CONTINUOUS
from rosa_server.scheduler.running.batch_sizes import prefills_ms, service_table
from rosa_server.scheduler.running.handover import hand_over
from rosa_server.scheduler.search.engines import with_best_engines
from rosa_server.scheduler.search.solve import solve
from rosa_server.simulator.servers import Serving
from rosa_server.timing.batches import BatchProfile
from rosa_sim.fleet import baselines

ROSA, PUBLISHED = "rosa", "rosa_published"
# The paper does not say how a robot keeps to its rate: never sooner than a period after its last call, or on average.
READINGS = {PUBLISHED: AS_PUBLISHED, f"{PUBLISHED}_catch_up": replace(AS_PUBLISHED, catch_up=1.0)}
BASELINES = tuple(baselines.BASELINES)
SYSTEMS = (ROSA, *READINGS, *BASELINES)
NEVER = 1_000_000  # violations in a row that nobody reaches
RUNNING = 64  # requests at a time in a worker with continuous batching


@dataclass(frozen=True)
class System:
    """A system that can be executed, or the reasons why not."""

    name: str
    schedule: Schedule
    serving: Serving | None  # none: it serves no robot of this factory
    predicted_hz: float = 0.0  # actions per second of the fleet

    @property
    def refused(self) -> str:
        return (
            ""
            if self.serving is not None
            else "; ".join(one.reason for one in self.schedule.reasons) or "serves no robot"
        )


def fleet_of(factory: Factory, robots: int, servers: int | None = None) -> Factory:
    """The same mix of tasks with this number of robots."""
    problem = problem_from(factory).scaled_to(robots)
    fleet = tuple(FleetEntry(cls.name, cls.robots) for cls in problem.classes)
    cluster = factory.server_cluster
    return replace(
        factory,
        robot_fleet=fleet,
        server_cluster=replace(cluster, num_servers=servers or cluster.num_servers),
    )


def without_limits(factory: Factory) -> Factory:
    """Violations in a row reach no limit: robots go on without a person, as the paper's load generators do."""
    tasks = {
        name: replace(
            task,
            safety_and_slo_violation=replace(
                task.safety_and_slo_violation,
                max_consecutive_slo_violation=NEVER,
                max_consecutive_safety_replan=NEVER,
                max_stops_without_action=NEVER,
            ),
        )
        for name, task in factory.tasks.items()
    }
    return replace(factory, tasks=tasks)


def system_of(name: str, factory: Factory, library: ProfileLibrary, variation: float) -> System:
    """Plan `factory` as the system does. Raises `ConfigError` where profiles are missing."""
    problem = with_best_engines(problem_from(factory), library, Options())
    return executable(name, factory, _schedule(name, factory, problem, library), library, variation)


def executable(
    name: str, factory: Factory, schedule: Schedule, library: ProfileLibrary, variation: float
) -> System:
    """A schedule of `factory` with all that its execution needs."""
    starved = [task for task, rates in schedule.rates_hz.items() if not rates.get(SYSTEM1, 0.0) > 0]
    if starved and name not in BASELINES:
        words = f"plans {', '.join(sorted(starved))} at 0 actions/s: that is no service"
        schedule = replace(schedule, feasible=False, reasons=(Refusal("task_starved", words),))
        return System(name, schedule, None)
    serving = carrying_out(name, factory, schedule, library, variation)
    if serving is None:
        return System(name, schedule, None, schedule.action_throughput_hz)
    problem = problem_from(factory).with_engines(schedule.engines)
    return System(name, schedule, serving, predicted(serving.placement, schedule, problem).throughput_hz)


def carrying_out(
    name: str, factory: Factory, schedule: Schedule, library: ProfileLibrary, variation: float
) -> Serving | None:
    """The server side that carries a schedule out; None where it serves no robot."""
    if not schedule.routing:
        return None
    if name in BASELINES:
        placement, admission = _baseline_placement(schedule, factory), None
    else:
        if name in READINGS:
            factory = replace(factory, policies=READINGS[name])
        placement, admission = hand_over(factory, schedule, f"the schedule of {name}", library)
    if not placement.routes:
        return None
    placement = _with_prompts(placement, schedule, library)
    heard = _components(placement)
    services = {
        replica.id: _service(library, schedule, replica, _component_of(placement, schedule, replica, heard))
        for replica in placement.replicas.values()
    }
    return Serving(factory, placement, services, admission, variation)


def _with_prompts(placement: Placement, schedule: Schedule, library: ProfileLibrary) -> Placement:
    """Calls that share a server hold each other up by their prompts, whichever system has placed them."""
    components = _components(placement)

    def known(name: str, replica: Replica) -> Replica:
        if replica.at_once is None or replica.prefill_ms:
            return replica
        heard = sorted(components.get(name, ()))
        return replace(replica, prefill_ms=prefills_ms(library, schedule.gpu_type, replica.model, heard))

    return replace(placement, replicas={name: known(name, one) for name, one in placement.replicas.items()})


def _schedule(name: str, factory: Factory, problem: Problem, library: ProfileLibrary) -> Schedule:
    if name == ROSA:
        return choose(problem, library, Options(), factory.policies).schedule
    if name in READINGS:
        return solve(problem, library, Options.paper())
    return baselines.solve_baseline(problem, library, name)


def _baseline_placement(schedule: Schedule, factory: Factory) -> Placement:
    """As the schedule says, with a replica for each component where a server has several models (baseline 1). Robots
    that it does not serve have no slot; nobody is held to a rate."""
    replicas: dict[str, Replica] = {}
    routes: dict[str, dict[str, str]] = {}
    for robot, routing in schedule.routing.items():
        models = factory.models_of(robot.rpartition("/")[0])
        for component, server_id in routing.items():
            server = schedule.server(server_id)
            alone = len(server.models) == 1
            name = server_id if alone else f"{server_id}-{component}"
            batch = server.batch if alone or component == SYSTEM1 else RUNNING
            # On a GPU of one robot no model has more than one call.
            at_once = RUNNING if alone and server.batching == CONTINUOUS else None
            routes.setdefault(robot, {})[component] = name
            replicas[name] = Replica(
                name, models[component], server_id, batch=batch, deadline_aware=False, at_once=at_once
            )
    return Placement(replicas, routes)


def _components(placement: Placement) -> dict[str, dict[str, None]]:
    """Replica -> the components that it answers, in the order of its routes."""
    found: dict[str, dict[str, None]] = {}
    for routing in (placement.routes or {}).values():
        for component, name in routing.items():
            found.setdefault(name, {})[component] = None
    return found


def _component_of(
    placement: Placement, schedule: Schedule, replica: Replica, heard: Mapping[str, Mapping[str, None]]
) -> str:
    """A component that the replica answers; of a standby, one that its model may have to answer."""
    models = (name for name in heard if replica.standby and placement.replicas[name].model == replica.model)
    name = replica.id if replica.id in heard else next(models, None)
    if name is not None:
        return next(iter(heard[name]))
    raise ConfigError(replica.id, [f"no robot is routed to this server of {schedule.scheduler}"])


def _service(library: ProfileLibrary, schedule: Schedule, replica: Replica, component: str) -> BatchProfile:
    """Time of a batch by its size: as it is carried out, or as published in the configuration that the schedule has
    chosen for this replica. A static batch is padded, however few calls are in it."""
    if replica.service_ms:
        return replica.times
    profile = library.get_for(replica.model, component, schedule.gpu_type)
    server = schedule.server(replica.server)
    for configuration in profile.configurations_for(component):
        chosen = len(server.models) > 1 or configuration.batching == server.batching
        if chosen and configuration.batch == replica.batch and not replica.standby:
            padded = configuration.batching != CONTINUOUS and not profile.every_size
            return BatchProfile({one.size: one.ms for one in configuration.service}, padded)
    return service_table(library, schedule.gpu_type, replica.model, (component,))
