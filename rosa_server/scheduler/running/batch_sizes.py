"""How large batches may be, and how many calls run at a time, within the SLOs of what comes to a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, inf

from rosa_contract.config.tasks import SYSTEM1
from rosa_server.scheduler.placement.schedule import Schedule, ServerPlan
from rosa_server.scheduler.problem import Need, Problem, TaskClass
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.profile import CONTINUOUS, FULL
from rosa_server.timing.batches import MIN_WAIT_S, BatchProfile, largest

# Of an SLO: what a batch may take together with the wait for the first server that is free.
UNASKED_SLACK = 0.95
LARGEST = 64  # requests that run together
SPARE = 1.25  # calls at a time carry this much more than the load that robots ask for
SPARE_TIME = 1.15  # a call among as many others may take this multiple of its usual time
SPARE_TIME_FULL = 1.1  # the same where servers are planned without any spare, and calls come evenly
MIN_AT_ONCE = 4  # fewer make calls wait for each other though the server has room
MIN_ROUND_S = 0.1  # of inference in a round of the fastest robots
# A server is as good as full from this share of its greatest throughput on, with calls of one component, or of several.
NEAR_BEST, NEAR_BEST_MIXED = 0.9, 0.95


def largest_batch(
    problem: Problem, model: str, servers: int, table: BatchProfile, library: ProfileLibrary, permits: bool
) -> tuple[int, float]:
    """The size k with the most actions per second, and these: what robots ask for when each waits for its batch,
    `N / (t_act + S(k) + S2 / H)`, or the share of it that x servers run, which take `S(k) / k` for each call. A batch
    is no larger than the SLO of any of its calls allows with some slack: without permits a call also waits for the
    first server that is free.
    """
    users = users_of(problem, model)
    highest = min([need.max_batch or LARGEST for _, need in users] + [max(table.sizes, default=1)])
    rests_s = [cls.action_s + rest_of_round_s(problem, cls, library) for cls, _ in users]

    def allowed(slo_s: float) -> int:
        if permits:
            return largest(highest, table.service_s, MIN_WAIT_S, slo_s)
        sizes = range(highest, 0, -1)
        return next((n for n in sizes if table.service_s(n) * (1 + 1 / servers) <= UNASKED_SLACK * slo_s), 1)

    limits = [allowed(need.slo_ms / 1000) for _, need in users]
    best, best_hz = 1, 0.0
    for size in range(1, max(limits) + 1):
        asked_hz = busy = 0.0
        for (cls, _), rest_s, limit in zip(users, rests_s, limits, strict=True):
            runs_s = table.service_s(min(size, limit))
            cls_hz = cls.robots / (rest_s + runs_s)
            asked_hz += cls_hz
            busy += cls_hz * runs_s / min(size, limit)
        hz = asked_hz * min(1.0, servers / busy)
        if hz > best_hz * (1 + 1e-9):
            best, best_hz = size, hz
    return best, best_hz


def calls_at_once(
    problem: Problem, schedule: Schedule, servers: list[ServerPlan], library: ProfileLibrary
) -> int:
    """The fewest calls at a time that carry what robots ask for, with some to spare: more would end together, and their
    robots would come to System 1 together. No more than with which a server is as good as full, and never more than
    leave each one in time beside all others: a server that is behind would then answer nobody in time."""
    needs = problem.needs
    loads_hz: dict[str, float] = {}  # component -> what comes to one server
    slos_s: dict[str, float] = {}  # component -> the tightest
    for server in servers:
        for stream, count in server.streams.items():
            need, cls = needs[stream], problem.by_name[stream.task]
            infers_s = rest_of_round_s(problem, cls, library) + idle_system1_s(problem, cls, library)
            fastest_hz = 1 / (cls.action_s + max(MIN_ROUND_S, infers_s))
            asked_hz = count * need.rate_hz(fastest_hz) / len(servers)
            loads_hz[need.component] = loads_hz.get(need.component, 0.0) + asked_hz
            slos_s[need.component] = min(slos_s.get(need.component, inf), need.slo_ms / 1000)
    load_hz = sum(loads_hz.values())
    tables = {
        component: service_table(library, schedule.gpu_type, servers[0].model, (component,))
        for component in loads_hz
    }

    def mean_s(size: int) -> float:
        return sum(hz * tables[component].service_s(size) for component, hz in loads_hz.items()) / load_hz

    sizes = {size for table in tables.values() for size in table.sizes}
    max_hz = max(size / mean_s(size) for size in sizes)
    near = (
        NEAR_BEST if len(tables) == 1 else NEAR_BEST_MIXED
    )  # periodic calls leave fewer places for System 2's
    wanted_hz = SPARE * load_hz
    if not any(needs[stream].is_goal for server in servers for stream in server.streams):
        wanted_hz = max_hz  # verdicts start no rounds; robots that join find room at once
    spare = SPARE_TIME_FULL if schedule.options.get("slo_statistic") == FULL else SPARE_TIME
    in_time = [
        size
        for size in range(2, LARGEST + 1)
        if all(spare * tables[name].service_s(size) <= slo_s for name, slo_s in slos_s.items())
    ]
    for size in [1, *in_time]:
        carried_hz = size / mean_s(size)
        if size >= MIN_AT_ONCE and carried_hz >= min(wanted_hz, near * max_hz):
            return size
    return max([1, *in_time])


def reserved_places(
    problem: Problem, schedule: Schedule, servers: list[ServerPlan], library: ProfileLibrary, at_once: int
) -> int:
    """How many of a server's places goal-coupled calls leave to periodic ones: as many as these hold at a time, but for
    a few moments, where one that waited for a plan to end would be late."""
    held, longest_s, tightest_s = 0.0, 0.0, inf
    for server in servers:
        for stream, count in server.streams.items():
            need = problem.needs[stream]
            table = service_table(library, schedule.gpu_type, servers[0].model, (need.component,))
            runs_s = SPARE_TIME * table.service_s(at_once)
            if need.is_goal:
                longest_s = max(longest_s, runs_s)
            else:
                held += count * need.freq_hz * runs_s / len(servers)
                tightest_s = min(tightest_s, need.slo_ms / 1000 - runs_s)
    if not longest_s or tightest_s >= longest_s:
        return 0
    return int(min(at_once - 1, ceil(held + held**0.5)))


def service_table(
    library: ProfileLibrary, gpu_type: str, model: str, components: tuple[str, ...]
) -> BatchProfile:
    """Time of a batch by its size: of several configurations the shortest, of several components the longest.

    Calls that come and go by themselves are never padded; whole batches are, unless the profile says otherwise.
    """
    tables: list[Mapping[int, float]] = []
    padded = False
    for component in components:
        sizes: dict[int, float] = {}
        profile = library.get_for(model, component, gpu_type)
        for configuration in profile.configurations_for(component):
            padded |= configuration.batching != CONTINUOUS and not profile.every_size
            for one in configuration.service:
                sizes[one.size] = min(one.ms, sizes.get(one.size, one.ms))
        tables.append(sizes)
    shared = set.intersection(*(set(sizes) for sizes in tables))
    return BatchProfile({size: max(sizes[size] for sizes in tables) for size in shared}, padded)


def prefills_ms(
    library: ProfileLibrary, gpu_type: str, model: str, components: Sequence[str]
) -> dict[str, float]:
    """Time of one prompt of a model that batches continuously, by component; those that are known."""
    found = {}
    for component in components:
        profile = library.get_for(model, component, gpu_type)
        known = [c.prefill_ms for c in profile.configurations_for(component) if c.prefill_ms]
        if known:
            found[component] = min(known)
    return found


def users_of(problem: Problem, model: str) -> list[tuple[TaskClass, Need]]:
    """The task classes whose System 1 is this model."""
    return [
        (cls, need)
        for cls in problem.classes
        for need in cls.goals
        if (need.model, need.component) == (model, SYSTEM1)
    ]


def idle_system1_s(problem: Problem, cls: TaskClass, library: ProfileLibrary) -> float:
    """System 1 on an idle server."""
    models = [need.model for need in cls.goals if need.component == SYSTEM1]
    return sum(service_table(library, problem.gpu_type, model, (SYSTEM1,)).service_s(1) for model in models)


def rest_of_round_s(problem: Problem, cls: TaskClass, library: ProfileLibrary) -> float:
    """What a round waits for beside System 1, with idle servers."""
    return sum(
        need.calls_per_action
        * service_table(library, problem.gpu_type, need.model, (need.component,)).service_s(1)
        for need in cls.goals
        if need.component != SYSTEM1
    )
