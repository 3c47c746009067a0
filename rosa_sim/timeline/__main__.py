"""python -m rosa_sim.timeline [BAG ...]: draw a run from its bag; without one, the newest run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rosa_client.recording.bag import BagError
from rosa_sim.timeline import write


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m rosa_sim.timeline", description=__doc__)
    parser.add_argument("bag", type=Path, nargs="*", help="bags of one run (default: the newest in runs/)")
    parser.add_argument("--out", type=Path, help="the picture (default: timeline.png beside the first bag)")
    args = parser.parse_args()
    bags = args.bag or newest(Path("runs"))
    if not bags:
        print("no bag below runs/; `make demo` records one, or name one", file=sys.stderr)
        return 2
    try:
        print(write(bags, args.out or bags[0].parent / "timeline.png"))
    except (BagError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def newest(folder: Path) -> list[Path]:
    """The bags of the newest run below `folder`; empty when there is none."""
    runs = {bag.parent for bag in folder.glob("*/*.mcap")}
    latest = max(runs, key=lambda run: run.stat().st_mtime, default=None)
    return sorted(latest.glob("*.mcap")) if latest else []


if __name__ == "__main__":
    raise SystemExit(main())
