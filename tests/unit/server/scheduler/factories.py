"""Small factories and profiles for the scheduler's tests."""

from __future__ import annotations

from pathlib import Path

from rosa_contract.config.factory import load_factory
from rosa_server.scheduler.problem import Need, Problem, TaskClass, problem_from
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.deployment import Deployment, deploy
from rosa_server.scheduler.search.solve import solve

CONFIGS = Path(__file__).resolve().parents[4] / "configs"
LIBRARY = ProfileLibrary()
GR00T, BIG, SMALL = "nvidia/GR00T-N1.6-3B", "Qwen2.5-VL-7B-Instruct", "Qwen2.5-VL-3B-Instruct"


def factory(name: str, robots: int | None = None, servers: int | None = None) -> Problem:
    """A shipped factory, with other numbers."""
    problem = problem_from(load_factory(CONFIGS / f"{name}.yaml"))
    problem = problem if robots is None else problem.scaled_to(robots)
    return problem if servers is None else problem.with_servers(servers)


def task(name: str, robots: int, parts: str = "1m", action_s: float = 0.2, **changes: float) -> TaskClass:
    """A class with System 1 and, by letter, System 2 (2), safety (s) and monitor (m)."""
    slo_ms = changes.pop("slo_ms", 200.0)
    needs = [Need("system1", GR00T, slo_ms, calls_per_action=1.0)]
    if "2" in parts:
        needs.append(Need("system2", BIG, 2000.0, calls_per_action=0.1))
    if "s" in parts:
        needs.append(Need("safety", SMALL, 500.0, freq_hz=2.0))
    if "m" in parts:
        needs.append(Need("monitor", BIG, 2000.0, freq_hz=0.5))
    return TaskClass(name, robots, action_s, tuple(needs), **changes)


def pool(servers: int, *classes: TaskClass) -> Problem:
    return Problem(servers, "NVIDIA H200", tuple(classes))


def running(problem: Problem, options: Options | None = None) -> Deployment:
    """A solved problem in operation."""
    options = options or Options()
    schedule = solve(problem, LIBRARY, options)
    assert schedule.feasible, schedule.reasons
    return deploy(problem, Catalog(problem, LIBRARY, options), schedule)
