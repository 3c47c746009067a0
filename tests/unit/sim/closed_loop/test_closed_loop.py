"""Pieces are drawn as they went in physics, robots finish them as their actions come, and physics runs in the loop."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rosa_contract.config.robot import load_robot
from rosa_contract.config.tasks import Task
from rosa_server.models.panda.flow_policy import FlowPolicyBackend
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.closed_loop.cells import DONE, FAILED, ONGOING, DrawnCell, PieceCell
from rosa_sim.closed_loop.fleet import ClosedLoop, FleetTally
from rosa_sim.closed_loop.physics import PERIOD_S, PhysicalCell, trials
from rosa_sim.closed_loop.table import PieceTrial, Table, summary
from rosa_sim.fleet.execute import execute
from rosa_sim.fleet.measure import Outcome
from rosa_sim.fleet.scenario import Body, load_scenario
from rosa_sim.fleet.systems import fleet_of, system_of, without_limits
from rosa_sim.training.data.pictures import POLICY_CAMERAS

ROOT = Path(__file__).parents[4]
STEPS = 4  # of 50 ms
GOOD, SLOW, EASY, BAD = (
    PieceTrial(True, 20.0),
    PieceTrial(True, 40.0),
    PieceTrial(True, 10.0),
    PieceTrial(False, 10.0),
)


def table(*found: PieceTrial) -> Table:
    return Table({(STEPS, 0.0, 100.0): found, (STEPS, 0.0, 200.0): found, (STEPS, 250.0, 100.0): found})


def played(cell: DrawnCell, chunks: int, latency_s: float = 0.05) -> str:
    """How a piece stands after this number of chunks."""
    cell.begin(0.0)
    for number in range(chunks):
        cell.play(number * 0.3, latency_s, None)
    return cell.truth(chunks * 0.3)


def test_a_piece_takes_as_many_chunks_as_in_physics() -> None:
    cell = DrawnCell(table(GOOD), STEPS, 0.05, Random(0))
    assert [played(cell, chunks) for chunks in (19, 20)] == [ONGOING, DONE]
    cell = DrawnCell(table(BAD), STEPS, 0.05, Random(0))
    assert [played(cell, chunks) for chunks in (9, 10)] == [ONGOING, FAILED]


def test_an_older_observation_or_an_arm_at_rest_makes_another_share_of_a_chunk_and_in_between_it_is_linear() -> (
    None
):
    cells = {(STEPS, 0.0, 100.0): [SLOW], (STEPS, 0.0, 200.0): [GOOD], (STEPS, 250.0, 100.0): [EASY]}
    piece = Table(cells).draw(STEPS, Random(0))
    moving = [piece.share(0.0, ms) for ms in (0, 100, 150, 200, 900)]
    assert moving == pytest.approx([0.025, 0.025, 0.0375, 0.05, 0.05])
    rested = [piece.share(ms, 100.0) for ms in (0, 125, 250, 9000)]
    assert rested == pytest.approx([0.025, 0.0625, 0.1, 0.1])
    assert piece.share(9000.0, 200.0) == pytest.approx(0.1), "an arm at rest does not change while it waits"


def test_a_cell_that_has_held_still_before_the_look_goes_by_its_rest() -> None:
    cells = {(STEPS, 0.0, 100.0): [SLOW], (STEPS, 250.0, 100.0): [EASY]}
    cell = DrawnCell(Table(cells), STEPS, 0.05, Random(0))
    cell.begin(0.0)
    for number in range(10):  # 0.4 s of rest, then the look, 0.1 s before the chunk
        cell.play(number * 0.7, 0.1, None)
    assert cell.truth(10.0) == DONE, "each was a tenth"
    cell.begin(20.0)
    for number in range(10):  # the look at the very end of the chunk before
        cell.play(20.0 + number * 0.3, 0.1, None)
    assert cell.truth(30.0) == ONGOING


def test_what_is_held_back_makes_no_progress() -> None:
    cell = DrawnCell(table(PieceTrial(True, 1.0)), STEPS, 0.05, Random(0))
    cell.begin(0.0)
    cell.play(1.0, 0.05, None)
    cell.hold(1.1)  # half of the chunk
    assert cell.truth(9.0) == ONGOING
    cell.play(10.0, 0.05, None)
    assert [cell.truth(10.09), cell.truth(10.1)] == [ONGOING, DONE]


def test_draws_follow_the_trials() -> None:
    found = [GOOD] * 6 + [SLOW] * 3 + [BAD]
    drawn, random = table(*found), Random(1)
    pieces = [drawn.draw(STEPS, random) for _ in range(4000)]
    assert sum(piece.done(0.0) for piece in pieces) / 4000 == pytest.approx(0.9, abs=0.02)
    assert sum(piece.share(0.0, 100.0) == 1 / 40 for piece in pieces) / 4000 == pytest.approx(0.3, abs=0.03)


def test_a_table_is_read_and_says_what_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "trials.json"
    cell = {"steps": STEPS, "rest_ms": 0.0, "latency_ms": 50.0, "trials": [[True, 20.0], [False, 3.5]]}
    path.write_text(json.dumps({"trials": [cell]}))
    read = Table.read(path)
    assert (read.horizons, read.pieces) == ((STEPS,), 2)
    assert read.error(STEPS) == pytest.approx(((20 - 3.5) ** 2 / 2) ** 0.5 / 2**0.5 / 11.75)
    with pytest.raises(ValueError, match=r"horizon of 7 steps; there are 4"):
        read.draw(7, Random(0))
    with pytest.raises(ValueError, match="as many trials in every cell"):
        Table({(STEPS, 0.0, 50.0): [GOOD], (STEPS, 0.0, 100.0): [GOOD, BAD]})
    with pytest.raises(ValueError, match="one latency at which rests were measured"):
        Table({(STEPS, 0.0, 50.0): [GOOD], (STEPS, 90.0, 100.0): [GOOD]})


def test_a_row_says_how_sure_it_is() -> None:
    row = summary(STEPS, 0.0, 50.0, [GOOD] * 45 + [SLOW] * 45 + [BAD] * 10)
    low, high = row["success_95"]
    assert (row["success"], row["rounds"]) == (0.9, 30.0)
    assert low == pytest.approx(0.826, abs=0.002) and high == pytest.approx(0.945, abs=0.002)
    assert row["rounds_95"] == pytest.approx(1.96 * 10.06 / 90**0.5, abs=0.02)


def fleet(found: Table, robots: int, seconds: float = 40.0, seed: int = 0) -> tuple[FleetTally, Outcome]:
    logging.getLogger("rosa.link").setLevel(logging.ERROR)
    factory = without_limits(fleet_of(load_scenario("p4").factory, robots))
    system = system_of("rosa", factory, ProfileLibrary(), 0.03)
    scenario = replace(
        load_scenario("p4").scenario, seconds=seconds, warm_up_s=10.0, body=Body(operator_s=5.0)
    )
    tally = FleetTally(10.0, 10.0 + seconds)

    def cell_of(name: str, task: Task) -> PieceCell:
        return DrawnCell(found, STEPS, 0.05, Random(f"{seed} {name}"))

    def make(*args: object, **kwargs: object) -> ClosedLoop:
        return ClosedLoop(*args, cell_of=cell_of, tally=tally, **kwargs)

    return tally, execute(scenario, factory, system, "random", seed, make=make)


@pytest.mark.slow
def test_robots_finish_pieces_one_after_another_and_as_often_as_they_act() -> None:
    tally, outcome = fleet(table(GOOD), 8)
    pieces = sum(tally.finished.values())
    # 20 actions are one piece; up to 2 s until the monitor looks, a few actions meanwhile, and 2 s until the next one.
    per_piece = outcome.executed_hz * 40.0 / pieces
    assert 20 <= per_piece <= 29
    assert len(tally.finished) == 8 and tally.failed == 0
    assert sum(tally.per_hour(8)) == pytest.approx(pieces * 90)
    assert fleet(table(GOOD), 8)[0] == tally, "the same seed, the same pieces"


@pytest.mark.slow
def test_a_harder_piece_takes_longer_and_a_failed_one_is_followed_by_the_next() -> None:
    easy, hard = fleet(table(GOOD), 8)[0], fleet(table(SLOW), 8)[0]
    assert sum(hard.finished.values()) < 0.75 * sum(easy.finished.values())
    mixed = fleet(table(GOOD, GOOD, BAD), 8)[0]
    assert mixed.failed > 0 and sum(mixed.finished.values()) > 0
    assert len([None for one in fleet(table(BAD), 8)[0].finished.values() if one]) == 0


def test_a_table_that_was_measured_comes_with_the_results() -> None:
    read = Table.read(ROOT / "benchmarks" / "results" / "closed_loop_trials.json")
    assert STEPS in read.horizons and read.pieces >= 32


@pytest.mark.slow
def test_physics_finishes_a_piece_within_the_fleet_and_alone() -> None:
    policy, renderer = FlowPolicyBackend(), SceneRenderer(POLICY_CAMERAS)
    policy.load()
    alone = trials(8, 0.05, [2_000_000], policy, renderer)
    assert alone[0].done and 6 < alone[0].rounds < 20
    factory = without_limits(fleet_of(load_scenario("p4").factory, 1))
    system = system_of("rosa", factory, ProfileLibrary(), 0.0)
    scenario = replace(load_scenario("p4").scenario, seconds=20.0, warm_up_s=0.0)
    tally = FleetTally(0.0, 20.0)
    cells: list[PhysicalCell] = []

    def cell_of(name: str, task: Task) -> PieceCell:
        cells.append(PhysicalCell(renderer, count(2_000_000), STEPS))
        return cells[-1]

    def make(*args: object, **kwargs: object) -> ClosedLoop:
        spec = load_robot(ROOT / "configs" / "robots" / "panda.yaml")
        return ClosedLoop(*args, cell_of=cell_of, tally=tally, policy=policy, spec=spec, **kwargs)

    execute(scenario, factory, system, "random", 0, make=make)
    renderer.close()
    assert (sum(tally.finished.values()), tally.failed) == (1, 0)
    assert cells[0].world.seed == 2_000_001, "the next piece lies there"


@pytest.mark.slow
def test_looks_and_chunks_of_a_trial_fall_anywhere_between_two_setpoints(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy, renderer = FlowPolicyBackend(), SceneRenderer(POLICY_CAMERAS)
    policy.load()
    began_s: list[float] = []
    play = PhysicalCell.play

    def noted(cell: PhysicalCell, now_s: float, latency_s: float, actions: Any) -> None:
        began_s.append(now_s)
        play(cell, now_s, latency_s, actions)

    monkeypatch.setattr(PhysicalCell, "play", noted)
    monkeypatch.setattr(PhysicalCell, "truth", lambda cell, now_s: ONGOING if len(began_s) < 20 else DONE)
    trials(STEPS, 0.05, [2_000_000], policy, renderer)
    renderer.close()
    phases = [at_s / PERIOD_S % 1 for at_s in began_s]
    assert len({round(phase, 3) for phase in phases}) == 20
    rounds_s = [later - earlier for earlier, later in pairwise(began_s)]
    assert all(abs(one - 0.25) <= PERIOD_S / 2 for one in rounds_s)
    assert sum(rounds_s) / 19 == pytest.approx(0.25, abs=0.002)
