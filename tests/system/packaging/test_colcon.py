"""Both ROS 2 packages build with colcon, and what they install can be used without the checkout.

The interfaces that `make setup` has compiled are not compiled again; `make colcon` begins with nothing.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_colcon_builds_and_installs_both_packages(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "colcon_build.py"), "--workspace", str(tmp_path)]
    command += ["--reuse"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
