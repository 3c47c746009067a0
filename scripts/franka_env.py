"""Set up the environment of `make test-franka`: the driver `franka`, and franka-sim, a simulated FR3 that speaks FCI.

    python3 scripts/franka_env.py [--venv .venv-franka]

It is apart from ROSA's own environment because franka-sim needs an older numpy and an older MuJoCo. Needs only the
standard library, and does nothing when nothing has changed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from setup_steps import ROOT, SetupError, Steps, digest, fresh_venv, run, status_of

PINNED = ROOT / "requirements" / "franka-test.txt"


def make(venv: Path) -> None:
    """Make or renew the environment. Raises `SetupError` with what pip said."""
    what = f"{venv.name}: franka-rs and franka-sim (about 150 MB to download)"
    Steps(venv).step("franka", digest(PINNED, Path(__file__).resolve()), what, lambda: install(venv))


def install(venv: Path) -> None:
    """A new environment in `venv`."""
    pip = fresh_venv(venv, "franka")
    # Without dependencies: the list holds them all, and of franky-sim only the model of the FR3 is used.
    run([*pip, "--no-deps", "-r", PINNED], "franka_packages")
    write_model(venv)


def write_model(venv: Path) -> None:
    """Put the FR3's MuJoCo model where franka-sim finds it; by itself it would download one of some 100 MB."""
    models = next(venv.glob("lib/python3*/site-packages/franky_sim/assets"))
    text = (models / "fr3.xml").read_text()
    if 'meshdir="assets"' not in text:
        raise SetupError(f'{models / "fr3.xml"}: expected meshdir="assets"; is it another franky-sim?')
    (venv / "fr3.xml").write_text(text.replace('meshdir="assets"', f'meshdir="{models / "meshes"}"'))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--venv", default=".venv-franka", help="its folder, in the repository")
    venv = ROOT / parser.parse_args().venv
    return status_of(lambda: make(venv))


if __name__ == "__main__":
    raise SystemExit(main())
