"""Why a factory does not fit its servers: what binds, how many servers would suffice, and what these servers reach:
lower rates, fewer robots, longer SLOs."""

from __future__ import annotations

from math import inf

from rosa_server.scheduler.placement.packing import Packer
from rosa_server.scheduler.placement.schedule import Refusal
from rosa_server.scheduler.placement.servers import demands_of, fastest_rate_hz, kinds_of
from rosa_server.scheduler.problem import Problem, TaskClass
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.search.feasibility import is_served
from rosa_server.scheduler.search.impossible import impossible
from rosa_server.scheduler.search.longer_slos import longer_slos
from rosa_server.scheduler.search.min_servers import Needed, reachable_rates, servers_for


def refusals(catalog: Catalog, problem: Problem) -> tuple[Refusal, ...]:
    """Why `problem` does not fit at its minimum rates; the first is the conclusion."""
    standby = catalog.options.standby
    active = problem.servers - standby
    never = impossible(catalog, problem)
    if never:
        return (*never, *_offered(longer_slos(catalog, problem, active)))
    rates = problem.min_rates_hz
    packers = [
        Packer(catalog, kind, demands_of(problem, kind, rates))
        for kind in kinds_of(problem, catalog.options.share_components)
    ]
    busy = sum(packer.fewest() for packer in packers)  # they carry the requests, however long robots wait
    if busy == inf:  # components that may share a server cannot
        return refusals(catalog.apart(), problem)
    enough = servers_for(catalog, problem, rates)
    found = [_conclusion(problem, enough, standby)]
    demanding = [cls for cls in problem.classes if cls.min_rate_hz > 0]
    if demanding:
        found.append(_reachable(catalog, problem, active, demanding))
    if busy > active:
        found += [_servers_full(catalog, problem, packer) for packer in packers]
    if demanding and (enough is None or enough.servers > busy):
        tightest = max(demanding, key=lambda cls: cls.min_rate_hz / fastest_rate_hz(catalog, cls))
        found.append(_rounds_too_long(catalog, tightest, int(busy)))
    longer, fewer = longer_slos(catalog, problem, active), _fewer_robots(catalog, problem, active)
    return (*found, *_offered(longer, fewer))


def _offered(*refusals: Refusal | None) -> list[Refusal]:
    return [refusal for refusal in refusals if refusal is not None]


def _conclusion(problem: Problem, enough: Needed | None, standby: int) -> Refusal:
    here = f"the cluster has {problem.servers}"
    if enough is None:
        words = f"no number of servers is enough ({here}): robots wait too long even with a server for each of them"
        return Refusal("no_servers_suffice", words)
    reserved = f" ({enough.servers} to serve, {standby} standby)" if standby else ""
    words = f"{_servers(enough.servers + standby)} would be enough{reserved}, {here}"
    lowest = enough.lowest + standby
    if not enough.proved:
        words += (
            f"; fewer than {lowest} are not"
            if lowest > problem.servers
            else f"; no schedule was found for fewer, although {lowest} are not ruled out"
        )
    return Refusal("too_few_servers", words)


def _reachable(catalog: Catalog, problem: Problem, active: int, demanding: list[TaskClass]) -> Refusal:
    reached = reachable_rates(catalog, problem, active)
    if reached is None:
        words = "these servers are not enough at any action rate, so lowering min_action_rate_hz alone does not help"
        return Refusal("no_rates_fit", words)
    rates = ", ".join(f"{cls.name} {reached[cls.name]:g} Hz" for cls in demanding)
    share = max(reached[cls.name] / cls.min_rate_hz for cls in demanding)
    of_each = "" if len(demanding) == 1 else f" ({share:.0%} of each)"
    return Refusal("lower_rates_fit", f"with these servers min_action_rate_hz can be {rates}{of_each}")


def _fewer_robots(catalog: Catalog, problem: Problem, active: int) -> Refusal | None:
    """The largest part of the fleet, in the same proportions, that these servers carry; None where it is nobody."""

    low, high = 0, problem.robots  # that are served, and that are not
    while high - low > 1:
        middle = (low + high) // 2
        served = is_served(catalog, problem.scaled_to(middle), active)
        low, high = (middle, high) if served else (low, middle)
    if low == 0:
        return None
    counts = ", ".join(f"{cls.robots} {cls.name}" for cls in problem.scaled_to(low).classes)
    return Refusal("fewer_robots_fit", f"these servers serve {low} of {problem.robots} robots: {counts}")


def _rounds_too_long(catalog: Catalog, cls: TaskClass, busy: int) -> Refusal:
    """Queues make rounds too long (equation (4)) before servers are full."""
    parts = [
        need.component if need.calls_per_action == 1 else f"{need.calls_per_action:g} x {need.component}"
        for need in cls.goals
    ]
    action_ms, round_ms = 1000 * cls.action_s, 1000 / cls.min_rate_hz
    idle_ms = 1000 / fastest_rate_hz(catalog, cls) - action_ms
    words = (
        f"{_servers(busy)} would carry the requests, but robots would wait too long, those of {cls.name} first:"
        f" {cls.min_rate_hz:g} Hz is a round of {round_ms:.0f} ms, {action_ms:g} ms of it action, which leaves"
        f" {round_ms - action_ms:.0f} ms for {' + '.join(parts)}; servers without any queue take {idle_ms:.0f} ms"
    )
    return Refusal("rounds_too_long", words)


def _servers_full(catalog: Catalog, problem: Problem, packer: Packer) -> Refusal:
    """`safety needs 2 servers at 64 robots: 128 req/s at p99 500 ms, one NVIDIA H200 serves 65.9`."""
    demands, names = packer.demands, "+".join(packer.kind.components)
    rate = sum(d.streams * d.rate_hz for d in demands)
    words = f"{names} needs {_servers(int(packer.fewest()))}"
    if rate == 0:
        return Refusal("servers_full", f"{words}, however slowly its robots act")
    robots = sum(d.streams for d in demands) if len(packer.kind.components) == 1 else problem.robots
    serves = min(catalog.capacity_hz(packer.kind.model, d.component, d.slo_ms) for d in demands)
    words += (
        f" at {robots} robot{'' if robots == 1 else 's'}: {rate:.4g} req/s at {catalog.options.slo_statistic}"
        f" {min(d.slo_ms for d in demands):g} ms, one {problem.gpu_type} serves {serves:.3g}"
    )
    return Refusal("servers_full", words)


def _servers(count: int) -> str:
    return f"{count} server{'' if count == 1 else 's'}"
