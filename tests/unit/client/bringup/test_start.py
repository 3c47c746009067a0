"""`python -m rosa_client.bringup` in an environment without ROS 2, as the wheels make one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_without_ros_it_says_what_it_needs_in_one_line(tmp_path: Path) -> None:
    absent = (
        "import runpy, sys\n"
        "sys.modules['ament_index_python'] = sys.modules['rclpy'] = None\n"
        "runpy.run_module('rosa_client.bringup', run_name='__main__')\n"
    )
    command = [sys.executable, "-c", absent]
    ended = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 2
    [line] = ended.stderr.splitlines()
    assert line.startswith("bringup: needs ROS 2") and "make setup" in line
