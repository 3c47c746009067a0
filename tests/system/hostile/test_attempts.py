"""Attempts of `make hostile`, each beside two well-behaved robots. The floods are in `test_one_against_all.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rosa_sim.hostile.attempt import Attempt, calm_server, run_beside
from rosa_sim.hostile.attempts import ATTEMPTS
from rosa_sim.hostile.floods import FLOODS

MIN_IN_TIME = 0.9  # the machine may be busy; `make hostile` demands 0.99


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for all attempts: what robots miss there is the machine's fault."""
    with calm_server(tmp_path_factory.mktemp("calm")) as endpoint:
        yield endpoint


@pytest.mark.slow
@pytest.mark.parametrize(
    "attempt", [one for one in ATTEMPTS if one not in FLOODS], ids=lambda attempt: str(attempt.name)
)
def test_what_is_promised_holds(tmp_path: Path, calm: str, attempt: Attempt) -> None:
    outcome = run_beside(attempt, tmp_path, robots=2, min_in_time=MIN_IN_TIME, min_attack_s=0.0, calm=calm)
    assert outcome.holds, (outcome, (tmp_path / "server.log").read_text()[-3000:])
