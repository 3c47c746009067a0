"""What it is worth that the scheduler knows which calls share a prefix, for fleets of the sorting task.

    python benchmarks/shared_prefixes.py

`rosa plan --share-components configs/sort_parts.yaml` for fleets of several sizes, three times: with the engine that
shares nothing; with the engine that shares, as if nothing were known of it (`prefix_share` of the profile taken for
0); and with what `rosa profile` measured. Fewest servers on which each robot acts as often as `--rate` says, and the
rate that is reached on as many servers as are needed when nothing is known. By prediction: the schedules are those
that `rosa serve` would get. Writes benchmarks/results/shared_prefixes.json.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from conclude import Row, conclude

from rosa_contract.config import load_factory
from rosa_server.models.registry import SHARING_ENGINE
from rosa_server.scheduler.problem import Problem, problem_from
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.search.solve import solve

ROOT = Path(__file__).resolve().parents[1]
FACTORY = ROOT / "configs" / "sort_parts.yaml"
RESULT = ROOT / "benchmarks" / "results" / "shared_prefixes.json"
SIZES = (1, 2, 4, 8)
RATE_HZ = 1.5  # of 2.2 to 2.3 that an idle server allows
MOST = 64  # servers
TOGETHER = Options(share_components=True)
ISOLATED, UNKNOWN, KNOWN = "isolated", "shared, not known", "shared, known"


def without_knowledge(library: ProfileLibrary, model: str, gpu_type: str) -> ProfileLibrary:
    """The same profile, in which no call saves anything."""
    profile = library.get(model, gpu_type)
    plain = tuple(replace(one, prefix_share=0.0) for one in profile.configurations)
    return ProfileLibrary(profiles=[replace(profile, configurations=plain)])


def with_engine(problem: Problem, engine: str) -> Problem:
    """The same fleet, its model run by this engine."""
    classes = tuple(
        replace(cls, needs=tuple(replace(need, engine=engine) for need in cls.needs))
        for cls in problem.classes
    )
    return replace(problem, classes=classes)


def rate_on(problem: Problem, library: ProfileLibrary, servers: int) -> float:
    """Actions per second of one robot on so many servers; 0 where they do not suffice."""
    found = solve(problem.with_servers(servers), library, TOGETHER)
    return found.action_throughput_hz / problem.robots if found.feasible else 0.0


def servers_for(problem: Problem, library: ProfileLibrary, rate_hz: float) -> int | None:
    """The fewest servers on which each robot acts so often; None: not even `MOST`."""
    for servers in range(1, MOST + 1):
        if rate_on(problem, library, servers) >= rate_hz * (1 - 1e-6):
            return servers
    return None


def rows_of(robots: int, rate_hz: float, library: ProfileLibrary) -> list[Row]:
    """A fleet of this size, in the three ways."""
    base = problem_from(load_factory(FACTORY)).scaled_to(robots)
    (model,) = {need.model for need in base.needs.values()}
    shared = with_engine(base, SHARING_ENGINE)
    ways = {
        ISOLATED: (with_engine(base, "isolated"), library),
        UNKNOWN: (shared, without_knowledge(library, model, base.gpu_type)),
        KNOWN: (shared, library),
    }
    needed = {way: servers_for(*asked, rate_hz) for way, asked in ways.items()}
    common = needed[UNKNOWN] or MOST
    return [
        {
            "robots": robots,
            "way": way,
            f"servers for {rate_hz:g} Hz each": needed[way],
            "servers": common,
            "Hz of each robot on them": round(rate_on(*asked, common), 2),
        }
        for way, asked in ways.items()
    ]


def aims_of(rows: list[Row], rate_hz: float) -> list[Row]:
    """Knowing never costs anything, and is worth something somewhere."""
    column, rate = f"servers for {rate_hz:g} Hz each", "Hz of each robot on them"
    pairs = [
        (
            next(row for row in rows if (row["robots"], row["way"]) == (robots, UNKNOWN)),
            next(row for row in rows if (row["robots"], row["way"]) == (robots, KNOWN)),
        )
        for robots in sorted({row["robots"] for row in rows})
    ]
    fewer = [unknown[column] - known[column] for unknown, known in pairs]
    faster = [known[rate] / unknown[rate] for unknown, known in pairs]
    return [
        {
            "aim": "who knows what is shared needs no more servers, and is as fast on as many",
            "value": f"{min(fewer)} to {max(fewer)} servers fewer, {min(faster):.2f}x to {max(faster):.2f}x as fast",
            "holds": min(fewer) >= 0 and min(faster) >= 0.995,
        },
        {
            "aim": "for some fleet it needs a server less, or is 5 % faster",
            "value": f"{max(fewer)} servers fewer, {max(faster):.2f}x as fast",
            "holds": max(fewer) >= 1 or max(faster) >= 1.05,
        },
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=RATE_HZ, help="actions per second of each robot")
    parser.add_argument("--profiles", type=Path, help="folder of profiles, instead of the shipped ones")
    args = parser.parse_args()
    library = ProfileLibrary(args.profiles) if args.profiles else ProfileLibrary()
    rows = [row for robots in SIZES for row in rows_of(robots, args.rate, library)]
    aims = aims_of(rows, args.rate)
    note = (
        "The shipped profiles of rosa/panda-vla on a CPU, in CPU time; the rate of a schedule by prediction."
    )
    conclude(RESULT, rows, aims, note)
    return 0 if all(aim["holds"] for aim in aims) else 1


if __name__ == "__main__":
    raise SystemExit(main())
