"""Configures and activates a managed node, as `ros2 launch` would."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import rclpy
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.executors import SingleThreadedExecutor

from rosa_client.bringup.supervisor import BringupError

LIFECYCLE_TIMEOUT_S = 30.0


def activate(node_name: str, failure: Callable[[], str], timeout_s: float = LIFECYCLE_TIMEOUT_S) -> None:
    """Configure and activate a managed node.

    Raises `BringupError` when it does not come up, or when `failure` reports why it cannot.
    """
    context = rclpy.Context()
    rclpy.init(args=[], context=context, signal_handler_options=rclpy.SignalHandlerOptions.NO)
    node = rclpy.create_node(f"bringup_{os.getpid()}", context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    try:
        client = node.create_client(ChangeState, f"{node_name}/change_state")
        until_s = time.monotonic() + timeout_s
        while not client.wait_for_service(timeout_sec=0.2):
            if died := failure():
                raise BringupError(died)
            if time.monotonic() > until_s:
                raise BringupError(f"{node_name} does not offer its lifecycle service after {timeout_s:g} s")
        for name, number in (
            ("configure", Transition.TRANSITION_CONFIGURE),
            ("activate", Transition.TRANSITION_ACTIVATE),
        ):
            future = client.call_async(ChangeState.Request(transition=Transition(id=number)))
            executor.spin_until_future_complete(future, timeout_sec=max(0.1, until_s - time.monotonic()))
            if not future.done():
                raise BringupError(f"{node_name} did not answer '{name}' within {timeout_s:g} s")
            if not future.result().success:
                raise BringupError(f"{node_name} refused to {name}; its own output says why")
    finally:
        executor.shutdown()
        node.destroy_node()
        rclpy.shutdown(context=context)
