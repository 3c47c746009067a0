"""The main function of every plain node: start, spin, stop on a signal, report a start-up error in one line.

A signal never raises here. An exception in the middle of rclpy's C++ code comes out as "Unable to convert call
argument", or is lost and the node runs on; and with rclpy's own handlers ROS is shut down while the node still
publishes. So a signal only sets a flag, which is looked at between two callbacks.
"""

from __future__ import annotations

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
from rosa_client.ros.ending import END_WITHIN_S, end_within

LOOK_EVERY_S = 0.05
# A signal waits this long for a node that is being made, so that it can be closed in order.
START_WITHIN_S = 1.0  # and for one that is being configured
SETTLE_S = 0.5  # for the executor to send the result of a task that has just ended
FAILED = 2  # exit status of a node that cannot start


class Stop:
    """Whether SIGINT or SIGTERM has come.

    A thread hears of it from the pipe that Python's own handler writes to: the main thread's handler runs only between
    two lines of Python, and while a driver connects in a library of C there may be none.
    """

    def __init__(self) -> None:
        self._asked = threading.Event()
        # Whether there is nothing that must be closed before the end.
        self.may_leave: Callable[[], bool] = lambda: True
        read, write = os.pipe()
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, lambda *_: None)
        threading.Thread(target=self._listen, args=(read,), name="signals", daemon=True).start()

    def __bool__(self) -> bool:
        return self._asked.is_set()

    def _listen(self, pipe: int) -> None:
        while os.read(pipe, 1)[0] not in SIGNALS:
            pass
        self._asked.set()
        # Whatever the node is in, such as a call of a driver that does not come back.
        end_within(END_WITHIN_S)
        time.sleep(START_WITHIN_S)
        # If a driver is still trying to connect, nothing has moved: there is nothing to clean up that could wait.
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
        end_within(END_WITHIN_S)  # until the interpreter is taken down: its threads have an end, too
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
