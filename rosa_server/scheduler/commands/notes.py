"""What the reader of a schedule should know beside its table: where its numbers come from, and what they leave out."""

from __future__ import annotations

from rosa_contract.config.tasks import SYSTEM1
from rosa_server.scheduler.commands.table import counted
from rosa_server.scheduler.placement.schedule import Schedule
from rosa_server.scheduler.placement.servers import overlapped_rate_hz
from rosa_server.scheduler.problem import Problem, StreamClass
from rosa_server.scheduler.profiles.decoding import bound_by_decoding, cost_of
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.profile import DERIVED, EMULATED

NOT_MEASURED = {
    DERIVED: "derived for {0}, not measured on it: these are estimates.",
    EMULATED: "of an emulated model: they say what it was told to take on {0}, not what the model takes.",
}


def notes(schedule: Schedule, problem: Problem, library: ProfileLibrary, network_ms: float) -> list[str]:
    """Lines to print under a feasible schedule of `problem`."""
    return [
        *_as_played(schedule),
        *_profiles(problem, library),
        *_memory(schedule, library),
        *_decoding(schedule, library),
        "Latencies include no network time; --network-ms adds it."
        if network_ms <= 0
        else f"Latencies include {network_ms:g} ms of network time.",
        *_slow_calls(schedule, problem),
        *_overlapping(schedule, problem),
    ]


def _as_played(schedule: Schedule) -> list[str]:
    """Where SLOs do not hold at the usual percentile for any arrivals."""
    if schedule.holds_for_any_arrivals:
        return []
    statistic = schedule.options["slo_statistic"]
    return [
        f"NOTE: not every SLO holds at p99 whenever calls come. Here it is {statistic} (the columns p99 too), and all"
        " is in time as the server's permits and phases let the planned robots call, which was played through. So no"
        " robot is admitted beyond them; longer SLOs or more servers would allow that, and so does --admission where"
        " robots would only act less often.",
    ]


def _profiles(problem: Problem, library: ProfileLibrary) -> list[str]:
    models = sorted({need.model for need in problem.needs.values()})
    of = {model: library.get(model, problem.gpu_type).origin for model in models}
    lines = []
    for origin, words in NOT_MEASURED.items():
        found = [model for model in models if of[model] == origin]
        if found:
            which = "All profiles are" if found == models else f"The profiles of {' and '.join(found)} are"
            lines.append(
                f"{which} {words.format(problem.gpu_type)} `rosa profile` measures a model on your machine."
            )
    return lines


def _memory(schedule: Schedule, library: ProfileLibrary) -> list[str]:
    """What models on one GPU take of it, each with its own worker."""
    needed: dict[str, float] = {}
    lines = []
    for server in schedule.servers:
        if server.gpu:
            needed[server.gpu] = (
                needed.get(server.gpu, 0.0) + library.get(server.model, schedule.gpu_type).memory_mb
            )
            has_mb = library.get(server.model, schedule.gpu_type).hardware_memory_mb
    for gpu, mb in needed.items():
        lines.append(f"The models of {gpu} take {mb:,.0f} MB of its {has_mb:,.0f} MB.")
    return lines


def _decoding(schedule: Schedule, library: ProfileLibrary) -> list[str]:
    """Batches that wait for their pictures, one line for each model and batch."""
    lines: dict[tuple[str, str, int], str] = {}
    for server in schedule.servers:
        for model in server.models:
            profile = library.measured(model, schedule.gpu_type)
            found = bound_by_decoding(profile, server.batching, server.batch)
            if found is not None:
                takes_ms, own_ms = found
                cost = cost_of(profile.decoding)
                assert cost is not None
                lines[model, server.batching, server.batch] = (
                    f"Decoding binds: {model} runs {server.batch} requests in {own_ms:.0f} ms, and their pictures"
                    f" ({cost.request_ms:.1f} ms of a core each) keep {cost.cores:g} cores busy for {takes_ms:.0f} ms."
                    " More cores for each GPU, smaller pictures or raw ones would help."
                )
    return list(lines.values())


def _slow_calls(schedule: Schedule, problem: Problem) -> list[str]:
    """Obligations whose next call is due before an answer that is as late as the p99.

    A robot has one call of a component open at a time, so such a component runs below its freq_hz at times.
    """
    lines = []
    for key, need in problem.needs.items():
        late = [server.p99_ms[key.component] for server in schedule.servers if server.streams.get(key, 0) > 0]
        if need.is_goal or not late or max(late) <= 1000 * need.every_s:
            continue
        lines.append(
            f"WARNING: {key.component} of {key.task} is called every {1000 * need.every_s:g} ms, but its p99 is"
            f" {max(late):.0f} ms. A robot waits for one answer before the next call, so"
            f" {counted(problem.by_name[key.task].robots, 'robot')} will at times check less often than freq_hz says."
        )
    return lines


def _overlapping(schedule: Schedule, problem: Problem) -> list[str]:
    """Tasks whose robots infer while they act: equation (4) plans them as if they stood meanwhile."""
    lines = []
    for cls in problem.classes:
        rate_hz = schedule.rates_hz.get(cls.name, {}).get(SYSTEM1, 0.0)
        if not cls.asynchronous or rate_hz <= 0:
            continue
        keys = [StreamClass(cls.name, need.component) for need in cls.goals]
        could_hz = overlapped_rate_hz(cls, {key: _mean_ms(schedule, key) for key in keys})
        lines.append(
            f"{cls.name} executes asynchronously, and its {rate_hz:.2f} Hz are planned for robots that stand while they"
            f" infer: a lower bound. At these latencies {could_hz:.2f} Hz are possible; a robot gets as much of it as"
            " its servers have room for."
        )
    return lines


def _mean_ms(schedule: Schedule, key: StreamClass) -> float:
    """Mean latency of a stream class over its streams."""
    servers = [server for server in schedule.servers if server.streams.get(key, 0) > 0]
    streams = sum(server.streams[key] for server in servers)
    return sum(server.streams[key] * server.mean_ms[key.component] for server in servers) / streams
