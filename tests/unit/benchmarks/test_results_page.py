"""The first screen of the results says where ROSA wins, by how much, and where it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.paper import gpus
from scripts import results_page

ROOT = Path(__file__).parents[3]
SYSTEMS = (
    "rosa",
    "rosa_published",
    "gpu_per_robot",
    "gpu_per_model",
    "equal_partition",
    "weighted_partition",
)


def point(system: str, hz: float) -> dict[str, Any]:
    return {"scenario": "p4", "system": system, "robots": 64, "qualified_hz": hz}


def result(name: str, aims: list[dict[str, Any]], rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "command": f"python {name}", "aims": aims, "rows": rows}


def gains(ours: float, theirs: float) -> str:
    values = dict.fromkeys(SYSTEMS, 1.0) | {"rosa": ours, "equal_partition": theirs}
    claims = result("claims", [], [])
    claims["points"] = [point(system, hz) for system, hz in values.items()]
    return "\n".join(results_page.gains({"claims": claims}))


def missed(holds: bool) -> str:
    claims = result("claims", [{"aim": "be good", "value": 0.3, "holds": holds}], [])
    return "\n".join(results_page.missed_aims({"claims": claims}))


def test_a_gain_and_a_loss_are_told_apart() -> None:
    assert "| 100, equal partition | 2.00x |" in gains(200.0, 100.0)
    assert "| 200, equal partition | **0.50x** |" in gains(100.0, 200.0)


def test_the_better_reading_of_the_paper_counts() -> None:
    values = dict.fromkeys(SYSTEMS, 1.0) | {
        "rosa": 4.0,
        "rosa_published": 2.0,
        "rosa_published_catch_up": 3.0,
    }
    claims = result("claims", [], []) | {"points": [point(name, hz) for name, hz in values.items()]}
    page = "\n".join(results_page.gains({"claims": claims}))
    assert "| 4 | 3 | 1, one GPU per robot | 4.00x |" in page


def test_fewer_gpus_are_better() -> None:
    row = dict.fromkeys(SYSTEMS, 16) | {"rosa": 8, "workload": "p4", "robots": 64, "actions_hz": 160.0}
    gpus = result("gpus", [], [row])
    assert "| 16, one GPU per robot | 2.00x fewer |" in "\n".join(results_page.gains({"gpus": gpus}))


def test_aims_that_are_missed_are_listed() -> None:
    assert "Of 1 aims 0 hold" in missed(holds=False)
    assert "| [claims](../benchmarks/results/claims.json) | be good | 0.3 |" in missed(holds=False)
    assert "| be good |" not in missed(holds=True)


def test_every_result_says_how_long_it_takes_and_the_quick_ones_are_made_by_make_results() -> None:
    known = set(results_page.QUICK) | set(results_page.SLOW)
    assert {path.stem for path in results_page.RESULTS.glob("*.json")} <= known
    target = (ROOT / "Makefile").read_text().partition("\nresults: ")[2].partition("\n\n")[0]
    assert set(results_page.QUICK) <= set(target.replace(";", " ").split())
    assert "figures" in target


def test_every_figure_is_drawn_and_shown() -> None:
    drawn = {path.stem for path in (results_page.RESULTS / "figures").glob("*.png")}
    assert drawn == set(results_page.FIGURES)


@pytest.mark.parametrize("enough", [4, 5, 16, 17, 128])
def test_the_fewest_servers_are_found(enough: int) -> None:
    assert gpus.fewest(lambda servers: servers >= enough) == enough


def test_more_servers_than_there_are_do_not_suffice() -> None:
    assert gpus.fewest(lambda servers: False) is None
