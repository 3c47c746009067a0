"""The schedule: placement, routing, batching and rates (ROSA 3.4.1), its predictions, or the causes of a refusal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rosa_contract.config.strict import Reader, read_bounded
from rosa_contract.errors import ConfigError, ConfigProblem
from rosa_contract.setting import setting
from rosa_server.scheduler.problem import StreamClass
from rosa_server.scheduler.profiles.profile import BATCHING

SCHEMA = 1
PREDICTION = "prediction"  # what `rosa plan --json` adds for readers; no part of the schedule
MAX_FILE_BYTES = 64 << 20  # a schedule of 5,000 robots is about 1 MB


# Why something is refused: the closed list of causes, with what each says. `docs/scheduler.md` repeats it.
CAUSES = {
    "slo_unreachable": "a model is too slow for an SLO even under the lightest profiled load",
    "no_batching": "no batching configuration in a model's profile may be used",
    "rate_unreachable": "a round takes too long for min_action_rate_hz, however many servers there are",
    "robot_exceeds_server": "a single robot needs more than one server can serve within the SLO",
    "too_few_servers": "the cluster has fewer servers than needed",
    "no_servers_suffice": "no number of servers was found to be enough",
    "lower_rates_fit": "suggestion: the highest min_action_rate_hz that fit these servers",
    "fewer_robots_fit": "suggestion: how many robots of each task these servers can serve",
    "longer_slos_fit": "suggestion: the limiting SLOs, and how long they would have to be to fit these servers",
    "no_rates_fit": "these servers are not enough at any action rate",
    "none_serves": "proved by a bound: no schedule and no other way of serving the robots can work",
    "not_proved": "no schedule was found, but it is not proved that none exists",
    "task_starved": "under the schedule, robots of a task would never act",
    "servers_full": "a component needs more servers, given the load that one server can carry",
    "rounds_too_long": "robots would wait too long to reach their rate, although servers are not full",
    "slo_missed": "a latency exceeds its SLO (only baselines without rate control)",
    "robots_not_served": "some robots have no server (only baselines)",
}


@dataclass(frozen=True)
class Refusal:
    """Why something is refused, for programs (`cause`, one of `CAUSES`) and for people (`reason`)."""

    cause: str = setting("one of the causes that docs/scheduler.md lists", choices=tuple(CAUSES))
    reason: str = setting("the same in words, with the numbers that matter")

    def __post_init__(self) -> None:
        if self.cause not in CAUSES:
            raise ValueError(f"cause: expected one of {', '.join(CAUSES)}, got {self.cause!r}")


@dataclass(frozen=True)
class ServerPlan:
    """One server: what it hosts and what it is expected to do."""

    id: str = setting("server name")
    models: tuple[str, ...] = setting("hosted models; one, except on a standby and in one baseline")
    components: tuple[str, ...] = setting("components it answers")
    batching: str = setting("static, dynamic or continuous", "static", choices=BATCHING)
    batch: int = setting("largest batch", 1, at_least=1)
    gpu: str = setting(
        "GPU that it shares with the other servers of this name, one batch at a time; empty: it has one to itself",
        "",
    )
    engine: str = setting("engine that its profile was measured with; empty: the backend has only one", "")
    standby: bool = setting("weights loaded, nothing routed", False)
    covers: tuple[str, ...] = setting("servers that this standby can replace", tuple)
    streams: Mapping[StreamClass, int] = setting("'task/component' -> robots routed here", dict)
    rate_hz: float = setting("requests per second expected", 0.0)
    utilisation: float = setting("of the maximum throughput", 0.0)
    mean_ms: Mapping[str, float] = setting("component -> predicted mean latency", dict)
    p99_ms: Mapping[str, float] = setting("component -> predicted latency at the SLO's percentile", dict)

    @property
    def model(self) -> str:
        """The hosted model; several are joined by ' + '."""
        return " + ".join(self.models)


@dataclass(frozen=True)
class Schedule:
    """A full schedule, or a refusal with its reasons. The slots of a task's robots are `task/0`, `task/1`, ..."""

    scheduler: str = setting("what made it")
    gpu_type: str = setting("hardware")
    feasible: bool = setting("every SLO and rate is expected to hold")
    servers: tuple[ServerPlan, ...] = setting("one per GPU in use, or several that take turns on one", tuple)
    robots: Mapping[str, int] = setting("task -> robots", dict, at_least=0)
    rates_hz: Mapping[str, Mapping[str, float]] = setting(
        "task -> component -> calls per second of a robot at most; a mean over the task's robots reaches it",
        dict,
        at_least=0,
    )
    routing: Mapping[str, Mapping[str, str]] = setting("slot -> component -> server", dict)
    capped: bool = setting("robots keep to rates_hz; false: they send as fast as they can", True)
    action_throughput_hz: float = setting("actions per second of the fleet", 0.0)
    objective: float = setting("equation (1): weighted action throughput", 0.0)
    reasons: tuple[Refusal, ...] = setting("why it is refused; the first is the conclusion", tuple)
    limits: tuple[str, ...] = setting("what keeps the rates from being higher", tuple)
    idle_servers: int = setting("servers of the cluster left unused", 0)
    options: Mapping[str, Any] = setting("options of the solver that are not its defaults", dict)
    schema: int = setting("format version", SCHEMA)

    def server(self, server_id: str) -> ServerPlan:
        """A server by name; raises KeyError that lists the known ones."""
        for server in self.servers:
            if server.id == server_id:
                return server
        raise KeyError(
            f"no server {server_id!r} in the schedule; it has {', '.join(s.id for s in self.servers)}"
        )

    @property
    def gpus(self) -> int:
        """How many are in use, standby included."""
        return len({server.gpu or server.id for server in self.servers})

    @property
    def shares_gpus(self) -> bool:
        """Whether models take turns on some GPU."""
        return any(server.gpu for server in self.servers)

    @property
    def holds_for_any_arrivals(self) -> bool:
        """Whether SLOs hold whenever calls come; else as the server lets the planned robots call."""
        return bool(self.options.get("any_arrivals", True))

    @property
    def engines(self) -> dict[str, str]:
        """Model -> the engine that it is served with; models whose backend has only one are left out."""
        return {server.model: server.engine for server in self.servers if server.engine}

    def servers_by_component(self) -> dict[str, int]:
        """Component -> active servers that answer it, as in ROSA Table 3."""
        counts: dict[str, int] = {}
        for server in self.servers:
            if not server.standby:
                for component in server.components:
                    counts[component] = counts.get(component, 0) + 1
        return counts

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `model` is added to every server for readers that expect one."""
        plain: dict[str, Any] = _plain(asdict(self))
        for entry, server in zip(plain["servers"], self.servers, strict=True):
            entry["model"] = server.model
        return plain


def schedule_from(document: Any, source: str = "<schedule>") -> Schedule:
    """A `Schedule` from `to_dict`'s plain values. Raises `ConfigError`."""
    reader = Reader(source)
    entries = reader.mapping("", document)
    reader.finish()
    assert entries is not None
    if entries.get("schema") != SCHEMA:  # first: another version may have other keys
        reader.fail(
            "schema",
            f"expected {SCHEMA}, got {entries.get('schema')!r}; make a new one with `rosa plan --json`",
            "wrong_version",
        )
    reader.finish()
    servers = entries.get("servers", [])
    if isinstance(servers, list):
        servers = [
            {k: v for k, v in s.items() if k != "model"} if isinstance(s, dict) else s for s in servers
        ]
    own = {key: value for key, value in entries.items() if key != PREDICTION}
    schedule = reader.section(Schedule, "", {**own, "servers": servers})
    reader.finish()
    assert isinstance(schedule, Schedule)
    schedule = _with_stream_classes(reader, schedule)
    _check(reader, schedule)
    reader.finish()
    return schedule


def _with_stream_classes(reader: Reader, schedule: Schedule) -> Schedule:
    """A schedule whose streams have their keys as text, as in a file, with the keys that they have in memory."""
    servers = []
    for index, server in enumerate(schedule.servers):
        streams = {}
        for key, count in server.streams.items():
            try:
                streams[StreamClass.parse(str(key))] = count
            except ValueError as error:
                reader.fail(f"servers[{index}].streams.{key}", str(error), "wrong_type")
        servers.append(replace(server, streams=streams))
    return replace(schedule, servers=tuple(servers))


def load_schedule(path: str | Path) -> Schedule:
    """A schedule as `rosa plan --json` printed it. Raises `ConfigError` for anything else."""
    return parse_schedule(read_bounded(path, MAX_FILE_BYTES), str(path))


def parse_schedule(raw: bytes | str, source: str = "<schedule>") -> Schedule:
    """As `load_schedule`, for text that is already in memory."""
    try:
        document = json.loads(raw, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        cause = "duplicate_key" if isinstance(error, _DuplicateKey) else "syntax"
        words = f"not JSON as `rosa plan --json` prints it: {error}"
        raise ConfigError(source, [ConfigProblem("", cause, words)]) from None
    return schedule_from(document, source)


class _DuplicateKey(ValueError):
    """One object, one key, two values."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _DuplicateKey(f"duplicate key {twice!r}")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _check(reader: Reader, schedule: Schedule) -> None:
    known = {server.id: server for server in schedule.servers}
    if len(known) != len(schedule.servers):
        reader.fail("servers", "two servers have the same id", "duplicate_key")
    for index, server in enumerate(schedule.servers):
        if server.gpu and (server.gpu in known or server.standby):
            words = (
                f"{server.gpu!r} is a server itself" if server.gpu in known else "a standby has its own GPU"
            )
            reader.fail(f"servers[{index}].gpu", words, "conflict")
    for slot, routes in schedule.routing.items():
        task, _, number = slot.rpartition("/")
        if not task or not (number.isascii() and number.isdigit()):
            reader.fail(f"routing.{slot}", "expected a slot such as task/0", "unknown_name")
        for component, server_id in routes.items():
            if server_id not in known:
                reader.fail(
                    f"routing.{slot}.{component}", f"no server {server_id!r} in this schedule", "unknown_name"
                )
            elif component not in known[server_id].components:
                reader.fail(
                    f"routing.{slot}.{component}", f"{server_id} does not answer {component}", "conflict"
                )


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value  # numbers keep all digits: a rate that is rounded up may break an SLO


def slot_name(task: str, number: int) -> str:
    """The slot of a robot: `task/number`."""
    return f"{task}/{number}"


def task_of(slot: str) -> str:
    """The task of a slot's robot."""
    return slot.rpartition("/")[0]
