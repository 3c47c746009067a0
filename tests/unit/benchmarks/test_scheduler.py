"""What the scheduler's benchmarks print names the options and the source of each number."""

from __future__ import annotations

import pytest

from benchmarks.paper import predictions
from benchmarks.scheduling import scheduler as bench
from rosa_server.scheduler.profiles.options import Options


def row(scheduler: str, gap: float) -> dict[str, object]:
    return {"scheduler": scheduler, "servers": 8, "robots": 64, "classes": 1, "solve_s": 0.1, "gap": gap}


def test_the_defaults_are_measured_and_no_miss_is_hidden_behind_another_row() -> None:
    assert bench.VARIANTS["rosa"][0] == Options(), "what `rosa plan` does without options"
    assert all(options == Options() for name, (options, _) in bench.VARIANTS.items() if name in bench.OURS)
    rows = [row("rosa", 0.02), row("rosa, no minimum rates", 0.06) | {"fair_gap": 0.04}, row("paper", 0.5)]
    gaps = {aim["aim"]: (aim["value"], aim["holds"]) for aim in bench.aims_of(rows) if "gap" in aim["aim"]}
    size = "8 servers, 64 robots, 1 classes"
    assert gaps == {
        f"{size}, rosa: gap to the bound under 5 %": ("2.0%", True),
        f"{size}, rosa, no minimum rates: gap to the bound under 5 %": (
            "6.0%, 4.0% asked for by fair shares",
            False,
        ),
    }


def test_a_rate_that_the_paper_does_not_publish_says_how_it_was_inferred(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(predictions, "P4_HZ", {8: 23.9, 16: predictions.P4_HZ[16]})
    monkeypatch.setattr(predictions, "OTHER_HZ", {})
    published, inferred = predictions.rate_rows()
    assert published["published in"] == "4.2"
    assert inferred["published in"] == "inferred: 1.26 x 89.4 / 2.20"
    assert inferred["paper"] == pytest.approx(1.26 * 89.4 / 2.20)
