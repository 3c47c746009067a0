"""How `make test` spreads the tests over processes: see `tests/lanes.py`."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import settings

from tests.lanes import Lane, Lanes, Presence, lane_of, number_of, roles, workers

collect_ignore = [
    "compiled",
    "envs",
    "franka",
    "jax",
    "judges",
    "view",
    "lerobot",
    "ray",
    "vllm",
    "pages",
]  # they need environments of their own, or long: `make test-env`, `make test-franka`, `make test-pages` and so on
# No example is to be found within a time: how fast the machine is, no test says.
settings.register_profile("rosa", parent=settings(), deadline=None)
settings.load_profile("rosa")
# Before numpy and torch are loaded, here and in what tests start: where tests share the cores, threads of one model
# wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("PYTHONFAULTHANDLER", "1")  # a process under test that crashes in C says where
PRESENT: pytest.StashKey[Presence] = pytest.StashKey()
LOW_PRIORITY = 19  # next to nothing, where others want the core
MOST_SHOWN = 4000  # characters of a failure while the run goes on
AUTOGROUP = Path("/proc/self/autogroup")
OBJECTS = 20_000  # new ones between two searches for garbage; Python's 700 are for programs of a few modules
_spent_s: dict[str, float] = {}  # by file, set-up and teardown included
_cpu_s: dict[str, float] = {}  # the same, in processor time, that of ended child processes included
_cpu_before_s: list[float] = [0.0]  # of this process and its children when the last report was made
_spread: list[pytest.Config] = []  # of this process if it has started others and runs no test itself


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    return workers()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Lanes:
    return Lanes(config, log)


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts what it puts in the background with SIGINT ignored, which every process under test would inherit.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    given: dict[str, Any] = getattr(config, "workerinput", {})
    if given:
        gc.disable()  # until it has collected: a seventh of what that takes would be searching for garbage
        config.stash[PRESENT] = Presence()


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (present := session.config.stash.get(PRESENT, None)) is not None:
        present.end()


@pytest.fixture(scope="module", autouse=True)
def _alone(request: pytest.FixtureRequest) -> None:
    """A file that runs alone begins when nothing else runs any more."""
    present = request.config.stash.get(PRESENT, None)
    if present is not None and lane_of(request.node.nodeid) is Lane.ALONE:
        present.wait_for_others()


def _stand_back() -> None:
    """Leave the cores to the others; where Linux shares them out by session (autogroup), as a session of its own."""
    os.nice(LOW_PRIORITY)
    if os.access(AUTOGROUP, os.W_OK):  # not every kernel has it, and a container may not let us
        os.setsid()
        AUTOGROUP.write_text(str(LOW_PRIORITY))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Tests and modules stay to the end: no search for garbage has to look at them, which would take half a second."""
    gc.freeze()
    gc.set_threshold(OBJECTS, *gc.get_threshold()[1:])
    gc.enable()
    given: dict[str, Any] = getattr(session.config, "workerinput", {})
    # Where nothing live runs, nobody has to be left the cores; and other programs of this machine would take them.
    if given and any(lane_of(item.nodeid) is not Lane.BESIDE for item in session.items):
        number = number_of(given["workerid"])
        if number < given["workercount"] and roles(given["workercount"])[number] is Lane.BESIDE:
            _stand_back()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    _spread.append(config)


def _processor_time_s() -> float:
    """What this process has used, with the children of it that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def pytest_runtest_logstart() -> None:
    _cpu_before_s[0] = _processor_time_s()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A report carries the processor time of its phase, from wherever it ran."""
    report = yield
    now_s = _processor_time_s()
    report.cpu_s, _cpu_before_s[0] = now_s - _cpu_before_s[0], now_s
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    file = report.nodeid.partition("::")[0]
    _spent_s[file] = _spent_s.get(file, 0.0) + report.duration
    _cpu_s[file] = _cpu_s.get(file, 0.0) + getattr(report, "cpu_s", 0.0)  # a crashed process sends none
    if report.failed and _spread:  # now, since a run that is cut short prints no summary
        terminal = _spread[0].pluginmanager.getplugin("terminalreporter")
        terminal.write_line(f"\n{report.nodeid} ({report.when}): {report.longreprtext[-MOST_SHOWN:]}")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Which lane the run waited for, and for which of its files."""
    if not _spread:
        return
    terminalreporter.section("lanes")
    for lane in Lane:
        files = sorted(((s, file) for file, s in _spent_s.items() if lane_of(file) is lane), reverse=True)
        longest = ", ".join(
            f"{file.removeprefix('tests/')} {s:.0f} ({_cpu_s[file]:.0f})" for s, file in files[:12]
        )
        terminalreporter.line(
            f"{lane.value}: {sum(s for s, _ in files):.0f} s ({sum(_cpu_s[file] for _, file in files):.0f} s of "
            f"processor time) in {len(files)} files: {longest}"
        )


def pytest_keyboard_interrupt() -> None:
    """Ctrl-C reaches the processes of the terminal's session; hand it on to those that stand back."""
    for process in psutil.Process().children() if _spread else []:
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(process.pid) == process.pid:
                process.send_signal(signal.SIGINT)
