"""What a `Robot` does to the thread that waits for it."""

from __future__ import annotations

import threading
import time

import numpy as np

from rosa_client.robot.blocking import Robot
from rosa_client.robot.errors import RobotError

SEEN = {"joint_position": np.zeros(7, np.float32)}
PATIENCE_S = 10.0


def test_closing_a_robot_ends_the_call_that_another_thread_waits_for() -> None:
    robot, causes = Robot("tcp://127.0.0.1:1", "pick", connect_within_s=3600.0), list[str]()

    def asks() -> None:
        try:
            robot.infer(SEEN)
        except RobotError as error:
            causes.append(error.cause)

    asking = threading.Thread(target=asks, daemon=True)
    asking.start()
    while not robot._lock.locked() and asking.is_alive():
        time.sleep(0.001)
    closing = threading.Thread(target=robot.close, daemon=True)
    closing.start()
    closing.join(PATIENCE_S)
    assert not closing.is_alive()
    asking.join(PATIENCE_S)
    assert causes == ["closed"]
