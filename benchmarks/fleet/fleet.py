"""Executed against predicted: every shipped factory at 8 to 64 robots, switched on at random and together.

    python -m benchmarks.fleet.fleet [--seeds 2] [--seconds 60] [--resume] [--only p4/96/rosa,p1/8/rosa]

The fleet simulator runs the production classes (docs/fleet.md). Writes benchmarks/results/fleet.json after each row,
and fleet.png at the end. Rows of earlier runs stay until they are measured again; each says at which commit it was.
`--resume` keeps those of the present one, `--only` all others.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import RESULTS, ROOT
from benchmarks.conclude import ON_ONE_CORE, print_aims, write
from benchmarks.provenance import code, measured, measured_at, name_of
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_sim.fleet.compare import ProgressLine, compare
from rosa_sim.fleet.execute import execute
from rosa_sim.fleet.scenario import Loaded, load_scenario
from rosa_sim.fleet.systems import BASELINES, READINGS, ROSA, fleet_of, system_of, without_limits

RESULT = RESULTS / "fleet"
LIBRARY = ProfileLibrary()
FACTORIES = ("p1", "p2", "p3", "p4", "mix2", "mix4", "figure3")
OTHERS = (*READINGS, *BASELINES)
WITHIN, MIN_MEET = 0.03, 0.99
LARGE = (1000, 125, 600.0)  # robots, servers, simulated seconds
LARGE_AIM_S = 120.0
MAX_LARGE_S = 3600.0  # wall time, compiling included
COMPILED = ROOT / "scripts" / "compiled.py"
# P4: executed actions/s in an independent model of the same plans and profiles, by robots.
INDEPENDENT_P4_HZ = {8: 25.8, 16: 46.5, 32: 80.2, 64: 64.4}
Row = dict[str, Any]


def plan_of(seeds: int, seconds: float, large_s: float = LARGE[2]) -> list[tuple[Row, Callable[[], Row]]]:
    """ROSA on every factory, the other systems on P4, and one large fleet for the simulator's own speed."""
    say = ProgressLine()
    plan: list[tuple[Row, Callable[[], Row]]] = []
    for name in FACTORIES:
        loaded = load_scenario(name).changed(seeds=seeds, seconds=seconds)
        for system in (ROSA, *(OTHERS if name == "p4" else ())):
            for robots in loaded.scenario.robots:
                for start in loaded.scenario.start:
                    one = loaded.changed(systems=(system,), robots=(robots,), start=(start,))
                    plan.append((_head(name, system, robots, start), partial(_row, one, say)))
    plan.append((_head("p4", "speed", LARGE[0], "random"), partial(large_fleet, say, large_s)))
    plan.append((_head("p4", "speed_compiled", LARGE[0], "random"), partial(large_fleet_compiled, large_s)))
    return plan


def _head(scenario: str, system: str, robots: int, start: str) -> Row:
    return {"scenario": scenario, "system": system, "robots": robots, "start": start}


def _row(loaded: Loaded, say: ProgressLine) -> Row:
    (row,) = compare(loaded, LIBRARY, None, say)
    say.clear()
    return row.plain()


def large_fleet(say: ProgressLine, seconds: float) -> Row:
    """1,000 robots on one core."""
    robots, servers, _ = LARGE
    loaded = load_scenario("p4").changed(warm_up_s=0.0, seconds=seconds)
    factory = without_limits(fleet_of(loaded.factory, robots, servers))
    system = system_of(ROSA, factory, LIBRARY, loaded.scenario.service_variation)
    begun_s = time.process_time()
    outcome = execute(
        loaded.scenario,
        factory,
        system,
        "random",
        0,
        lambda now_s, end_s: say(f"{now_s:.0f} of {end_s:.0f} s"),
    )
    say.clear()
    cpu_s = time.process_time() - begun_s
    return {
        "servers": servers,
        "simulated_s": seconds,
        "cpu_s": round(cpu_s, 1),
        "events": outcome.events,
        "events_per_s": round(outcome.events / cpu_s),
        "executed_hz": round(outcome.executed_hz, 1),
    }


def large_fleet_compiled(seconds: float) -> Row:
    """The same with the cores compiled, in a process of its own."""
    command = [
        sys.executable,
        str(COMPILED),
        "-m",
        "benchmarks.fleet.fleet",
        "--speed",
        "--large-seconds",
        str(seconds),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=MAX_LARGE_S)
    row: Row = json.loads(done.stdout)
    return row


def aims_of(found: Sequence[Row]) -> list[Row]:
    """What plans promise, and what the simulator must be able to do."""
    ours = [row for row in found if row["system"] == ROSA and not row["refused"]]
    offs = {name_of(row): row["executed_hz"] / row["predicted_hz"] - 1 for row in ours}
    simple = {
        name: off for name, off in offs.items() if name.startswith(("p1 ", "p2 ", "p3 ")) and "64" not in name
    }
    meets = {name_of(row): min(row["meet"].items(), key=lambda item: item[1]) for row in ours}
    worst = min(meets, key=lambda name: meets[name][1])
    large = [row for row in found if row["system"].startswith("speed")]
    alike = {(row["simulated_s"], row["events"], row["executed_hz"]) for row in large}
    return [
        _not_below("never more than 3 % below what is planned, every factory, size and start", offs, WITHIN),
        _within("P1 to P3 at 8 to 32 robots within 0.3 % of planned", simple, 0.003),
        {
            "aim": "every component in time in at least 99 % of its calls",
            "value": f"least: {meets[worst][0]} {meets[worst][1]:.1%} at {worst}",
            "holds": meets[worst][1] >= MIN_MEET,
        },
        *(
            {
                "aim": f"{row['robots']} robots for 10 minutes in under {LARGE_AIM_S:.0f} s of one core"
                + (", cores compiled" if row["system"] == "speed_compiled" else ""),
                "value": f"{_whole_s(row):.0f} s of CPU time{_measured_over(row)}, {row['events_per_s']} events/s",
                "holds": _whole_s(row) < LARGE_AIM_S,
            }
            for row in large
        ),
        {
            "aim": "compiled cores have the same events and actions",
            "value": ", ".join(
                f"{events} events, {hz} actions/s over {seconds:g} s" for seconds, events, hz in alike
            ),
            "holds": len(alike) == 1,
        },
    ]


def _whole_s(row: Row) -> float:
    """CPU time of the ten minutes, from what was measured."""
    return float(row["cpu_s"] * LARGE[2] / row["simulated_s"])


def _measured_over(row: Row) -> str:
    return "" if row["simulated_s"] == LARGE[2] else f" (measured over {row['simulated_s']:g} s)"


def _not_below(aim: str, offs: dict[str, float], limit: float) -> Row:
    """What is promised. Servers with room let robots act faster than that, which is no fault; how much is said."""
    lowest, highest = min(offs, key=offs.__getitem__), max(offs, key=offs.__getitem__)
    holding, within = (
        sum(off >= -limit for off in offs.values()),
        sum(abs(off) <= limit for off in offs.values()),
    )
    value = (
        f"{holding} of {len(offs)}; lowest {offs[lowest]:+.1%} at {lowest}, highest {offs[highest]:+.1%} at {highest};"
        f" {within} within 3 % either way"
    )
    return {"aim": aim, "value": value, "holds": offs[lowest] >= -limit}


def _within(aim: str, offs: dict[str, float], limit: float) -> Row:
    worst = max(offs, key=lambda name: abs(offs[name]))
    holding = sum(abs(off) <= limit for off in offs.values())
    value = f"{holding} of {len(offs)}; worst {offs[worst]:+.1%} at {worst}"
    return {"aim": aim, "value": value, "holds": abs(offs[worst]) <= limit}


def plot(found: Sequence[Row], path: Path) -> None:
    """Executed over planned throughput by robots: one line per factory and start."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9.5, 3.8), sharey=True)
    for axis, start in zip(axes, ("random", "together"), strict=True):
        for name in FACTORIES:
            points = [
                (row["robots"], row["qualified_hz"] / row["predicted_hz"])
                for row in found
                if (row["scenario"], row["system"], row["start"]) == (name, ROSA, start)
                and not row["refused"]
            ]
            axis.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name.upper())
        axis.axhspan(1 - WITHIN, 1 + WITHIN, color="0.85", zorder=0)
        axis.set_xscale("log", base=2)
        axis.set_xticks([8, 16, 32, 64], ["8", "16", "32", "64"])
        axis.set_xlabel("robots on 8 servers")
        axis.set_title(f"switched on {'at random' if start == 'random' else 'together'}", fontsize=9)
    axes[0].set_ylabel("SLO-qualified actions/s, executed / planned")
    axes[1].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--resume", action="store_true", help="keep what was measured at this commit")
    parser.add_argument("--large-seconds", type=float, default=LARGE[2], help="of the large fleet, simulated")
    parser.add_argument("--speed", action="store_true", help="only print what the large fleet takes")
    parser.add_argument(
        "--only",
        type=lambda text: frozenset(text.split(",")),
        default=frozenset(),
        metavar="SCENARIO/ROBOTS/SYSTEM,...",
        help="run these again; the other rows stay",
    )
    arguments = parser.parse_args()
    logging.getLogger("rosa.link").setLevel(
        logging.ERROR
    )  # whom a baseline does not serve says so every second
    if arguments.speed:
        print(json.dumps(large_fleet(ProgressLine(), arguments.large_seconds)))
        return
    options = f"--seeds {arguments.seeds} --seconds {arguments.seconds:g}"
    if arguments.large_seconds != LARGE[2]:
        options += f" --large-seconds {arguments.large_seconds:g}"
    file = RESULT.with_suffix(".json")
    before = json.loads(file.read_text())["rows"] if file.is_file() else []
    plan = plan_of(arguments.seeds, arguments.seconds, arguments.large_seconds)

    def again(row: Row) -> bool:
        wanted = not arguments.only or f"{row['scenario']}/{row['robots']}/{row['system']}" in arguments.only
        return wanted and not (arguments.resume and row.get("commit") == code())

    found = before
    for row, found in measured(plan, before, again):
        print(json.dumps(row), flush=True)
        aims = aims_of(found) if len(found) == len(plan) else []
        write(file, found, aims, notes_of(found), options, ON_ONE_CORE)
    plot(found, RESULT.with_suffix(".png"))
    print_aims(aims_of(found))


def notes_of(found: Sequence[Row]) -> list[str]:
    return [
        measured_at(found),
        "Plans are those of `rosa plan` with its defaults and the derived H200 profiles; times vary by 3 %.",
        "An independent model of the same P4 plans executes "
        + ", ".join(f"{hz:g} actions/s at {robots}" for robots, hz in INDEPENDENT_P4_HZ.items())
        + " robots; docs/fleet.md says where this simulator differs and why.",
    ]


if __name__ == "__main__":
    main()
