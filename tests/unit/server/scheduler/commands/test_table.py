"""A plan on a terminal: whoever reads it is told nothing that the plan does not say."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosa_server.scheduler.commands.table import names, render
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.migration import plan_migration
from rosa_server.scheduler.search.solve import solve
from tests.unit.server.scheduler.factories import LIBRARY, factory


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (["gpu0"], "gpu0"),
        (["gpu0", "gpu1", "gpu2", "gpu5"], "gpu0 to gpu2, gpu5"),
        (["gpu11", "gpu9", "gpu10"], "gpu9 to gpu11"),
        (["standby0", "gpu7", "gpu8"], "gpu7 to gpu8, standby0"),
        (["gpu", "gpu0", "gpu01", "gpu2"], "gpu, gpu01, gpu0, gpu2"),
    ],
)
def test_only_numbers_that_follow_each_other_are_joined(ids: list[str], words: str) -> None:
    assert sorted(names(ids).split(", ")) == sorted(words.split(", "))


@given(st.sets(st.tuples(st.sampled_from(["gpu", "standby"]), st.integers(0, 30)), min_size=1))
def test_a_row_names_its_servers_and_no_others(servers: set[tuple[str, int]]) -> None:
    assert _expanded(names([f"{stem}{number}" for stem, number in servers])) == servers


def test_after_a_migration_every_server_stands_in_one_row() -> None:
    old = solve(factory("factory"), LIBRARY)
    problem = factory("factory", 48)
    new = solve(problem, LIBRARY)
    schedule = plan_migration(old, new, problem, Catalog(problem, LIBRARY, Options())).schedule
    printed = render(schedule, problem)
    rows = re.findall(r"^((?:gpu\d+(?: to |, )?)+)  ", printed, re.M)
    named = [server for row in rows for server in _expanded(row)]
    assert sorted(named) == sorted(("gpu", int(server.id[3:])) for server in schedule.servers), printed


def _expanded(words: str) -> set[tuple[str, int]]:
    found = set()
    for part in words.split(", "):
        ends = [re.fullmatch(r"([a-z]+)(\d+)", end) for end in part.split(" to ")]
        stems = {end[1] for end in ends if end}
        assert len(stems) == 1, words
        numbers = [int(end[2]) for end in ends if end]
        found |= {(stem, n) for stem in stems for n in range(numbers[0], numbers[-1] + 1)}
    return found
