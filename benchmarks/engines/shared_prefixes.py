"""What it is worth that the scheduler knows which calls share a prefix, for fleets of the sorting task.

    python -m benchmarks.engines.shared_prefixes

`rosa plan --share-components configs/sort_parts.yaml` for fleets of several sizes, on measured profiles, in four ways:

isolated          the engine that shares nothing; each call leaves when it is due
shared, when due  the engine that shares, as measured; each call leaves when it is due (`share_observation_ms: 0`)
shared, unknown   calls about one observation leave together, but the scheduler takes the profile's `prefix_share` for 0
shared            the same, as `rosa profile` measured it

Fewest servers on which each robot acts at several rates, and the rate of each on one server. By prediction: the
schedules are those that `rosa serve` would get. Writes benchmarks/results/shared_prefixes.json.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from benchmarks import RESULTS, ROOT
from benchmarks.conclude import Row, conclude
from rosa_contract.config.factory import Factory, load_factory
from rosa_server.plan.engines import SHARING_ENGINE
from rosa_server.scheduler.problem import Problem, problem_from
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.search.solve import solve

FACTORY = ROOT / "configs" / "sort_parts.yaml"
RESULT = RESULTS / "shared_prefixes.json"
SIZES = (1, 2, 4, 8)
RATES_HZ = (1.2, 1.5, 1.8, 2.0)  # of 2.2 that an idle server allows
MOST = 64  # servers
ON_ONE, SERVERS = "Hz on 1 server", "servers for {:g} Hz"
TOGETHER = Options(share_components=True)
ISOLATED, WHEN_DUE, UNKNOWN, KNOWN = "isolated", "shared, when due", "shared, unknown", "shared"


def without_knowledge(library: ProfileLibrary, model: str, gpu_type: str) -> ProfileLibrary:
    """The same profile, in which no call saves anything."""
    profile = library.get(model, gpu_type)
    plain = tuple(replace(one, prefix_share=0.0) for one in profile.configurations)
    return ProfileLibrary(profiles=[replace(profile, configurations=plain)])


def each_by_itself(factory: Factory) -> Factory:
    """The same factory, in which no call leaves early to be about another one's observation."""
    tasks = {
        name: replace(task, pipeline=replace(task.pipeline, share_observation_ms=0.0))
        for name, task in factory.tasks.items()
    }
    return replace(factory, tasks=tasks)


def with_engine(problem: Problem, engine: str) -> Problem:
    """The same fleet, its model run by this engine."""
    classes = tuple(
        replace(cls, needs=tuple(replace(need, engine=engine) for need in cls.needs))
        for cls in problem.classes
    )
    return replace(problem, classes=classes)


def rate_on(problem: Problem, library: ProfileLibrary, servers: int) -> float:
    """Actions per second of one robot on `servers` servers; 0 where they do not suffice."""
    found = solve(problem.with_servers(servers), library, TOGETHER)
    return found.action_throughput_hz / problem.robots if found.feasible else 0.0


def servers_for(problem: Problem, library: ProfileLibrary, rate_hz: float) -> int | None:
    """The fewest servers on which each robot acts so often; None: not even `MOST`."""
    for servers in range(1, MOST + 1):
        if rate_on(problem, library, servers) >= rate_hz * (1 - 1e-6):
            return servers
    return None


def rows_of(robots: int, library: ProfileLibrary) -> list[Row]:
    """A fleet of this size, in the four ways."""
    factory = load_factory(FACTORY)
    base = problem_from(factory).scaled_to(robots)
    alone = problem_from(each_by_itself(factory)).scaled_to(robots)
    (model,) = {need.model for need in base.needs.values()}
    shared = with_engine(base, SHARING_ENGINE)
    ways = {
        ISOLATED: (with_engine(alone, "isolated"), library),
        WHEN_DUE: (with_engine(alone, SHARING_ENGINE), library),
        UNKNOWN: (shared, without_knowledge(library, model, base.gpu_type)),
        KNOWN: (shared, library),
    }
    return [
        {
            "robots": robots,
            "way": way,
            ON_ONE: round(rate_on(*asked, 1), 3),
            **{SERVERS.format(rate_hz): servers_for(*asked, rate_hz) for rate_hz in RATES_HZ},
        }
        for way, asked in ways.items()
    ]


def aims_of(rows: list[Row]) -> list[Row]:
    """Knowing never costs anything, and is worth something somewhere."""
    of = {(row["robots"], row["way"]): row for row in rows}

    def against(way: str) -> tuple[list[int], list[float]]:
        """Servers saved and times as fast on one server, with all that is known, against this way."""
        pairs = [(of[robots, KNOWN], of[robots, way]) for robots in SIZES]
        columns = [SERVERS.format(rate_hz) for rate_hz in RATES_HZ]
        fewer = [other[column] - known[column] for known, other in pairs for column in columns]
        return fewer, [known[ON_ONE] / other[ON_ONE] for known, other in pairs if other[ON_ONE]]

    def told(fewer: list[int], faster: list[float]) -> str:
        return f"{min(fewer)} to {max(fewer)} servers fewer, {min(faster):.2f}x to {max(faster):.2f}x as fast on one"

    unknown, isolated = against(UNKNOWN), against(ISOLATED)
    return [
        {
            "aim": "calls that share prefixes need no more servers than isolated ones, and are as fast on one",
            "value": told(*isolated),
            "holds": min(isolated[0]) >= 0 and min(isolated[1]) >= 0.995,
        },
        {
            "aim": "who knows what is shared needs no more servers than who does not, and is as fast on one",
            "value": told(*unknown),
            "holds": min(unknown[0]) >= 0 and min(unknown[1]) >= 0.995,
        },
        {
            "aim": "knowing it saves a server somewhere, or makes robots 5 % faster",
            "value": told(*unknown),
            "holds": max(unknown[0]) >= 1 or max(unknown[1]) >= 1.05,
        },
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--profiles", type=Path, help="folder of profiles, instead of the shipped ones")
    args = parser.parse_args()
    library = ProfileLibrary(args.profiles) if args.profiles else ProfileLibrary()
    rows = [row for robots in SIZES for row in rows_of(robots, library)]
    aims = aims_of(rows)
    note = (
        "The shipped profiles of rosa/panda-vla on a CPU, in CPU time; the rate of a schedule by prediction."
    )
    conclude(RESULT, rows, aims, note)
    return 0 if all(aim["holds"] for aim in aims) else 1


if __name__ == "__main__":
    raise SystemExit(main())
