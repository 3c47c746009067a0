"""Whether a node knows who asks it.

A service that is seen may not have seen its client yet: it does what it is asked, and its answer is dropped after
0.1 s. Who listens, for answers too, is announced to a node in the order in which it was made, over one reliable topic.
So an answer to a later client of the same ROS context says that the earlier ones are known there. The later one asks
for nothing, and so may ask again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rcl_interfaces.srv import GetParameterTypes
from rclpy.node import Node
from rclpy.task import Future

ASK_AGAIN_S = 1.0


class KnownBy:
    """A condition: the node `other` knows the clients that `node` had when this was made. `node` is spun meanwhile."""

    def __init__(self, node: Node, other: str) -> None:
        self.client = node.create_client(GetParameterTypes, f"{other}/get_parameter_types")
        self._asked: list[Future] = []
        self._again_s = 0.0

    def __call__(self) -> bool:
        now_s = time.monotonic()
        if now_s >= self._again_s and self.client.service_is_ready():
            self._again_s = now_s + ASK_AGAIN_S
            self._asked.append(self.client.call_async(GetParameterTypes.Request()))
        return any(one.done() for one in self._asked)


@contextmanager
def known_by(node: Node, other: str) -> Iterator[KnownBy]:
    made = KnownBy(node, other)
    try:
        yield made
    finally:
        node.destroy_client(made.client)


def node_of(service: str) -> str:
    """The node whose service it is, where it is named after that."""
    return service.rpartition("/")[0]
