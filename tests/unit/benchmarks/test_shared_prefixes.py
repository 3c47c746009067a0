"""The benchmark of what the scheduler knows about shared prefixes: its ways are planned, its aims can be missed."""

from __future__ import annotations

import pytest

from benchmarks.engines import shared_prefixes as bench
from rosa_server.scheduler.profiles.library import ProfileLibrary


@pytest.mark.slow
def test_with_the_shipped_profiles_a_fleet_is_planned_in_all_four_ways() -> None:
    rows = bench.rows_of(4, ProfileLibrary())
    assert [row["way"] for row in rows] == [
        "isolated",
        "shared, when due",
        "shared, unknown",
        "shared",
    ]
    rates = [row["Hz on 1 server"] for row in rows]
    assert 0 < rates[2] < rates[3], "what is known to be shared is not charged for"
    assert all(row["servers for 1.2 Hz"] >= 1 for row in rows)


def test_a_way_that_is_slower_with_what_it_knows_misses_the_aims() -> None:

    def row(robots: int, way: str, hz: float, servers: int) -> dict[str, object]:
        columns = {bench.SERVERS.format(rate_hz): servers for rate_hz in bench.RATES_HZ}
        return {"robots": robots, "way": way, bench.ON_ONE: hz, **columns}

    def fleet(known_hz: float, known: int) -> list[dict[str, object]]:
        return [
            one
            for robots in bench.SIZES
            for one in (
                row(robots, "isolated", 1.0, 2),
                row(robots, "shared, unknown", 1.1, 1),
                row(robots, "shared", known_hz, known),
            )
        ]

    assert [aim["holds"] for aim in bench.aims_of(fleet(1.2, 1))] == [True, True, True]
    assert [aim["holds"] for aim in bench.aims_of(fleet(1.1, 1))] == [True, True, False]
    assert [aim["holds"] for aim in bench.aims_of(fleet(0.9, 3))] == [False, False, False]
