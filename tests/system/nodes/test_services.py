"""The tests' own questions: what must not be asked twice is asked once the other node can answer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import rclpy
from rclpy.executors import SingleThreadedExecutor
from std_srvs.srv import Trigger

from tests.system import services
from tests.system.services import known_by, node_of

PATIENCE_S = 20.0


@pytest.fixture
def ros() -> Iterator[None]:
    rclpy.init()
    yield
    rclpy.shutdown()


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_a_node_whose_first_answers_are_lost_is_asked_once(
    lost: int, ros: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "ASK_AGAIN_S", 0.2)
    asked: list[Any] = []
    left = lost
    deaf, node = rclpy.create_node("deaf"), rclpy.create_node("asks")

    def once(request: Any, response: Any) -> Any:
        asked.append(request)
        response.success = True
        return response

    deaf.create_service(Trigger, "deaf/once", once)
    for service in deaf.services:

        def sends(response: Any, header: Any, really: Any = service.send_response) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                really(response, header)

        monkeypatch.setattr(service, "send_response", sends)
    executor = SingleThreadedExecutor()
    executor.add_node(deaf)
    executor.add_node(node)

    def until(condition: Any) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end_s
            executor.spin_once(timeout_sec=0.02)

    client = node.create_client(Trigger, "deaf/once")
    until(client.service_is_ready)
    with known_by(node, node_of("deaf/once")) as known:
        until(known)
    answer = client.call_async(Trigger.Request())
    until(answer.done)
    assert answer.result().success and len(asked) == 1
    executor.shutdown()
    deaf.destroy_node()
    node.destroy_node()
