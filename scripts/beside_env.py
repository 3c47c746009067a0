"""Set up an environment that has what ROSA's own does not, and finds the rest in that one.

    python3 scripts/beside_env.py ray|serve|judges|view [--venv .venv-ray] [--beside .venv]

Ray takes 200 MB, and only servers of several machines need it; Ray Serve, in an environment beside Ray's, is only
compared with. vla-eval and inspect-robots judge policies of anybody; Meta-World pins an older MuJoCo. Foxglove's and
Rerun's libraries check what `rosa view` shows. So they are no part of the set-up. Needs only the standard library, and
does nothing when nothing has changed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from setup_steps import ROOT, Steps, digest, fresh_venv, look_behind, run, status_of

# Name -> what is in it. Its packages, with their versions, are in requirements/NAME-test.txt.
WHAT = {
    "ray": "Ray (about 80 MB to download)",
    "serve": "what Ray Serve needs beside Ray",
    "judges": "vla-eval, inspect-robots and Meta-World (about 130 MB to download)",
    "view": "the libraries of Foxglove and Rerun",
}


def make(name: str, venv: Path, beside: Path) -> None:
    """Make or renew an environment. Raises `SetupError` with what pip said."""
    state = digest(pinned(name), Path(__file__).resolve())
    Steps(venv).step(name, state, f"{venv.name}: {WHAT[name]}", lambda: install(name, venv, beside))


def pinned(name: str) -> Path:
    return ROOT / "requirements" / f"{name}-test.txt"


def install(name: str, venv: Path, beside: Path) -> None:
    """A new environment in `venv`, which finds what it has not in `beside`."""
    pip = fresh_venv(venv, name)
    # Without dependencies: the list holds those that ROSA's own environment has not, or in another version.
    run([*pip, "--no-deps", "--no-compile", "-r", pinned(name)], f"{name}_packages")
    look_behind(venv, beside)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("name", choices=WHAT)
    parser.add_argument("--venv", help="its folder, in the repository; default: .venv-NAME")
    parser.add_argument("--beside", default=".venv", help="ROSA's own environment")
    arguments = parser.parse_args()
    venv = ROOT / (arguments.venv or f".venv-{arguments.name}")
    return status_of(lambda: make(arguments.name, venv, ROOT / arguments.beside))


if __name__ == "__main__":
    raise SystemExit(main())
