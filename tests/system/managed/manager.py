"""A stand-in for nav2's lifecycle manager (C++, and not on every machine), with its protocol and its time limits.

It calls `change_state` and `get_state` of each node in its own namespace, in order (downwards in reverse order), forms
a bond with each that became active, and takes all nodes down when a bond breaks. Its bond shares no code with ours,
so that a misunderstanding of the protocol is not on both sides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from bond.msg import Status
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from tests.system.services import known_by, node_of

BOND_TIMEOUT_S = 4.0
BOND_PERIOD_S = 0.25
SERVICE_TIMEOUT_S = 20.0  # nav2's 5 s are for a machine that does nothing else
AFTER = {
    Transition.TRANSITION_CONFIGURE: State.PRIMARY_STATE_INACTIVE,
    Transition.TRANSITION_CLEANUP: State.PRIMARY_STATE_UNCONFIGURED,
    Transition.TRANSITION_ACTIVATE: State.PRIMARY_STATE_ACTIVE,
    Transition.TRANSITION_DEACTIVATE: State.PRIMARY_STATE_INACTIVE,
    Transition.TRANSITION_UNCONFIGURED_SHUTDOWN: State.PRIMARY_STATE_FINALIZED,
    Transition.TRANSITION_ACTIVE_SHUTDOWN: State.PRIMARY_STATE_FINALIZED,  # not nav2's, but `ros2 lifecycle`'s
}
UP = (Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE)
DOWN = (
    Transition.TRANSITION_DEACTIVATE,
    Transition.TRANSITION_CLEANUP,
    Transition.TRANSITION_UNCONFIGURED_SHUTDOWN,
)


class ManagersBond:
    """The manager's side of one bond."""

    def __init__(self, node: Node, name: str) -> None:
        self.name = name
        self.formed = self.broken = False
        self.heard: list[float] = []
        self._node = node
        self._instance = f"manager of {name}"
        self._publisher = node.create_publisher(Status, "bond", 5)
        self._subscription = node.create_subscription(Status, "bond", self._on_status, 100)
        self._timer = node.create_timer(BOND_PERIOD_S, self.look)

    def look(self) -> None:
        if self.formed and time.monotonic() - self.heard[-1] > BOND_TIMEOUT_S:
            self.broken = True
        self._publish(not self.broken)

    def end(self) -> None:
        self._publish(False)
        self._node.destroy_timer(self._timer)
        self._node.destroy_subscription(self._subscription)
        self._node.destroy_publisher(self._publisher)

    def _publish(self, active: bool) -> None:
        message = Status(id=self.name, instance_id=self._instance, active=active)
        message.heartbeat_timeout, message.heartbeat_period = BOND_TIMEOUT_S, BOND_PERIOD_S
        self._publisher.publish(message)

    def _on_status(self, message: Status) -> None:
        if message.id != self.name or message.instance_id == self._instance:
            return
        self.heard.append(time.monotonic())
        self.formed = self.formed or message.active
        self.broken = self.broken or not message.active


class Manager:
    """Manages nodes of one namespace, as nav2's does with the parameter `node_names`."""

    def __init__(self, namespace: str, names: Sequence[str]) -> None:
        self.node = Node("lifecycle_manager", namespace=namespace)
        self.names = list(names)
        self.bonds: dict[str, ManagersBond] = {}
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)

    def startup(self) -> bool:
        return all(self.all_nodes(transition) for transition in UP)

    def pause(self) -> bool:
        return self.all_nodes(Transition.TRANSITION_DEACTIVATE)

    def resume(self) -> bool:
        return self.all_nodes(Transition.TRANSITION_ACTIVATE)

    def shutdown(self) -> bool:
        done = [self.all_nodes(transition) for transition in DOWN]  # whatever fails, go on
        return all(done)

    def reset(self) -> None:
        """As after a broken bond: whatever fails, go on."""
        for transition in DOWN[:2]:
            for name in reversed(self.names):
                self.change(name, transition)

    def all_nodes(self, transition: int) -> bool:
        names = self.names if transition in UP else self.names[::-1]
        return all(self.change(name, transition) for name in names)

    def change(self, name: str, transition: int) -> bool:
        request = ChangeState.Request(transition=Transition(id=transition))
        answer = self.ask(ChangeState, f"{name}/change_state", request)
        if answer is None or not answer.success or self.state(name) != AFTER[transition]:
            return False
        if transition == Transition.TRANSITION_ACTIVATE:
            bond = self.bonds[name] = ManagersBond(self.node, name)
            return self.until(lambda: bond.formed)  # its sides may find each other late
        if transition == Transition.TRANSITION_DEACTIVATE and name in self.bonds:
            self.bonds.pop(name).end()
        return True

    def state(self, name: str) -> int | None:
        answer = self.ask(GetState, f"{name}/get_state", GetState.Request())
        return None if answer is None else int(answer.current_state.id)

    def check_bonds(self) -> list[str]:
        """The nodes whose bond is broken; all nodes are taken down then."""
        broken = [name for name, bond in self.bonds.items() if bond.broken]
        if broken:
            self.reset()
            self.bonds.clear()
        return broken

    def ask(self, kind: Any, name: str, request: Any) -> Any:
        """The answer, or None without one."""
        client = self.node.create_client(kind, name)
        try:
            if not self.until(client.service_is_ready, SERVICE_TIMEOUT_S):
                return None
            if not self.knows(node_of(name)):
                return None
            future = client.call_async(request)
            return future.result() if self.until(future.done, SERVICE_TIMEOUT_S) else None
        finally:
            self.node.destroy_client(client)

    def knows(self, name: str) -> bool:
        """Wait until a node knows the clients that were made so far: a transition is asked for once."""
        with known_by(self.node, name) as known:
            return self.until(known)

    def until(self, condition: Callable[[], Any], within_s: float = SERVICE_TIMEOUT_S) -> bool:
        end_s = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > end_s:
                return False
            self._executor.spin_once(timeout_sec=0.05)
        return True

    def spin(self, seconds: float) -> None:
        self.until(lambda: False, seconds)

    def close(self) -> None:
        self._executor.shutdown()
        self.node.destroy_node()
