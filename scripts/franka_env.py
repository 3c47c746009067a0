"""Set up the environment of `make test-franka`: the driver `franka`, and franka-sim, a simulated FR3 that speaks FCI.

    python3 scripts/franka_env.py [--venv .venv-franka]

It is apart from ROSA's own environment because franka-sim needs an older numpy and an older MuJoCo. Needs only the
standard library, and does nothing when nothing has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PINNED = ROOT / "requirements" / "franka-test.txt"


def make(venv: Path) -> None:
    """Make or renew the environment. Raises `CalledProcessError` with what pip said."""
    mark = venv / "rosa-franka.sha256"
    key = hashlib.sha256(PINNED.read_bytes() + Path(__file__).read_bytes()).hexdigest()
    if mark.is_file() and mark.read_text() == key:
        return
    print(f"[setup] {venv.name}: franka-rs and franka-sim (about 150 MB to download) ...", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True)
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    # Without dependencies: the list holds them all, and of franky-sim only the model of the FR3 is used.
    subprocess.run([*pip, "--no-deps", "-r", str(PINNED)], check=True)
    write_model(venv)
    mark.write_text(key)


def write_model(venv: Path) -> None:
    """Put the FR3's MuJoCo model where franka-sim finds it; by itself it would download one of some 100 MB."""
    models = next(venv.glob("lib/python3*/site-packages/franky_sim/assets"))
    text = (models / "fr3.xml").read_text()
    if 'meshdir="assets"' not in text:
        raise SystemExit(f'{models / "fr3.xml"}: expected meshdir="assets"; is it another franky-sim?')
    (venv / "fr3.xml").write_text(text.replace('meshdir="assets"', f'meshdir="{models / "meshes"}"'))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--venv", default=".venv-franka", help="its folder, in the repository")
    try:
        make(ROOT / parser.parse_args().venv)
    except subprocess.CalledProcessError as error:
        print(f"[setup] failed: {' '.join(map(str, error.cmd))}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
