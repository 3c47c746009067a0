"""The whole cell, as it is launched: one good episode, and the faults that a cell must survive, one after the other."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from rosa_interfaces.msg import OperatorAlert, RobotStatus

from rosa_client.bringup.bringup import Bringup
from rosa_sim.demo.episodes import EpisodeRunner, Operator, nobody, stand_in
from rosa_sim.demo.report import Episode
from tests.system.cell.cell import LONGEST_S, NAMESPACE, cell, workers_of

pytestmark = pytest.mark.slow
DONE = ("done", "done")  # the outcome as the robot says it, and the truth
READY_S = 120.0
EPISODE_S = 120.0
SEED = 900_000


class Story:
    """Something that happens once, in the third round of an episode, and what the robot said about it."""

    def __init__(self, happens: Callable[[Bringup], None]) -> None:
        self.happens = happens
        self.bringup: Bringup | None = None
        self.begun = self.happened = False
        self.states: list[str] = []
        self.alerts: list[OperatorAlert] = []
        self.connected = False

    def on_status(self, status: RobotStatus) -> None:
        self.connected = status.server_connected
        self.begun |= status.round < 3  # until then it is the count of the episode before
        if not self.happened and self.begun and status.round >= 3 and self.bringup is not None:
            self.happened = True
            self.happens(self.bringup)
        elif self.happened and (not self.states or self.states[-1] != status.state):
            self.states.append(status.state)

    def run(self, bringup: Bringup, runner: EpisodeRunner, operator: Operator) -> Episode:
        self.bringup = bringup
        runner.operator, runner.on_status = operator, self.on_status
        since = len(runner.shots)
        episode = runner.run(1, 1, SEED, EPISODE_S)
        begins = next(shot.note for shot in runner.shots[since:] if shot.note)
        assert not begins.startswith("done"), "how the last episode ended says nothing of this one's scene"
        return episode


def joints_at(runner: EpisodeRunner, since: int) -> np.ndarray:
    """Joint positions (n, 7) of every recorded state since shot number `since`."""
    return np.array([shot.qpos[:7] for shot in runner.shots[since:]])


Launched = tuple[Bringup, EpisodeRunner]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cell")


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[Launched]:
    """One cell for the stories below, without its server yet: each leaves it whole."""
    with cell(folder, server=False, longest_s=5 * LONGEST_S) as (bringup, runner):
        yield bringup, runner


@pytest.fixture(scope="module")
def first(running: Launched, folder: Path) -> Episode:
    """An episode that begins without a server: the arm keeps still, and four seconds later the server is started."""
    bringup, runner = running
    started: list[RobotStatus] = []
    began_s = time.monotonic()

    def late_server(status: RobotStatus) -> None:
        if status.state == "connecting" and time.monotonic() - began_s > 4 and not started:
            assert not status.server_connected
            assert runner.shots
            assert np.ptp(joints_at(runner, 0), axis=0).max() < 0.01, "the arm moved without a server"
            started.append(status)
            bringup.start_server(str(folder / "pick_place.yaml"))

    runner.operator, runner.on_status = stand_in, late_server
    episode = runner.run(1, 1, SEED, EPISODE_S)
    assert started, "the robot waited for its server"
    runner.operator, runner.on_status = nobody, lambda status: None
    return episode


@pytest.fixture
def launched(running: Launched, first: Episode) -> Iterator[Launched]:
    """The cell, ready for an episode; what a story listens with is taken away after it."""
    bringup, runner = running
    assert bringup.failure() == ""
    runner.wait_ready(READY_S)
    yield bringup, runner
    runner.operator, runner.on_status = nobody, lambda status: None


def test_a_robot_waits_for_its_server_then_the_cube_is_in_the_bin_and_the_robot_knows_it(
    first: Episode,
) -> None:
    """That it kept still meanwhile, its fixture asserts."""
    assert (first.outcome, first.truth) == DONE, first
    assert first.rounds > 3
    assert first.deadlines_met > first.rounds, "System 1 and the monitor both answered"


def test_the_server_is_killed_and_the_robot_stops_calls_and_completes(launched: Launched) -> None:
    def kill(bringup: Bringup) -> None:
        bringup.supervisor.kill("server")

    story = Story(kill)
    still: list[float] = []
    restarted: list[bool] = []

    def operator(alert: OperatorAlert, waited_s: float, count: int) -> str:
        """Looks whether the arm stands still, has the server started again, and resumes when it is back."""
        assert story.bringup is not None
        if waited_s < 2:
            return ""
        if not restarted:
            still.append(float(np.ptp(joints_at(runner, -40), axis=0).max()))
            story.alerts.append(alert)
            story.bringup.start_server()
            restarted.append(True)
        return "resume" if story.connected else ""

    bringup, runner = launched
    episode = story.run(bringup, runner, operator)
    assert story.alerts[0].cause == "max_consecutive_slo_violation"
    assert "waiting_for_human" in story.states
    assert still[0] < 1e-3, f"joints moved by {still[0]} rad in the last second before the decision"
    assert (episode.outcome, episode.truth) == DONE, episode
    assert episode.deadlines_missed >= 3


def test_a_worker_killed_in_mid_batch_is_replaced_and_nothing_hangs(launched: Launched) -> None:
    killed: list[int] = []

    def kill(bringup: Bringup) -> None:
        for worker in workers_of(bringup):
            if "flow" in " ".join(worker.cmdline()) or not killed:
                worker.kill()
                killed.append(worker.pid)

    story = Story(kill)
    bringup, runner = launched
    episode = story.run(bringup, runner, stand_in_when_ready(story))
    alive = workers_of(bringup)
    assert len(alive) == 2
    assert not {worker.pid for worker in alive} & set(killed)
    assert killed
    assert (episode.outcome, episode.truth) == DONE, episode


def test_a_camera_that_stops_holds_the_arm_and_then_calls_a_human(launched: Launched) -> None:
    def freeze(bringup: Bringup) -> None:
        psutil.Process(bringup.supervisor.pid(f"{NAMESPACE}/camera_node")).send_signal(signal.SIGSTOP)

    story = Story(freeze)

    def operator(alert: OperatorAlert, waited_s: float, count: int) -> str:
        assert story.bringup is not None
        if not story.happened or "sensor_silent" not in alert.cause:
            return "resume"  # a busy machine misses deadlines
        story.alerts.append(alert)
        psutil.Process(story.bringup.supervisor.pid(f"{NAMESPACE}/camera_node")).send_signal(signal.SIGCONT)
        return "resume" if waited_s > 2 else ""

    bringup, runner = launched
    episode = story.run(bringup, runner, operator)
    assert "holding" in story.states
    assert story.states.index("holding") < story.states.index("waiting_for_human")
    assert story.alerts, "a silent camera called a human"
    assert (episode.outcome, episode.truth) == DONE, episode


def stand_in_when_ready(story: Story) -> Callable[[OperatorAlert, float, int], str]:
    """Resumes as soon as the robot is welcome again."""
    return lambda alert, waited_s, count: "resume" if waited_s > 3 and story.connected else ""
