"""The main function of every plain node: start, spin, stop on a signal, report a start-up error in one line."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

import rclpy
from rcl_interfaces.msg import ParameterDescriptor
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node


def declare(node: Node, parameters: Mapping[str, tuple[Any, str]]) -> None:
    """Declare `parameters`: name -> (default, description)."""
    for name, (default, text) in parameters.items():
        node.declare_parameter(name, default, ParameterDescriptor(description=text))


def run_node(make: Callable[[], Any], expected: tuple[type[Exception], ...]) -> None:
    """Run the node that `make` returns until SIGINT or SIGTERM; it has a `close()`. Exits 2 on an `expected` error."""
    # Otherwise a signal during start-up would be lost between rclpy's handlers and an incomplete node.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    rclpy.init(args=sys.argv)
    node = None
    executor = SingleThreadedExecutor()
    try:
        node = make()
        executor.add_node(node)
        executor.spin()
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except expected as error:
        print(f"{sys.argv[0]}: {error}", file=sys.stderr)
        sys.exit(2)
    finally:
        # A second Ctrl-C must not interrupt the clean-up; the supervisor's SIGKILL still can.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if node is not None:
            node.close()
        executor.shutdown()
        if node is not None:
            node.destroy_node()
        rclpy.try_shutdown()
