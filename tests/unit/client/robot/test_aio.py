"""What becomes of an `AsyncRobot` whose event loop has ended before it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest

from rosa_client.robot.aio import AsyncRobot
from rosa_client.robot.errors import RobotError
from rosa_contract.wire.messages import Bye, Hello
from tests.unit.client.connection.test_link import PATIENCE_S, Gateway

SEEN = {"joint_position": np.zeros(7, np.float32)}


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    one = Gateway()
    yield one
    one.close()


async def asks_in_vain(robot: AsyncRobot) -> None:
    with pytest.raises(RobotError):
        await robot.infer(SEEN)


def test_a_robot_says_goodbye_also_when_its_event_loop_has_ended(gateway: Gateway) -> None:
    robot = AsyncRobot(gateway.endpoint, "pick", deadline_ms=300, connect_within_s=0.3)
    asyncio.run(asks_in_vain(robot))
    robot.close()
    robot.close()
    heard: list[object] = []
    while not any(isinstance(one, Bye) for one in heard):
        assert gateway.socket.poll(1000 * PATIENCE_S), heard
        heard.append(gateway.heard())
    assert isinstance(heard[0], Hello)
