"""What a reader should know beside the table: whether profiles were measured, network time, calls that are too slow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rosa_server.scheduler.commands.notes import notes
from rosa_server.scheduler.problem import Need, Problem, TaskClass
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.search.solve import solve
from tests.unit.server.scheduler.factories import GR00T, LIBRARY, SMALL, pool, task

H200 = "NVIDIA H200"


def of(problem: Problem, library: ProfileLibrary = LIBRARY, network_ms: float = 0.0) -> list[str]:
    schedule = solve(problem, library, Options(network_ms=network_ms))
    assert schedule.feasible, schedule.reasons
    return notes(schedule, problem, library, network_ms)


def watched(freq_hz: float, robots: int) -> Problem:
    needs = (
        Need("system1", GR00T, 200.0, calls_per_action=1.0),
        Need("safety", SMALL, 2000.0, freq_hz=freq_hz),
    )
    return pool(8, TaskClass("kit", robots, 0.2, needs))


def test_derived_profiles_are_said_to_be_estimates() -> None:
    first = of(pool(8, task("kit", 4, "1s")))[0]
    assert first.startswith("All profiles are derived for NVIDIA H200, not measured")


def test_measured_profiles_need_no_warning_and_the_derived_ones_among_them_are_named() -> None:
    measured = replace(LIBRARY.get(GR00T, H200), origin="measured")
    mixed = ProfileLibrary(profiles=[measured, LIBRARY.get(SMALL, H200)])
    assert of(pool(8, task("kit", 4, "1s")), mixed)[0].startswith(f"The profiles of {SMALL} are derived")
    assert not any("derived" in line for line in of(pool(8, task("kit", 4, "1")), mixed))


def test_a_profile_of_an_emulated_model_is_said_to_say_what_it_was_told() -> None:
    emulated = replace(LIBRARY.get(GR00T, H200), origin="emulated")
    mixed = ProfileLibrary(profiles=[emulated, LIBRARY.get(SMALL, H200)])
    lines = of(pool(8, task("kit", 4, "1s")), mixed)
    assert lines[0].startswith(f"The profiles of {SMALL} are derived")
    assert lines[1].startswith(f"The profiles of {GR00T} are of an emulated model: they say what it was told")


def test_network_time_is_named() -> None:
    problem = pool(8, task("kit", 4, "1"))
    assert any("include no network time" in line for line in of(problem))
    assert any("include 10 ms of network time" in line for line in of(problem, network_ms=10.0))


def test_a_call_that_is_due_before_the_last_answer_is_a_warning() -> None:
    (warning,) = [line for line in of(watched(5.0, 12)) if line.startswith("WARNING")]
    assert "safety of kit is called every 200 ms, but its p99 is" in warning
    assert not any(line.startswith("WARNING") for line in of(watched(1.0, 4)))


def test_an_asynchronous_task_is_said_to_have_a_lower_bound_and_what_its_latencies_allow() -> None:
    cls = task("kit", 4, "1")
    assert not any("lower bound" in line for line in of(pool(8, cls)))
    problem = pool(8, replace(cls, asynchronous=True))
    (line,) = [line for line in of(problem) if "lower bound" in line]
    assert line.startswith("kit executes asynchronously")
    could_hz = float(line.split("latencies ")[1].split(" Hz")[0])
    assert could_hz == pytest.approx(1 / cls.action_s, rel=0.01), "inference is shorter than the action"
