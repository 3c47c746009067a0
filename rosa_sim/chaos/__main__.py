"""python -m rosa_sim.chaos [--nodes] [--robot-hours 10000], or
python -m rosa_sim.chaos [--nodes] replay SEED|PLAN.json [--shrink].
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rosa_sim.chaos.night import night
from rosa_sim.chaos.nodes_plan import nodes_plan_of
from rosa_sim.chaos.plan import Plan, plan_of
from rosa_sim.chaos.run import run, shrink

FOLDER = Path(__file__).resolve().parents[2] / ".cache" / "chaos"


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0 when every promise held, 1 when one was broken, 2 for a plan that cannot be read."""
    parser = argparse.ArgumentParser(prog="rosa_sim.chaos", description=__doc__)
    parser.add_argument("--robot-hours", type=float, default=10_000.0, help="simulated, in all")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="summary and failing plans")
    parser.add_argument(
        "--fresh", action="store_true", help="begin anew instead of going on with the folder's run"
    )
    parser.add_argument(
        "--nodes", action="store_true", help="several gateways of one schedule instead of one"
    )
    replay = parser.add_subparsers(dest="command").add_parser("replay", help="one seed or saved plan again")
    replay.add_argument("what", help="a seed, or the path of a saved plan")
    replay.add_argument("--shrink", action="store_true", help="make a failing plan smaller")
    arguments = parser.parse_args(argv)
    draw = nodes_plan_of if arguments.nodes else plan_of
    if arguments.nodes and arguments.folder == FOLDER:
        arguments.folder = FOLDER / "nodes"
    if arguments.command == "replay":
        return _replay(arguments.what, arguments.shrink, arguments.folder, draw)
    return night(
        arguments.robot_hours,
        arguments.first_seed,
        arguments.processes,
        arguments.folder,
        arguments.fresh,
        lambda line: print(line, flush=True),
        draw,
    )


def _replay(what: str, smaller: bool, folder: Path, draw: Callable[[int], Plan]) -> int:
    try:
        plan = draw(int(what)) if what.isdigit() else Plan.load(Path(what))
    except (OSError, ValueError) as error:
        print(f"replay: {error}", file=sys.stderr)
        return 2
    print(plan)
    verdict = run(plan)
    if verdict.rule and smaller:
        verdict = shrink(verdict, lambda line: print(f"  smaller: {line}", flush=True))
        print(verdict.plan)
        path = folder / f"minimal-{plan.seed}.json"
        verdict.plan.save(path, rule=verdict.rule, words=verdict.words)
        print(f"saved {path}")
    print(f"BROKEN {verdict.words}" if verdict.rule else "every promise held")
    print(f"{verdict.robot_hours:.2f} robot-hours, {verdict.events} events, {verdict.wall_s:.1f} s")
    return 1 if verdict.rule else 0


if __name__ == "__main__":
    sys.exit(main())
