"""Obligations of one robot that ask about the same observation cost less on one server than on two."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rosa_server.scheduler.problem import Need, Problem, TaskClass
from rosa_server.scheduler.profiles.catalog import Catalog, Load
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.profiles.profile import (
    CONTINUOUS,
    SCHEMA,
    Configuration,
    LatencyPoint,
    Profile,
    ServiceTime,
)
from rosa_server.scheduler.search.solve import solve

TOGETHER = Options(share_components=True)
MAX_HZ = 10.0


def configuration(engine: str, prefix_share: float) -> Configuration:
    points = tuple(
        LatencyPoint(rate, *(factor * 100 for factor in (1.0, 1.0, 1.1, 1.2, 1.3, 1.4)))
        for rate in (1.0, MAX_HZ)
    )
    service = (ServiceTime(1, 100.0),)
    return Configuration(CONTINUOUS, 8, MAX_HZ, points, service, engine=engine, prefix_share=prefix_share)


def library(prefix_share: float) -> ProfileLibrary:
    def profile(model: str, *configurations: Configuration) -> Profile:
        return Profile(SCHEMA, model, "cpu", "measured", 100.0, 16_000.0, configurations)

    vla = (configuration("isolated", 0.0), configuration("kv_sharing", prefix_share))
    return ProfileLibrary(profiles=(profile("vla", *vla), profile("policy", configuration("", 0.0))))


def problem(engine: str = "kv_sharing", servers: int = 2, monitor_hz: float = 1.0) -> Problem:
    """Four robots: 8 calls of safety and 4 of the monitor a second, on a server for 10."""
    needs = (
        Need("system1", "policy", 2000.0, calls_per_action=1.0),
        Need("safety", "vla", 2000.0, freq_hz=2.0, engine=engine),
        Need("monitor", "vla", 2000.0, freq_hz=monitor_hz, engine=engine),
    )
    return Problem(servers, "cpu", (TaskClass("sort", 4, 0.4, needs),))


@pytest.mark.parametrize(
    ("engine", "prefix_share", "monitor_hz", "feasible"),
    [
        ("kv_sharing", 0.7, 1.0, True),
        ("kv_sharing", 0.0, 1.0, False),
        ("isolated", 0.7, 1.0, False),
        ("kv_sharing", 0.7, 1.3, False),  # its calls do not fall on those of safety
        ("kv_sharing", 0.3, 1.0, False),  # 12 - 0.3 * 4 calls are still more than 10
    ],
)
def test_a_server_less_is_enough_where_prefixes_are_shared(
    engine: str, prefix_share: float, monitor_hz: float, feasible: bool
) -> None:
    found = solve(problem(engine, monitor_hz=monitor_hz), library(prefix_share), TOGETHER)
    assert found.feasible is feasible
    if feasible:
        (shared,) = [server for server in found.servers if server.models == ("vla",)]
        assert set(shared.components) == {"safety", "monitor"}
        assert shared.utilisation == pytest.approx((12 - 0.7 * 4) / MAX_HZ)


def test_with_servers_of_their_own_nothing_is_shared() -> None:
    apart = solve(problem(servers=3), library(0.7), Options())
    assert apart.feasible
    assert sorted(server.utilisation for server in apart.servers if server.models == ("vla",)) == [0.4, 0.8]


def test_what_is_not_known_to_meet_is_not_counted() -> None:
    """Half of the robots on this server: whose monitor meets whose safety is not known."""
    catalog = Catalog(problem(), library(0.7), TOGETHER)
    all_here = [Load("sort", "safety", 4, 2.0, 2000.0), Load("sort", "monitor", 4, 1.0, 2000.0)]
    assert catalog.together("vla", all_here)
    half = [replace(load, streams=2) for load in all_here]
    assert not catalog.together("vla", half)
    assessed = catalog.assess("vla", half)
    assert assessed is not None
    assert assessed.utilisation == pytest.approx(6 / MAX_HZ)
