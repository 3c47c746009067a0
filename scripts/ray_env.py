"""Set up the environment of `make test-ray` and `make cluster`: ROSA's own with Ray beside it.

    python3 scripts/ray_env.py [--venv .venv-ray] [--beside .venv]

Ray takes 200 MB, and only servers of several machines need it, so it is no part of the set-up. Needs only the standard
library, and does nothing when nothing has changed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from setup_steps import ROOT, Steps, digest, fresh_venv, look_behind, run, status_of

PINNED = ROOT / "requirements" / "ray-test.txt"


def make(venv: Path, beside: Path) -> None:
    """Make or renew the environment. Raises `SetupError` with what pip said."""
    what = f"{venv.name}: Ray (about 80 MB to download)"
    Steps(venv).step("ray", digest(PINNED, Path(__file__).resolve()), what, lambda: install(venv, beside))


def install(venv: Path, beside: Path) -> None:
    """A new environment in `venv`, which finds what it has not in `beside`."""
    pip = fresh_venv(venv, "ray")
    # Without dependencies: the list holds those that ROSA's own environment has not.
    run([*pip, "--no-deps", "--no-compile", "-r", PINNED], "ray_packages")
    look_behind(venv, beside)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--venv", default=".venv-ray", help="its folder, in the repository")
    parser.add_argument("--beside", default=".venv", help="ROSA's own environment")
    arguments = parser.parse_args()
    return status_of(lambda: make(ROOT / arguments.venv, ROOT / arguments.beside))


if __name__ == "__main__":
    raise SystemExit(main())
