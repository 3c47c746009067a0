"""The tutorials do what they say: their files are written and their commands are run, in the order of the page.

Those that start robots, and all other pages, are in tests/pages.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rosa_sim.ports import free_port
from tests.reader import Reader


@pytest.fixture
def reader() -> Iterator[Reader]:
    # A Unix socket's path has at most 107 bytes, which pytest's own folders may exceed.
    folder = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    one = Reader(folder, free_port())
    yield one
    one.end()
    shutil.rmtree(folder)


def test_a_model_of_ones_own_is_served_and_asked(reader: Reader) -> None:
    printed = reader.do("tutorials/own_model")
    assert "my_cell.yaml: a valid factory file" in printed
    assert re.findall(r"actions \((\d+), (\d+)\) in", printed) == [("16", "7")] * 5


def test_a_factory_of_ones_own_is_planned(reader: Reader) -> None:
    printed = reader.do("tutorials/own_factory")
    assert printed.count("What limits the rates") >= 3
    assert "6 robots on 2 x NVIDIA H200" in printed
    assert "30 robots on 2 x NVIDIA H200" in printed


def test_a_checkpoint_becomes_a_factory_in_five_commands(reader: Reader) -> None:
    printed = reader.do("tutorials/checkpoint_to_factory")
    assert "camera front: 640x480 px" in printed and "made   actions: float32 (16, 8)" in printed
    assert "lab--policy.yaml: derived" in printed
    assert "4 robots on 1 x NVIDIA RTX 4090" in printed
    assert "All profiles are derived for NVIDIA RTX 4090, not measured on it" in printed
    assert re.search(r"round [1-9]\d*, executing; system1 \d+ of 5000 ms", printed) and "timed_out" in printed
    assert "16 actions of 8 values in " in printed
