"""Streams on servers: nothing is lost, no server is too full, and none stays empty while others share."""

from __future__ import annotations

from collections import Counter
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_server.scheduler.placement.packing import Packer, ServerKind
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog, Load
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.search.solve import solve
from tests.unit.server.scheduler.factories import GR00T, LIBRARY, factory, pool, task

CATALOG = Catalog(pool(1, task("any", 1, "1")), LIBRARY, Options())
SYSTEM1 = ServerKind(GR00T, ("system1",))
DEMANDS = st.lists(
    st.tuples(st.integers(1, 40), st.floats(0.2, 4.0), st.sampled_from([200.0, 300.0, 600.0])),
    min_size=1,
    max_size=4,
)


def packer(*demands: tuple[int, float, float]) -> Packer:
    """A packer of System 1 streams, given as (streams, rate in Hz, SLO in ms)."""
    loads = [Load(f"t{i}", "system1", n, rate, slo) for i, (n, rate, slo) in enumerate(demands)]
    return Packer(CATALOG, SYSTEM1, loads)


def test_streams_of_one_class_are_even() -> None:
    packed = packer((16, 3.0, 200.0)).pack_towards(lambda _: 20.0, 7)
    assert packed is not None
    assert sorted(load.streams for loads in packed for load in loads) == [2, 2, 2, 2, 2, 3, 3]


def test_a_spare_server_separates_the_classes_that_share_one() -> None:
    packed = packer((1, 3.0, 200.0), (1, 1.0, 500.0)).pack_towards(lambda _: 20.0, 3)
    assert packed is not None
    assert sorted(load.task for loads in packed for load in loads) == ["t0", "t1"]
    assert len(packed) == 2, "the third has no stream to take"


@settings(max_examples=60)
@given(
    DEMANDS,
    st.integers(0, 30),
    st.sampled_from([3.0, 10.0, 22.0, inf]),
)
def test_packing_towards_a_load_uses_every_server(
    demands: list[tuple[int, float, float]], more: int, target: float
) -> None:
    made = packer(*demands)
    servers = int(made.fewest()) + more
    packed = made.pack_towards(lambda _: target, servers)
    assert packed is not None
    assert len(packed) == min(servers, sum(n for n, _, _ in demands))
    placed = Counter[str]()
    for loads in packed:
        placed.update({load.task: load.streams for load in loads})
        assert CATALOG.assess(GR00T, loads) is not None, "its SLOs hold"
    assert placed == {f"t{i}": n for i, (n, _, _) in enumerate(demands)}


@pytest.mark.parametrize(
    "problem",
    [factory("factory", 530, servers=53), factory("factory", 64, servers=30)],
    ids=["full factory", "idle factory"],
)
def test_no_server_stays_empty_while_others_are_shared(problem: Problem) -> None:
    assert solve(problem, LIBRARY).idle_servers == 0


@settings(max_examples=60)
@given(DEMANDS)
def test_level_packing_needs_no_more_servers_than_the_papers(demands: list[tuple[int, float, float]]) -> None:
    ours = packer(*demands)
    papers = Packer(CATALOG.packed("isolated"), SYSTEM1, ours.demands)
    assert ours.fewest() <= papers.fewest()
    assert ours.pack(int(papers.fewest())) is not None
