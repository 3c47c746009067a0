"""A node is brought up also where its answers are lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import rclpy
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.executors import SingleThreadedExecutor

from rosa_client.bringup import activation
from rosa_client.bringup.activation import activate
from rosa_client.bringup.supervisor import BringupError
from tests.system.domains import own_domain

AFTER = {
    Transition.TRANSITION_CONFIGURE: State.PRIMARY_STATE_INACTIVE,
    Transition.TRANSITION_ACTIVATE: State.PRIMARY_STATE_ACTIVE,
}


class Managed:
    """A managed node of which some answers never arrive."""

    def __init__(self, lost: int, refuses: bool = False) -> None:
        self.lost, self.refuses = lost, refuses
        self.state = State.PRIMARY_STATE_UNCONFIGURED
        self.asked: list[int] = []
        self.node = rclpy.create_node("managed")
        changes = self.node.create_service(ChangeState, "managed/change_state", self._change)
        self.node.create_service(GetState, "managed/get_state", self._tell)
        really: Any = changes.send_response

        def sends(response: Any, header: Any) -> None:
            self.lost -= 1
            if self.lost < 0:
                really(response, header)

        changes.send_response = sends
        self.executor = SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self.thread = threading.Thread(target=self.executor.spin, daemon=True)
        self.thread.start()

    def __enter__(self) -> Managed:
        return self

    def __exit__(self, *exc: object) -> None:
        self.executor.shutdown()
        self.thread.join(10.0)
        self.node.destroy_node()

    def _change(self, request: Any, response: Any) -> Any:
        self.asked.append(request.transition.id)
        response.success = not self.refuses
        if response.success:
            self.state = AFTER[request.transition.id]
        return response

    def _tell(self, request: Any, response: Any) -> Any:
        response.current_state = State(id=self.state, label="some state")
        return response


@pytest.fixture(autouse=True)
def _ros() -> Iterator[None]:
    with own_domain():
        rclpy.init()
        try:
            yield
        finally:
            rclpy.try_shutdown()


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_transition_whose_answer_was_lost_is_not_asked_for_again(
    lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activation, "ANSWER_S", 1.0)
    with Managed(lost) as managed:
        activate("/managed", lambda: "")
        assert managed.state == State.PRIMARY_STATE_ACTIVE
        assert managed.asked == list(AFTER), "each once"


def test_a_node_that_refuses_and_one_that_died_end_it() -> None:
    with Managed(0, refuses=True), pytest.raises(BringupError, match="/managed refused to configure"):
        activate("/managed", lambda: "")
    with pytest.raises(BringupError, match="it ended with status 3"):
        activate("/nobody", lambda: "it ended with status 3")
