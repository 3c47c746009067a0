"""`rosa bench fleet SCENARIO`: serving systems executed with a whole fleet, simulated or over real sockets."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Sequence
from typing import Any

from rosa_contract.errors import ConfigError
from rosa_contract.wording import nearest
from rosa_server.scheduler.profiles.library import DEFAULT_ROOT, ProfileLibrary
from rosa_sim.fleet import random_bench
from rosa_sim.fleet.compare import ProgressLine, Row, compare
from rosa_sim.fleet.scenario import STARTS, Loaded, load_scenario
from rosa_sim.fleet.systems import SYSTEMS


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add `bench` to a command line's sub-commands."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "bench", help="execute schedules with a whole fleet, simulated or over real sockets"
    )
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    fleet = kinds.add_parser(
        "fleet",
        help="compare serving systems on the same fleet",
        description="Run ROSA, ROSA as published, and the paper's baselines with the robots of a scenario, and print"
        " raw and SLO-qualified action throughput beside the predictions; see docs/fleet.md.",
    )
    fleet.add_argument(
        "scenario", nargs="?", help="scenario file, or the name of one in configs/scenarios, such as p4"
    )
    fleet.add_argument(
        "--random",
        type=int,
        metavar="N",
        help="instead of a scenario: plan and run N random factories, from both starts and under five"
        " disturbances; the worst are printed again at the end",
    )
    fleet.add_argument(
        "--labs", action="store_true", help="with --random: draw small labs whose models have to share GPUs"
    )
    fleet.add_argument("--first", type=int, default=0, help="with --random: seed of the first factory")
    fleet.add_argument("--robots", help="fleet sizes, such as 8,64; overrides the scenario's")
    fleet.add_argument(
        "--servers", type=int, help="number of servers; overrides the scenario's or the factory's"
    )
    fleet.add_argument("--systems", help=f"comma-separated systems to run: {', '.join(SYSTEMS)}")
    fleet.add_argument("--start", help="how robots start: random, together, or random,together for both")
    fleet.add_argument("--seeds", type=int, help="simulator runs per row")
    fleet.add_argument("--seconds", type=float, help="measured time after the warm-up, s")
    fleet.add_argument(
        "--real",
        action="store_true",
        help="also run over ZeroMQ, with a real gateway and emulated GPU workers",
    )
    fleet.add_argument("--json", action="store_true", help="print one JSON object per row")
    fleet.add_argument(
        "--every-size",
        action="store_true",
        help="assume that backends run every batch size unpadded, whatever their profiles say",
    )
    fleet.add_argument(
        "--profiles",
        default=str(DEFAULT_ROOT),
        help="folder of profiles, <hardware>/<model>.yaml, in addition to the shipped ones",
    )
    return parser


def main(arguments: argparse.Namespace) -> int:
    """Print one row after the other."""
    if arguments.random is not None:
        return _random(arguments)
    if arguments.scenario is None:
        raise ConfigError("scenario", ["is missing; name one, or draw factories with --random"])
    loaded = with_arguments(load_scenario(arguments.scenario), arguments)
    logging.getLogger("rosa.link").setLevel(
        logging.ERROR
    )  # a robot that a baseline does not serve says so every second
    line = ProgressLine()
    runner = None
    if arguments.real:
        from rosa_sim.fleet.live import live_runner

        runner = live_runner(loaded.scenario, line)
    first = True
    for row in compare(
        loaded,
        ProfileLibrary(arguments.profiles, every_size=arguments.every_size, beside=DEFAULT_ROOT),
        runner,
        line,
    ):
        line.clear()
        if arguments.json:
            print(json.dumps(row.plain()), flush=True)
            continue
        if first:
            print(header(), flush=True)
            first = False
        print(shown(row), flush=True)
    return 0


WORST = 10  # that are printed again


def _random(arguments: argparse.Namespace) -> int:
    if arguments.random < 1:
        raise ConfigError("--random", [f"expected at least 1, got {arguments.random}"])
    logging.getLogger("rosa.link").setLevel(logging.ERROR)
    seconds = random_bench.SECONDS if arguments.seconds is None else arguments.seconds
    found = []
    if not arguments.json:
        print(random_bench.header(), flush=True)
    for one in random_bench.all_judged(arguments.random, arguments.first, seconds, arguments.labs):
        found.append(one)
        print(json.dumps(one.plain()) if arguments.json else random_bench.shown(one), flush=True)
    if not arguments.json:
        print(f"\nThe worst of {len(found)}:\n{random_bench.header()}")
        for one in sorted(found, key=random_bench.badness, reverse=True)[:WORST]:
            print(random_bench.shown(one))
    return 0


def with_arguments(loaded: Loaded, arguments: argparse.Namespace) -> Loaded:
    """The scenario with what the command line says instead. Raises `ConfigError` that names the option."""
    changes: dict[str, Any] = {}
    if arguments.robots:
        sizes = arguments.robots.split(",")
        if not all(size.isdecimal() and int(size) > 0 for size in sizes):
            raise ConfigError(
                "--robots", [f"expected whole numbers from 1, such as 8,64; got {arguments.robots!r}"]
            )
        changes["robots"] = tuple(map(int, sizes))
    for option, choices in (("systems", SYSTEMS), ("start", STARTS)):
        given = getattr(arguments, option)
        if given:
            changes[option] = _chosen(f"--{option}", given.split(","), choices)
    for option in ("servers", "seeds"):
        number = getattr(arguments, option)
        if number is not None:
            if number < 1:
                raise ConfigError(f"--{option}", [f"expected at least 1, got {number}"])
            changes[option] = number
    if arguments.seconds is not None:
        if not 0 < arguments.seconds <= 86_400:
            raise ConfigError(
                "--seconds", [f"expected more than 0 and at most a day, got {arguments.seconds:g}"]
            )
        changes["seconds"] = arguments.seconds
    return loaded.changed(**changes)


def _chosen(option: str, names: Sequence[str], choices: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in choices:
            raise ConfigError(
                option, [f"no {name!r}{nearest(name, choices)}; there are {', '.join(choices)}"]
            )
    return tuple(names)


def header() -> str:
    return (
        f"{'system':<19}{'robots':>7} {'start':<9}{'how':<10}{'planned':>8}{'raw':>8}{'qualified':>16}{'limit':>8}"
        f"{'GPU':>6}  meet rate, p99 in ms"
    )


def shown(row: Row) -> str:
    """One line of the table."""
    head = f"{row.system:<19}{row.robots:>7} {row.start:<9}{row.how:<10}{row.predicted_hz:>8.1f}"
    if row.refused:
        return f"{head}  refused: {row.refused}"
    raw, qualified = row.rates_hz["raw"], row.rates_hz["qualified"]
    interval = "" if qualified.half is None else f" +-{qualified.half:.1f}"
    parts = [f"{name} {100 * row.meet[name]:.1f} % {row.p99_ms[name]:.0f}" for name in row.meet]
    served = f"  {row.served} of {row.robots} served" if row.served < row.robots else ""
    return (
        f"{head}{raw.mean:>8.1f}{f'{qualified.mean:.1f}{interval}':>16}{row.limit_hz:>8.1f}{row.utilisation:>6.0%}"
        f"  {', '.join(parts)}{served}"
    )
