"""A node for one question, with a ROS context of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from rosa_client.ros.ending import ends_in_time


@contextmanager
def own_node(name: str) -> Iterator[tuple[Node, SingleThreadedExecutor]]:
    """A node `NAME_PID` and what spins it; both are gone afterwards.

    The command line's arguments are not for it: `ros2 launch` has names in it that rclpy would take for remappings.
    """
    context = rclpy.Context()
    rclpy.init(args=[], context=context, signal_handler_options=rclpy.SignalHandlerOptions.NO)
    node = rclpy.create_node(f"{name}_{os.getpid()}", context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    try:
        yield node, executor
    finally:
        with ends_in_time():
            executor.shutdown()
            node.destroy_node()
            rclpy.shutdown(context=context)
