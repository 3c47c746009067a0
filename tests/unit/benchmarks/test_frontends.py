"""What the benchmark of the frontends makes of round trips."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from benchmarks.frontends.frontends import (
    GR00T,
    NATIVE,
    OPENPI,
    THROUGH_GR00T,
    THROUGH_OPENPI,
    aims_of,
    row_of,
)
from benchmarks.frontends.peers import ALONE_MS, FULL, FULL_MS, NoAnswer, client
from benchmarks.frontends.peers.rosa import factory
from rosa_contract.config.factory import load_factory


def told(times_ms: list[float], refused: int = 0) -> dict[str, Any]:
    return {"times_ms": times_ms, "refused": ["deadline_missed"] * refused}


def test_a_row_counts_answers_of_all_rounds_and_what_was_refused_as_late() -> None:
    rounds = [[told([100.0, 150.0]), told([250.0, 100.0], refused=1)], [told([100.0]), told([100.0] * 3)]]
    assert row_of(OPENPI, 2, rounds, seconds=2.0) == {
        "peer": OPENPI,
        "clients": 2,
        "calls_per_s": 2.0,
        "p50_ms": 100.0,
        "p99_ms": pytest.approx(243.0),
        "in_time": round(7 / 9, 4),
        "refused": 1,
        "poorest_client": 0.5,
    }


def test_a_peer_that_answers_nothing_has_a_row_too() -> None:
    row = row_of(OPENPI, 1, [[told([], refused=3)]], seconds=1.0)
    assert (row["calls_per_s"], row["in_time"], row["poorest_client"]) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("ours", "p50_ms", "poorest", "holds"),
    [
        (150.0, 24.0, 0.9, [True, True, True]),
        (140.0, 26.0, 0.4, [False, False, False]),
    ],
)
def test_the_aims(ours: float, p50_ms: float, poorest: float, holds: list[bool]) -> None:
    def row(peer: str, clients: int, **changes: float) -> dict[str, Any]:
        return {
            "peer": peer,
            "clients": clients,
            "calls_per_s": 50.0,
            "p50_ms": 20.0,
            "poorest_client": 1.0,
            **changes,
        }

    rows = [row(peer, clients) for peer in (OPENPI, NATIVE, GR00T, THROUGH_GR00T) for clients in (1, 16)]
    rows += [
        row(THROUGH_OPENPI, 1, p50_ms=p50_ms),
        row(THROUGH_OPENPI, 16, calls_per_s=ours, poorest_client=poorest),
    ]
    assert [aim["holds"] for aim in aims_of(rows)] == holds


def test_a_client_counts_only_what_came_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [5.0]
    monkeypatch.setattr(client, "time", SimpleNamespace(monotonic=lambda: now_s[0], sleep=lambda s: None))
    answers = iter((True, False, True, True))

    def call(seen: object) -> None:
        now_s[0] += 0.4
        if not next(answers):
            raise NoAnswer("deadline_missed: too late")

    found = client.measured(SimpleNamespace(call=call), {}, start_s=5.0, seconds=1.5)
    assert found == {"times_ms": [pytest.approx(400.0)] * 2, "refused": ["deadline_missed"]}


def test_the_factory_file_of_the_benchmark_is_one_that_loads(tmp_path: Any) -> None:
    path = factory(tmp_path, 1001, 1002, 1003)
    loaded = load_factory(path)
    assert {name: one.address[1] for name, one in loaded.frontends.items()} == {"openpi": 1002, "gr00t": 1003}
    options = yaml.safe_load(path.read_text())["models"]["policy"]["options"]
    assert options["latency_ms"] + options["per_item_ms"] == pytest.approx(ALONE_MS)
    assert options["latency_ms"] + options["per_item_ms"] * FULL == pytest.approx(FULL_MS)
