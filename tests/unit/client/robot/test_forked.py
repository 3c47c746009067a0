"""A process that was forked from a robot's has neither its connection nor its threads."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rosa_client.robot.aio import AsyncRobot
from rosa_client.robot.blocking import Robot
from rosa_client.robot.connecting import connector
from rosa_client.robot.errors import RobotError
from rosa_client.robot.group import RobotGroup
from rosa_client.robot.observation import seen_in

NOBODY = "tcp://127.0.0.1:1"
SEEN = {"joint_position": np.zeros(7, np.float32)}
HANGS_AFTER_S = 20

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def in_a_fork(what: Callable[[], None]) -> int:
    """How a forked process ends that does this: 0 where it raised nothing."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signal.alarm(HANGS_AFTER_S)
    ending = 1
    try:
        what()
        ending = 0
    finally:
        os._exit(ending)


def is_refused(asks: Callable[[], Any]) -> None:
    with pytest.raises(RobotError, match="forked") as error:
        asks()
    assert error.value.cause == "closed"


def test_a_robot_that_has_connected_is_refused_in_a_forked_process() -> None:
    with Robot(NOBODY, "pick", connect_within_s=0.0, deadline_ms=1.0) as robot:

        def inherited() -> None:
            is_refused(lambda: robot.infer(SEEN))
            robot.close()

        with pytest.raises(RobotError):
            robot.infer(SEEN)
        assert in_a_fork(inherited) == 0


def test_a_robot_of_asyncio_that_has_connected_is_refused_in_a_forked_process() -> None:
    robot = AsyncRobot(NOBODY, "pick", connect_within_s=0.0, deadline_ms=1.0)

    def inherited() -> None:
        is_refused(lambda: asyncio.run(robot.infer(SEEN)))
        robot.close()

    with pytest.raises(RobotError):
        asyncio.run(robot.infer(SEEN))
    assert in_a_fork(inherited) == 0
    robot.close()


def test_a_group_is_refused_in_a_forked_process() -> None:
    with RobotGroup(NOBODY, "pick", 2) as group:

        def inherited() -> None:
            is_refused(lambda: group.infer({0: SEEN}))
            group.close()

        assert in_a_fork(inherited) == 0


def test_a_robot_that_has_not_connected_gets_a_name_in_the_process_that_uses_it() -> None:
    connect, seen = connector(NOBODY, "pick", "", "", "jpeg", ()), seen_in(SEEN)

    def named_after_it() -> None:
        assert f"-{os.getpid()}-" in connect(seen).hello.robot_id

    assert in_a_fork(named_after_it) == 0
