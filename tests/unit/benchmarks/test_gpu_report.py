"""What a lent GPU needs of a benchmark: no package but torch, numpy and OpenCV, no row lost, an end in time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.engines.gpu_report import Report
from benchmarks.gpu.gpu import PARTS

ROOT = Path(__file__).parents[3]
# Found first, so that nothing else of a full environment can be imported: these three, and what they need themselves.
BARE = """
import importlib.abc, runpy, sys
NEEDED = {"torch", "torchgen", "functorch", "numpy", "typing_extensions", "sympy", "mpmath", "networkx", "filelock"}
NEEDED |= {"cv2", "jinja2", "markupsafe", "fsspec", "setuptools", "benchmarks", "rosa_contract", "rosa_server"}
NEEDED |= set(sys.stdlib_module_names)
class OnlyThese(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in NEEDED:
            raise ModuleNotFoundError(f"No module named {name!r}: a bare machine does not have it", name=name)
sys.meta_path.insert(0, OnlyThese())
sys.argv = sys.argv[1:]
sys.path.insert(0, ".")
runpy.run_module(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
def test_every_part_runs_to_its_end_where_only_torch_numpy_and_opencv_are_installed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BARE, "benchmarks.gpu.gpu", "--device", "cpu", "--tiny"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    assert found.keys() == PARTS.keys()
    ways = {name: {row.get("way") for row in report["rows"]} for name, report in found.items()}
    assert ways["kv_sharing"] >= {"isolated", "together", "shared", "batched"}
    assert ways["pipelined_decode"] >= {"static", "batch K", "batch 2K", "continuous", "chunked", "pipelined"}
    assert ways["gpu_pictures"] == {"model", "after", "stacked", "rows"}
    assert {row["batch"] for row in found["gpu_profiles"]["rows"]} == {1, 2}
    for name in ("kv_sharing", "pipelined_decode"):
        [equal] = [aim for aim in found[name]["aims"] if "in 32 bits" in aim["aim"]]
        assert equal["holds"], equal


@pytest.fixture
def report(tmp_path: Path) -> Any:
    return Report("speed", "python speed.py", torch.device("cpu"), tmp_path, 10.0)


def test_each_row_is_on_disk_before_the_next_is_measured(report: Any, tmp_path: Path) -> None:
    for number in range(3):
        report.add({"row": number})
        found = json.loads((tmp_path / "speed.partial").read_text())
        assert [row["row"] for row in found["rows"]] == list(range(number + 1))
    assert not (tmp_path / "speed.json").exists()
    aims = [{"aim": "fast", "value": "yes", "holds": True}]
    assert report.finish(report.rows, aims, None)
    assert json.loads((tmp_path / "speed.json").read_text())["aims"] == aims
    assert [path.name for path in tmp_path.iterdir()] == ["speed.json"]


def test_no_step_begins_that_would_end_too_late(report: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.5, 4.5, 8.5])
    monkeypatch.setattr(f"{type(report).__module__}.time.monotonic", lambda: report._began_s + next(clock))
    assert report.has_time(), "nothing is known yet"
    assert report.has_time(), "it took 4 s, and the next one ends at 8.5 s"
    assert not report.has_time(), "the next one would end at 12.5 s"


def test_a_machine_that_cannot_draw_still_has_its_numbers(
    report: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def draw(path: Path) -> None:
        raise ModuleNotFoundError("No module named 'matplotlib'")

    assert report.finish([], [], draw)
    assert "no picture: No module named 'matplotlib'" in capsys.readouterr().out
    assert (tmp_path / "speed.json").exists()
