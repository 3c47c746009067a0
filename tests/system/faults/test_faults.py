"""One running cell, five faults in five episodes: each is noticed, the arm stops, the task is completed after it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rosa_client.bringup.graph import Robot
from rosa_sim.demo.episodes import EpisodeRunner, episodes
from rosa_sim.demo.fault_story import FaultStory
from rosa_sim.faults.cell import SERVER, CellError, FaultyCell, set_up
from rosa_sim.faults.inject import WORKER_MODULE, Injector, processes, worker_pid
from rosa_sim.faults.judge import Happened, wrong
from rosa_sim.faults.table import LINK, SENSORS, WORKER, fault
from tests.system.cell.cell import ROOT, TASK, factory_file

pytestmark = pytest.mark.slow
NAMESPACE = "faulty"
LONGEST_S = 240.0
SEED = 900_000


class Cell:
    """What the tests share."""

    def __init__(self, faulty: FaultyCell, runner: EpisodeRunner, injector: Injector) -> None:
        self.faulty, self.runner, self.injector = faulty, runner, injector
        self._story = FaultStory(runner, injector, resume_after_s=0.3)

    def tell(self, name: str, seed: int) -> Happened:
        """What happened in an episode with the fault `name`: all that is promised of it, and the task was completed."""
        episode, seen = self._story.run(name, 1, 1, seed, 90.0, fault(name).seconds, 3, 0.1)
        account = f"{seen}; {episode.decisions}"
        assert (seen.outcome, seen.truth) == ("done", "done"), account
        assert wrong(fault(name), seen) == [], account
        return seen


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    folder = tmp_path_factory.mktemp("faults")
    config, endpoint = factory_file(folder, NAMESPACE)
    robot = Robot(
        config=str(config),
        robot=str(ROOT / "configs" / "robots" / "panda.yaml"),
        gateway=endpoint,
        namespace=NAMESPACE,
    )
    made = set_up(robot, {LINK, WORKER, SENSORS}, folder / "faults")
    until_s = time.monotonic() + LONGEST_S
    with (
        FaultyCell(made, folder / "logs") as faulty,
        episodes(
            NAMESPACE,
            TASK,
            alive=lambda: faulty.bringup.failure() or ("took too long" if time.monotonic() > until_s else ""),
            video=False,
        ) as runner,
    ):
        injector = Injector(faulty, runner.node)
        runner.wait_ready(120.0)
        try:
            yield Cell(faulty, runner, injector)
        finally:
            injector.close()


def test_a_server_that_is_killed_calls_a_human_and_its_workers_are_gone(cell: Cell) -> None:
    server = cell.faulty.bringup.supervisor.pid(SERVER)
    workers = [pid for pid, words in processes(server) if WORKER_MODULE in words]
    assert len(workers) == 2
    cell.tell("server_killed", SEED)
    assert cell.faulty.bringup.supervisor.pid(SERVER) != server
    assert not set(workers) & {pid for pid, _ in processes(cell.faulty.bringup.supervisor.pid(SERVER))}


def test_answers_that_do_not_arrive_stop_the_arm_and_call_a_human(cell: Cell) -> None:
    seen = cell.tell("link_partition_down", SEED + 1)
    assert seen.alerts == 1


def test_a_model_that_answers_nan_is_not_obeyed(cell: Cell) -> None:
    """After three such answers in a row the server replaces the worker; after fewer, it goes on."""
    seen = cell.tell("worker_nan", SEED + 2)
    assert seen.misses > 0
    assert worker_pid(cell.faulty.bringup.supervisor.pid(SERVER), cell.faulty.setup.model), (
        "one serves the model"
    )


def test_a_picture_of_the_past_stops_the_arm(cell: Cell) -> None:
    seen = cell.tell("camera_late", SEED + 3)
    assert seen.cause == "sensor_stale"


def test_a_camera_that_repeats_one_picture_stops_the_arm_and_calls_a_human(cell: Cell) -> None:
    seen = cell.tell("camera_repeats", SEED + 4)
    assert seen.cause == "sensor_stale"
    assert seen.alerts == 1


def test_a_link_with_keys_cannot_be_made_bad_and_says_why(tmp_path: Path) -> None:
    config, endpoint = factory_file(tmp_path)
    config.write_text(
        config.read_text().replace("metrics_port: 0", f"metrics_port: 0\n  curve_keys: {tmp_path}")
    )
    robot = Robot(config=str(config), robot=str(ROOT / "configs" / "robots" / "panda.yaml"), gateway=endpoint)
    with pytest.raises(CellError, match=r"curve_keys.*Remove the key"):
        set_up(robot, {LINK}, tmp_path / "faults")
