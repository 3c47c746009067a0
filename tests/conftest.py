"""How `make test` spreads the tests over processes: see `tests/lanes.py`."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import settings

from tests.lanes import Lane, Lanes, lane_of, number_of, roles, workers

collect_ignore = [
    "envs",
    "franka",
    "jax",
    "judges",
    "view",
    "lerobot",
    "ray",
    "vllm",
]  # they need environments of their own: `make test-env`, `make test-franka` and so on
# No example is to be found within a time: how fast the machine is, no test says.
settings.register_profile("rosa", parent=settings(), deadline=None)
settings.load_profile("rosa")
LOW_PRIORITY = 5  # a third of what the others get
_spent_s: dict[str, float] = {}  # by file, set-up and teardown included
_spread: list[bool] = []  # this process has started others and runs no test itself


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    return workers()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config) -> Lanes:
    return Lanes(len(config.getvalue("tx")))


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts what it puts in the background with SIGINT ignored, which every process under test would inherit.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    given: dict[str, Any] = getattr(config, "workerinput", {})
    if given:
        number = number_of(given["workerid"])
        if number < given["workercount"] and roles(given["workercount"])[number] is Lane.BESIDE:
            _stand_back()


def _stand_back() -> None:
    """Leave the cores to the others; where Linux shares them out by session (autogroup), as a session of its own."""
    os.setsid()
    os.nice(LOW_PRIORITY)
    with contextlib.suppress(OSError):  # a kernel without it
        Path("/proc/self/autogroup").write_text(str(LOW_PRIORITY))


def pytest_collection_finish() -> None:
    """Tests and modules stay to the end: no search for garbage has to look at them, which would take half a second."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    _spread.append(True)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    file = report.nodeid.partition("::")[0]
    _spent_s[file] = _spent_s.get(file, 0.0) + report.duration


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Which lane the run waited for, and for which of its files."""
    if not _spread:
        return
    terminalreporter.section("lanes")
    for lane in Lane:
        files = sorted(((s, file) for file, s in _spent_s.items() if lane_of(file) is lane), reverse=True)
        longest = ", ".join(f"{file.removeprefix('tests/')} {s:.0f}" for s, file in files[:12])
        terminalreporter.line(
            f"{lane.value}: {sum(s for s, _ in files):.0f} s in {len(files)} files: {longest}"
        )


def pytest_keyboard_interrupt() -> None:
    """Ctrl-C reaches the processes of the terminal's session; hand it on to those that stand back."""
    for process in psutil.Process().children() if _spread else []:
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(process.pid) == process.pid:
                process.send_signal(signal.SIGINT)
