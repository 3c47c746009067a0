"""Hands a schedule over to a server: which workers to start, where robots are routed, and which are admitted later.

The server knows nothing of profiles and solvers. It gets a placement, and asks the object made here about robots for
which no slot is free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import isclose

from rosa_contract.config.factory import Factory
from rosa_contract.config.strict import Reader
from rosa_contract.config.tasks import SYSTEM1, SYSTEM2
from rosa_contract.errors import ConfigError
from rosa_contract.wire.messages import Refused
from rosa_contract.wording import nearest
from rosa_server.plan.admission import AdmissionControl, Admitted, NoAdmission
from rosa_server.plan.engines import AUTO_ENGINE
from rosa_server.plan.placement import Placement, Replica
from rosa_server.scheduler.placement.schedule import Schedule, ServerPlan, task_of
from rosa_server.scheduler.placement.standby import failover_table
from rosa_server.scheduler.problem import Need, StreamClass, problem_from
from rosa_server.scheduler.profiles.catalog import DEFAULT_ENGINE, DEFAULT_ENGINES, Catalog
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.profiles.profile import DYNAMIC
from rosa_server.scheduler.running.admission import admit
from rosa_server.scheduler.running.deployment import Deployment, deploy
from rosa_server.scheduler.running.policies import carried_out
from rosa_server.scheduler.running.removal import remove

AGAIN = "; make a new schedule with `rosa plan`"
TOLERANCE = 1e-6  # of a rate or a latency that went through a file


def hand_over(
    factory: Factory, schedule: Schedule, source: str, library: ProfileLibrary
) -> tuple[Placement, AdmissionControl]:
    """What the server runs. Raises `ConfigError` for a schedule of another factory, or one that is a refusal.

    Robots beyond the planned ones are admitted where the profiles are there to judge by, and still allow the schedule.
    The policies carry out even such a schedule: their profiles are those of today.
    """
    options = check(factory, schedule, source)
    placement = placement_of(schedule)
    try:
        problem = problem_from(factory).with_engines(schedule.engines)
        policies = partial(carried_out, problem=problem, library=library, policies=factory.policies)
        placement = policies(placement, schedule)
        deployment = deploy(problem, Catalog(problem, library, options), schedule)
    except ConfigError as error:
        return placement, NoAdmission(
            f"there are no profiles to judge by ({'; '.join(map(str, error.problems))})"
        )
    except ValueError as error:
        return placement, NoAdmission(f"the profiles have changed since it was planned ({error})")
    if schedule.shares_gpus:
        return placement, NoAdmission(
            f"models take turns on its GPUs; what one more robot costs them is not known{AGAIN}"
        )
    if not options.any_arrivals:
        return placement, NoAdmission(
            f"its SLOs hold as the planned robots were played through; what one more costs them is not known{AGAIN}"
        )
    return placement, RunningSchedule(deployment, placement, policies)


class RunningSchedule:
    """Admission while the server runs: no weights move (ROSA 3.4.4)."""

    def __init__(
        self,
        deployment: Deployment,
        placement: Placement,
        policies: Callable[[Placement, Schedule], Placement],
    ) -> None:
        """`policies`: a placement as it is carried out."""
        self.deployment = deployment
        self._placement, self._policies = placement, policies

    def admit(self, task: str) -> Admitted | Refused:
        """A slot for one more robot of a task, or what stands in the way."""
        if task not in self.deployment.problem.by_name:
            return Refused("not_planned", f"{task} is not in robot_fleet, so nothing was planned for it")
        answer = admit(self.deployment, task)
        if not answer.admitted:
            return Refused("not_admitted", answer.reason)
        self.deployment = answer.deployment
        return Admitted(answer.slot, self._now(), answer.reason)

    def leave(self, slot: str) -> Placement:
        """The placement after a robot has left. If it was the last one admitted, everything is as before it came."""
        self.deployment = remove(self.deployment, slot)
        return self._now()

    def _now(self) -> Placement:
        schedule = self.deployment.schedule
        return self._policies(placement_of(schedule, self._placement), schedule)


def placement_of(schedule: Schedule, before: Placement | None = None) -> Placement:
    """A schedule as the server sees it. `before`: an earlier one of the same servers, which keep their standbys."""
    engines = schedule.engines
    replicas = {replica.id: replica for server in schedule.servers for replica in _replicas(server, engines)}
    standbys = before.standbys if before is not None else _standbys(schedule)
    return Placement(replicas, schedule.routing, schedule.rates_hz if schedule.capped else {}, standbys)


def _replicas(server: ServerPlan, engines: Mapping[str, str]) -> list[Replica]:
    """One replica for an active server; one per model for a standby, each with its own worker."""
    aware = server.batching == DYNAMIC
    if not server.standby:
        return [
            Replica(
                server.id,
                server.model,
                server.gpu or server.id,
                batch=server.batch,
                deadline_aware=aware,
                waits=not server.gpu,
                takes_turns=bool(server.gpu),
                engine=server.engine,
            )
        ]
    return [
        Replica(f"{server.id}/{model}", model, server.id, standby=True, engine=engines.get(model, ""))
        for model in server.models
    ]


def _standbys(schedule: Schedule) -> dict[str, tuple[str, ...]]:
    """The failover table, in replicas."""
    return {
        server: tuple(f"{standby}/{schedule.server(server).model}" for standby in standbys)
        for server, standbys in failover_table(schedule).items()
    }


def check(factory: Factory, schedule: Schedule, source: str) -> Options:
    """The options that the schedule was made with. Raises `ConfigError` unless this factory can serve it."""
    reader = Reader(source)
    options = reader.section(Options, "options", schedule.options)
    if not schedule.feasible:
        reasons = "; ".join(refusal.reason for refusal in schedule.reasons)
        reader.fail("feasible", f"this schedule is a refusal: {reasons}", "conflict")
        reader.finish()
    cluster = factory.server_cluster
    if schedule.gpu_type != cluster.gpu_type:
        reader.fail(
            "gpu_type",
            f"planned for {schedule.gpu_type!r}, server_cluster.gpu_type is {cluster.gpu_type!r}",
            "conflict",
        )
    if schedule.gpus > cluster.num_servers:
        there = f"server_cluster.num_servers is {cluster.num_servers}"
        reader.fail("servers", f"planned for {schedule.gpus} servers, {there}", "conflict")
    fleet = {entry.task for entry in factory.robot_fleet}
    for task in schedule.robots:
        if task not in factory.tasks:
            reader.fail(
                f"robots.{task}",
                f"no such task in the factory file{nearest(task, factory.tasks)}",
                "unknown_name",
            )
        elif task not in fleet:
            reader.fail(f"robots.{task}", f"is not in robot_fleet{AGAIN}", "unknown_name")
    _check_servers(reader, factory, schedule)
    reader.finish()
    _check_routes(reader, factory, schedule)
    reader.finish()
    _check_rates(reader, factory, schedule)
    _check_promises(reader, factory, schedule)
    reader.finish()
    assert isinstance(options, Options)
    return options


def planned_otherwise(factory: Factory, schedule: Schedule) -> list[str]:
    """In what a schedule that can be served is not about this factory file: a line for each, to be told."""
    fleet = dict.fromkeys(schedule.robots, 0)
    for entry in factory.robot_fleet:
        fleet[entry.task] = fleet.get(entry.task, 0) + entry.num_robots
    return [
        f"planned for {schedule.robots.get(task, 0)} robots on {task}, robot_fleet has {count}"
        for task, count in fleet.items()
        if schedule.robots.get(task, 0) != count
    ]


def _check_servers(reader: Reader, factory: Factory, schedule: Schedule) -> None:
    known = {server.id for server in schedule.servers if not server.standby}
    used = {model for task in factory.tasks for model in factory.models_of(task).values()}
    for index, server in enumerate(schedule.servers):
        where = f"servers[{index}]"
        if not server.standby and len(server.models) != 1:
            words = f"{server.id} hosts {len(server.models)} models; an active server hosts one"
            reader.fail(f"{where}.models", words, "conflict")
        for model in server.models:
            entry = factory.models.get(model)
            if model not in used:
                reader.fail(
                    f"{where}.models", f"no component uses {model!r}{nearest(model, used)}", "unknown_name"
                )
            elif entry is not None and entry.max_batch is not None and entry.max_batch < server.batch:
                words = f"planned {server.batch}, models.{model}.max_batch is {entry.max_batch}"
                reader.fail(f"{where}.batch", words, "conflict")
            engine = str(entry.options.get("engine", DEFAULT_ENGINE)) if entry is not None else ""
            default = engine in DEFAULT_ENGINES and server.engine in DEFAULT_ENGINES
            if engine and server.engine and not default and engine not in (AUTO_ENGINE, server.engine):
                words = f"planned with {server.engine}, models.{model}.options.engine is {engine}"
                reader.fail(f"{where}.engine", words + AGAIN, "conflict")
        for covered in server.covers:
            if covered not in known:
                reader.fail(
                    f"{where}.covers",
                    f"no active server {covered!r}{nearest(covered, known)}",
                    "unknown_name",
                )


def _check_routes(reader: Reader, factory: Factory, schedule: Schedule) -> None:
    servers = {server.id: server for server in schedule.servers}
    counts = dict.fromkeys(schedule.robots, 0)
    for slot, routes in schedule.routing.items():
        task = task_of(slot)
        if task not in counts:
            reader.fail(
                f"routing.{slot}", f"no task {task!r} in robots{nearest(task, counts)}", "unknown_name"
            )
            continue
        counts[task] += 1
        models = factory.models_of(task)
        for component in {*models, *routes}:
            where, server = f"routing.{slot}.{component}", servers.get(routes.get(component, ""))
            if component not in models:
                reader.fail(
                    where, f"task {task} has no such component{nearest(component, models)}", "unknown_name"
                )
            elif server is None:
                reader.fail(where, "is missing; every component of a robot needs a server", "missing")
            elif server.standby or server.models != (models[component],):
                reader.fail(where, f"{server.id} is not an active server of {models[component]}", "conflict")
    for task, count in schedule.robots.items():
        if counts[task] != count:
            reader.fail(f"robots.{task}", f"says {count}, routing has {counts[task]}", "conflict")


def _check_rates(reader: Reader, factory: Factory, schedule: Schedule) -> None:
    """Every task has the rate of each of its components, as this factory file asks for it."""
    needs = problem_from(factory).needs
    for task in schedule.rates_hz:
        if task not in schedule.robots:
            reader.fail(
                f"rates_hz.{task}",
                f"no task {task!r} in robots{nearest(task, schedule.robots)}",
                "unknown_name",
            )
    for task in schedule.robots:
        rates, known = schedule.rates_hz.get(task, {}), factory.tasks[task].components
        for component in rates:
            if component not in known:
                words = f"task {task} has no such component{nearest(component, known)}"
                reader.fail(f"rates_hz.{task}.{component}", words, "unknown_name")
        missing = [component for component in known if component not in rates]
        for component in missing:
            words = "is missing; every component of a task needs a rate"
            reader.fail(f"rates_hz.{task}.{component}", words, "missing")
        if not missing:
            _check_rates_of(reader, factory, schedule, task, needs)


def _check_rates_of(
    reader: Reader, factory: Factory, schedule: Schedule, task: str, needs: Mapping[StreamClass, Need]
) -> None:
    entry, rates = factory.tasks[task], schedule.rates_hz[task]
    action_hz, fastest_hz = rates[SYSTEM1], 1 / entry.pipeline.action_s
    where = f"rates_hz.{task}"
    if action_hz <= 0:
        reader.fail(f"{where}.{SYSTEM1}", f"must be > 0, got {action_hz:g}", "out_of_range")
    elif action_hz > fastest_hz * (1 + TOLERANCE):
        words = f"planned {action_hz:g}, {task}.pipeline allows {fastest_hz:g}"
        reader.fail(f"{where}.{SYSTEM1}", words + AGAIN, "conflict")
    elif schedule.capped and action_hz < entry.min_action_rate_hz * (1 - TOLERANCE):
        words = f"planned {action_hz:g}, {task}.min_action_rate_hz is {entry.min_action_rate_hz:g}"
        reader.fail(f"{where}.{SYSTEM1}", words + AGAIN, "conflict")
    for component in entry.components:
        need, planned = needs[StreamClass(task, component)], rates[component]
        asked = need.rate_hz(action_hz)
        if component == SYSTEM2:
            source = f"{task}.pipeline.system2_to_system1_call_ratio asks for"
        elif need.is_goal:
            continue
        elif need.early_s:
            source = f"{task}.components.{component}.freq_hz and pipeline.share_observation_ms ask for"
        else:
            source = f"{task}.components.{component}.freq_hz is"
        if not isclose(planned, asked, rel_tol=TOLERANCE):
            reader.fail(f"{where}.{component}", f"planned {planned:g}, {source} {asked:g}{AGAIN}", "conflict")


def _check_promises(reader: Reader, factory: Factory, schedule: Schedule) -> None:
    """Every server carries the streams that are routed to it, and is expected to keep their SLOs."""
    routed: dict[str, dict[StreamClass, int]] = {server.id: {} for server in schedule.servers}
    for slot, routes in schedule.routing.items():
        for component, server_id in routes.items():
            key = StreamClass(task_of(slot), component)
            routed[server_id][key] = routed[server_id].get(key, 0) + 1
    for index, server in enumerate(schedule.servers):
        where, counts = f"servers[{index}]", routed[server.id]
        for key in {**counts, **server.streams}:
            says, has = server.streams.get(key, 0), counts.get(key, 0)
            if says != has:
                reader.fail(f"{where}.streams.{key}", f"says {says}, routing has {has}", "conflict")
        for task, component in counts:
            slo_ms = factory.tasks[task].components[component].slo_ms
            expected_ms = server.p99_ms.get(component)
            if expected_ms is None:
                reader.fail(
                    f"{where}.p99_ms.{component}", "is missing; every component needs a prediction", "missing"
                )
            elif not expected_ms <= slo_ms * (1 + TOLERANCE):
                words = f"planned {expected_ms:g}, {task}.components.{component}.slo_ms is {slo_ms:g}{AGAIN}"
                reader.fail(f"{where}.p99_ms.{component}", words, "conflict")
