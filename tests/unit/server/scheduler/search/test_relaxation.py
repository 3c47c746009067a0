"""`rosa plan --bound`: what no schedule exceeds, whoever makes it, with nothing added for safety."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_server.scheduler.placement.obligations import obligation_kinds, provision_obligations
from rosa_server.scheduler.placement.packing import ServerKind
from rosa_server.scheduler.placement.servers import latencies_ms, loop_rate_hz, placed_servers
from rosa_server.scheduler.problem import Problem, TaskClass
from rosa_server.scheduler.profiles.catalog import Catalog, Load
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.search.relaxation import levels, min_servers, upper_bound
from rosa_server.scheduler.search.solve import solve
from tests.examples import examples
from tests.unit.server.scheduler.factories import GR00T, LIBRARY, factory, pool, task

ROUNDING = 1 + 1e-9
SLOS_MS = (150.0, 200.0, 260.0, 300.0, 420.0, 600.0, 2000.0)


def fastest_on_one_server(catalog: Catalog, cls: TaskClass) -> float:
    """The highest rate of robots that share one System 1 server, by bisection down to the last bit."""
    kind, need = ServerKind(GR00T, ("system1",)), cls.needs[0]

    def feasible(rate: float) -> bool:
        placed = placed_servers(catalog, kind, [[Load(cls.name, "system1", cls.robots, rate, need.slo_ms)]])
        return placed is not None and rate <= loop_rate_hz(cls, latencies_ms(placed))

    low, high = 0.0, 1 / cls.action_s
    while low < (low + high) / 2 < high:
        middle = (low + high) / 2
        low, high = (middle, high) if feasible(middle) else (low, middle)
    return low


@pytest.mark.slow
@settings(max_examples=120)
@given(
    st.integers(1, 60),
    st.sampled_from(SLOS_MS),
    st.sampled_from([0.02, 0.05, 0.1, 0.2, 0.5]),
    st.sampled_from([0.0, 5.0]),
    st.booleans(),
)
def test_the_best_that_one_server_can_do_is_below_the_bound_and_close_to_it(
    robots: int, slo_ms: float, action_s: float, network_ms: float, dynamic: bool
) -> None:
    options = Options(network_ms=network_ms, dynamic_batching=dynamic)
    problem = pool(1, task("act", robots, "1", action_s=action_s, slo_ms=slo_ms))
    best = robots * fastest_on_one_server(Catalog(problem, LIBRARY, options), problem.classes[0])
    bound = upper_bound(problem, LIBRARY, options)
    if bound is None:
        assert best == 0
        return
    assert best <= bound * ROUNDING
    assert best >= 0.8 * bound


@pytest.mark.parametrize("slo_ms", SLOS_MS)
@pytest.mark.parametrize("statistic", ["mean", "p99"])
def test_the_curve_of_held_requests_is_convex_and_nowhere_above_what_a_server_holds(
    slo_ms: float, statistic: str
) -> None:
    problem = pool(1, task("act", 4, "1", slo_ms=slo_ms))
    catalog = Catalog(problem, LIBRARY, Options(loop_statistic=statistic, dynamic_batching=True))
    curve = [(0.0, 0.0), *levels(catalog, problem.classes[0].needs[0])]
    slopes = [(y1 - y0) / (x1 - x0) for (x0, y0), (x1, y1) in pairwise(curve)]
    assert slopes == sorted(slopes)
    caps = [catalog.cap(choice, slo_ms) for choice in catalog.configurations(GR00T, "system1")]
    assert curve[-1][0] == pytest.approx(max(caps), rel=1e-8)
    for load in [*(c for c in caps if c > 0), *(max(caps) * step / 997 for step in range(1, 998))]:
        state = catalog.assess(GR00T, [Load("act", "system1", 1, load, slo_ms)])
        assert state is not None
        end = next(i for i in range(1, len(curve)) if curve[i][0] >= load)
        (x0, y0), (x1, y1) = curve[end - 1 : end + 1]
        below = y0 + (y1 - y0) * (load - x0) / (x1 - x0)
        held = load * state.loop_ms["system1"] / 1000
        assert below <= held * ROUNDING


def mixed() -> st.SearchStrategy[Problem]:
    classes = st.lists(
        st.tuples(
            st.integers(1, 24),
            st.sampled_from(["1", "1m", "1s", "12m", "12sm"]),
            st.sampled_from([0.1, 0.2, 0.5]),
            st.sampled_from(SLOS_MS[1:]),
            st.sampled_from([1.0, 3.0]),
        ),
        min_size=1,
        max_size=4,
    )

    def build(servers: int, made: list[tuple[int, str, float, float, float]]) -> Problem:
        tasks = [
            task(f"t{i}", robots, parts, action_s=action_s, slo_ms=slo_ms, weight=weight)
            for i, (robots, parts, action_s, slo_ms, weight) in enumerate(made)
        ]
        return pool(servers, *tasks)

    return st.builds(build, st.integers(1, 10), classes)


SOLVERS: Mapping[str, Options] = {
    "guided": Options(fair_share=0.0),
    "fair": Options(),
    "paper": Options.paper(),
    "p99": Options(loop_statistic="p99", fair_share=0.0),
    "dynamic": Options(dynamic_batching=True, fair_share=0.0),
    "shared": Options(share_components=True, fair_share=0.0),
    "standby": Options(standby=1, fair_share=0.0),
}


@pytest.mark.slow
@pytest.mark.prove
@pytest.mark.parametrize("name", SOLVERS)
@settings(max_examples=examples(10, 25))
@given(problem=mixed())
def test_no_schedule_of_any_solver_exceeds_the_bound(name: str, problem: Problem) -> None:
    schedule = solve(problem, LIBRARY, SOLVERS[name])
    if schedule.feasible:
        bound = upper_bound(problem, LIBRARY, SOLVERS[name])
        assert bound is not None
        assert schedule.objective <= bound * ROUNDING


@settings(max_examples=40)
@given(mixed(), st.booleans())
def test_obligations_never_get_by_with_fewer_servers_than_the_bound_counts(
    problem: Problem, shared: bool
) -> None:
    catalog = Catalog(problem, LIBRARY, Options(share_components=shared))
    provided = provision_obligations(catalog, problem)
    assert provided is not None
    lowest = sum(min_servers(catalog, problem, kind) for kind in obligation_kinds(catalog, problem))
    assert lowest <= len(provided)


def test_whole_streams_count_where_all_obligations_are_alike() -> None:
    problem = factory("paper/p4", 64)
    catalog = Catalog(problem, LIBRARY, Options())
    counts = {k.components: min_servers(catalog, problem, k) for k in obligation_kinds(catalog, problem)}
    assert counts == {("safety",): 2, ("monitor",): 1}
