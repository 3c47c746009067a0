"""The main function of every plain node: start, spin, stop on a signal, report a start-up error in one line.

A signal never raises here. An exception in the middle of rclpy's C++ code comes out as "Unable to convert call
argument", or is lost and the node runs on; and with rclpy's own handlers ROS is shut down while the node still
publishes. So a signal only sets a flag, which is looked at between two callbacks.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import rclpy
from rclpy.exceptions import ParameterException
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.logging import get_logger
from rclpy.signals import SignalHandlerOptions

from rosa_client.executables import SIGNALS
from rosa_client.nodes.base.ros_log import log_to_ros

LOOK_EVERY_S = 0.05
# After this long the clean-up is stuck for good. A supervisor kills after 5 s, and could not say where it was stuck.
END_WITHIN_S = 4.5
# A signal waits this long for a node that is being made, so that it can be closed in order.
START_WITHIN_S = 1.0  # and for one that is being configured
SETTLE_S = 0.5  # for the executor to send the result of a task that has just ended
FAILED = 2  # exit status of a node that cannot start


class Stop:
    """Whether SIGINT or SIGTERM has come."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        # Whether there is nothing that must be closed before the end.
        self.may_leave: Callable[[], bool] = lambda: True
        for number in SIGNALS:
            signal.signal(number, self._ask)

    def __bool__(self) -> bool:
        return self._asked.is_set()

    def _ask(self, *_: object) -> None:
        if not self:
            patience = threading.Timer(START_WITHIN_S, self._leave)
            patience.daemon = True
            patience.start()
        self._asked.set()

    def _leave(self) -> None:
        """A driver is still trying to connect, and nothing has moved: there is nothing to clean up that could wait."""
        if self.may_leave():
            os._exit(0)


def run_node(make: Callable[[], Any], expected: tuple[type[Exception], ...]) -> None:
    """Run the node that `make` returns until SIGINT or SIGTERM; it has a `close()`. Exits 2 on an `expected` error."""
    stop = Stop()
    # rclpy's own handlers would end all publishers and subscriptions at once.
    rclpy.init(args=sys.argv, signal_handler_options=SignalHandlerOptions.NO)
    node = None
    known: tuple[type[Exception], ...] = (*expected, ParameterException)
    executor = SingleThreadedExecutor()
    try:
        node = make()
        log_to_ros(node.get_logger().name)
        stop.may_leave = lambda: getattr(node, "holds_nothing", False)
        executor.add_node(node)
        while not stop:
            executor.spin_once(timeout_sec=LOOK_EVERY_S)
    except ExternalShutdownException:
        pass
    except known as error:
        get_logger(os.path.basename(sys.argv[0])).fatal(str(error))
        sys.exit(FAILED)
    finally:
        stop.may_leave = lambda: False
        faulthandler.dump_traceback_later(END_WITHIN_S, exit=True)
        if node is not None:
            node.close()
            if not getattr(node, "settled", True):
                end_s = time.monotonic() + SETTLE_S
                while time.monotonic() < end_s:
                    executor.spin_once(timeout_sec=LOOK_EVERY_S)
        executor.shutdown(timeout_sec=1.0)
        if node is not None:
            node.destroy_node()
        rclpy.try_shutdown()
        faulthandler.cancel_dump_traceback_later()
