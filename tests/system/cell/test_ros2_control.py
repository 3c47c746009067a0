"""The whole chain with the driver of a real arm: a reflex calls a person, who recovers the arm and then goes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from rosa_interfaces.msg import OperatorAlert, RobotStatus

from rosa_sim.demo.episodes import EpisodeRunner
from tests.system.arm_ros2_control.bench import FRANKA, STILL_RAD, robot_file
from tests.system.cell.cell import NAMESPACE, cell

pytestmark = pytest.mark.slow
SEED = 900_000
LONGEST_S = 240.0
WAIT_S = 1.5  # the person looks first


class Person:
    """Breaks the arm in the third round, then recovers it, then resumes."""

    def __init__(self) -> None:
        self.runner: EpisodeRunner | None = None
        self.broken = False
        self.alerts: list[OperatorAlert] = []
        self.decided: list[tuple[str, int]] = []  # (choice, how many pictures of the cell there were)

    def on_status(self, status: RobotStatus) -> None:
        if self.runner is None or self.broken or status.round != 3:
            return
        self.broken = True
        value = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value="reflex")
        client = self.runner.node.create_client(SetParameters, f"/{NAMESPACE}/simulated_cell/set_parameters")
        client.call_async(SetParameters.Request(parameters=[Parameter(name="fault", value=value)]))

    def decide(self, alert: OperatorAlert, waited_s: float, count: int) -> str:
        assert self.runner is not None
        if alert.cause != "arm_fault":
            return "resume"  # a busy machine misses deadlines
        if not self.decided:
            self.alerts.append(alert)
            self.decided.append(("looks", len(self.runner.shots)))
        if waited_s < WAIT_S:
            return ""
        choice = "recover_arm" if "recover_arm" in alert.choices else "resume"
        self.decided.append((choice, len(self.runner.shots)))
        return choice


def test_a_reflex_in_mid_task_waits_for_a_person_who_recovers_the_arm_and_resumes(tmp_path: Path) -> None:
    person = Person()
    robot = robot_file(tmp_path, **FRANKA)
    with cell(
        tmp_path, operator=person.decide, on_status=person.on_status, longest_s=LONGEST_S, robot_file=robot
    ) as (_, runner):
        runner.wait_ready(150.0)
        person.runner = runner
        episode = runner.run(1, 1, SEED, 150.0)
    assert person.broken
    assert "arm_fault: the robot is stopped by a reflex: cartesian_reflex" in episode.alerts
    assert [choice for choice, _ in person.decided][:3] == ["looks", "recover_arm", "resume"]
    recovered = next(i for i, line in enumerate(episode.decisions) if line.startswith("run: recover_arm"))
    assert episode.decisions[recovered].endswith("accepted")
    assert episode.decisions[recovered + 1].startswith("run: resume")
    assert episode.decisions[recovered + 1].endswith("accepted")
    waited = slice(person.decided[0][1] + 10, person.decided[2][1])
    joints = np.array([shot.qpos[:7] for shot in runner.shots[waited]])
    assert len(joints) > 20
    assert float(np.ptp(joints, axis=0).max()) < STILL_RAD, "nothing moves before the decision to go on"
    assert (episode.outcome, episode.truth) == ("done", "done"), episode
