"""Attempts of `make hostile`, each beside two well-behaved robots. The floods are in `test_one_against_all.py`."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from rosa_sim.hostile.attempt import Attempt, AttemptOutcome, calm_server, run_beside
from rosa_sim.hostile.attempts import ATTEMPTS
from rosa_sim.hostile.floods import FLOODS

MIN_IN_TIME = 0.9  # the machine may be busy; `make hostile` demands 0.99
AT_ONCE = 2
TRIED = {one.name: one for one in ATTEMPTS if one not in FLOODS}
Outcomes = dict[str, Future[tuple[AttemptOutcome, str]]]  # what happened, and the end of the server's log


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcomes]:
    """Those that are asked for, side by side, since each mostly waits.

    One calm server for all: what robots miss there is the machine's fault.
    """
    asked = [item.callspec.params["name"] for item in request.session.items if item.path == request.path]  # type: ignore[attr-defined]
    with calm_server(tmp_path_factory.mktemp("calm")) as calm, ThreadPoolExecutor(AT_ONCE) as pool:

        def tried(attempt: Attempt) -> tuple[AttemptOutcome, str]:
            folder = tmp_path_factory.mktemp(attempt.name)
            outcome = run_beside(attempt, folder, 2, MIN_IN_TIME, min_attack_s=0.0, calm=calm)
            return outcome, (folder / "server.log").read_text()[-3000:]

        yield {name: pool.submit(tried, TRIED[name]) for name in asked}


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIED)
def test_what_is_promised_holds(outcomes: Outcomes, name: str) -> None:
    outcome, log = outcomes[name].result()
    assert outcome.holds, (outcome, log)
