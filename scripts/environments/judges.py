"""Set up the environment of `make test-judges`: ROSA's own with two evaluation harnesses and Meta-World beside it.

    PYTHONPATH=scripts python3 scripts/environments/judges.py [--venv .venv-judges] [--beside .venv]

vla-eval and inspect-robots judge policies of anybody; Meta-World pins an older MuJoCo. Needs only the standard
library, and does nothing when nothing has changed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from setup_steps import ROOT, Steps, digest, fresh_venv, look_behind, run, status_of

PINNED = ROOT / "requirements" / "judges-test.txt"


def make(venv: Path, beside: Path) -> None:
    """Make or renew the environment. Raises `SetupError` with what pip said."""
    what = f"{venv.name}: vla-eval, inspect-robots and Meta-World (about 130 MB to download)"
    Steps(venv).step("judges", digest(PINNED, Path(__file__).resolve()), what, lambda: install(venv, beside))


def install(venv: Path, beside: Path) -> None:
    """A new environment in `venv`, which finds what it has not in `beside`."""
    pip = fresh_venv(venv, "judges")
    # Without dependencies: the list holds those that ROSA's own environment has not, or in another version.
    run([*pip, "--no-deps", "--no-compile", "-r", PINNED], "judges_packages")
    look_behind(venv, beside)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--venv", default=".venv-judges", help="its folder, in the repository")
    parser.add_argument("--beside", default=".venv", help="ROSA's own environment")
    arguments = parser.parse_args()
    return status_of(lambda: make(ROOT / arguments.venv, ROOT / arguments.beside))


if __name__ == "__main__":
    raise SystemExit(main())
