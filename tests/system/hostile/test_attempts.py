"""Every attempt of `make hostile`, each beside two well-behaved robots."""

from __future__ import annotations

from pathlib import Path

import pytest

from rosa_sim.hostile.attempt import Attempt, run_beside
from rosa_sim.hostile.attempts import ATTEMPTS

MIN_IN_TIME = 0.9  # the machine may be busy; `make hostile` demands 0.99


@pytest.mark.slow
@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.name)
def test_what_is_promised_holds(tmp_path: Path, attempt: Attempt) -> None:
    outcome = run_beside(attempt, tmp_path, robots=2, min_in_time=MIN_IN_TIME)
    assert outcome.holds, (outcome, (tmp_path / "server.log").read_text()[-3000:])
