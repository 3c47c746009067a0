"""A clean-up that is stuck in C, with the interpreter's lock, ends its process and says where."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
STUCK = """
import ctypes, sys
from rosa_client.ros.ending import ends_in_time

def destroy(seconds):
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))  # nothing else of Python runs meanwhile

with ends_in_time(0.5):
    destroy(float(sys.argv[1]))
destroy(0.9)
print("ended")
"""


def end(seconds: float) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", STUCK, str(seconds)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_a_clean_up_that_is_stuck_for_good_ends_with_its_place() -> None:
    stuck = end(600)
    assert (stuck.returncode, stuck.stdout) == (1, "")
    assert "in destroy" in stuck.stderr


def test_one_that_ends_is_left_alone_and_so_is_what_comes_after_it() -> None:
    ended = end(0.0)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ended\n", "")
