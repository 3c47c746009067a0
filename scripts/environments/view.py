"""Set up what `make test-view` adds to ROSA's own environment: the libraries of Foxglove and Rerun.

    PYTHONPATH=scripts python3 scripts/environments/view.py [--venv .venv-view]

Needs only the standard library, and does nothing when nothing has changed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from setup_steps import ROOT, Steps, digest, fresh_venv, run, status_of

PINNED = ROOT / "requirements" / "view-test.txt"


def make(venv: Path) -> None:
    """Make or renew the environment. Raises `SetupError` with what pip said."""
    what = f"{venv.name}: the libraries of Foxglove and Rerun"
    Steps(venv).step("view", digest(PINNED, Path(__file__).resolve()), what, lambda: install(venv))


def install(venv: Path) -> None:
    """A new environment in `venv`, whose packages are put beside ROSA's own."""
    pip = fresh_venv(venv, "view")
    # Without dependencies: the list holds those that ROSA's own environment has not.
    run([*pip, "--no-deps", "--no-compile", "-r", PINNED], "view_packages")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--venv", default=".venv-view", help="its folder, in the repository")
    arguments = parser.parse_args()
    return status_of(lambda: make(ROOT / arguments.venv))


if __name__ == "__main__":
    raise SystemExit(main())
