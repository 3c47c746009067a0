"""Configures and activates a managed node, as `ros2 launch` would.

An answer may be lost: a node cannot always answer a caller that it has only just found, and says so in its own output
alone. So silence means nothing: the node is asked for its state, and what is next follows from that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.client import Client

from rosa_client.bringup.supervisor import BringupError
from rosa_client.ros.own_node import own_node

LIFECYCLE_TIMEOUT_S = 30.0
ANSWER_S = 3.0
AGAIN_S = 0.1  # between two looks at a node that is under way from one state to another
NEXT = {
    State.PRIMARY_STATE_UNCONFIGURED: ("configure", Transition.TRANSITION_CONFIGURE),
    State.PRIMARY_STATE_INACTIVE: ("activate", Transition.TRANSITION_ACTIVATE),
}
UNDER_WAY = (State.TRANSITION_STATE_CONFIGURING, State.TRANSITION_STATE_ACTIVATING)


def activate(node_name: str, failure: Callable[[], str], timeout_s: float = LIFECYCLE_TIMEOUT_S) -> None:
    """Configure and activate a managed node.

    Raises `BringupError` when it does not come up, or when `failure` reports why it cannot.
    """
    with own_node("bringup") as (node, executor):
        until_s = time.monotonic() + timeout_s

        def check(words: str) -> None:
            if died := failure():
                raise BringupError(died)
            if time.monotonic() > until_s:
                raise BringupError(f"{node_name} {words} within {timeout_s:g} s")

        def answer(client: Client[Any, Any], request: Any) -> Any:
            """None when none came in time."""
            future = client.call_async(request)
            executor.spin_until_future_complete(future, timeout_sec=ANSWER_S)
            if not future.done():
                client.remove_pending_request(future)
            return future.result() if future.done() else None

        asks: Client[Any, Any] = node.create_client(GetState, f"{node_name}/get_state")
        changes: Client[Any, Any] = node.create_client(ChangeState, f"{node_name}/change_state")
        for client in (asks, changes):
            while not client.wait_for_service(timeout_sec=0.2):
                check("does not offer its lifecycle services")
        while True:
            told = answer(asks, GetState.Request())
            state = None if told is None else told.current_state
            if state is not None and state.id == State.PRIMARY_STATE_ACTIVE:
                return
            if state is None or state.id in UNDER_WAY:
                check("did not become active")
                time.sleep(AGAIN_S)
                continue
            if state.id not in NEXT:
                raise BringupError(f"{node_name} is {state.label}; its own output says why")
            name, number = NEXT[state.id]
            changed = answer(changes, ChangeState.Request(transition=Transition(id=number)))
            if changed is not None and not changed.success:
                raise BringupError(f"{node_name} refused to {name}; its own output says why")
            check(f"did not answer '{name}'")
