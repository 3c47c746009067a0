"""An operator's place under test: two robots with two tasks, one server, one panel, and a client like RViz's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rclpy
from rclpy.action import ActionClient
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rosa_interfaces.action import RunTask
from rosa_interfaces.msg import OperatorAudit, RobotStatus
from visualization_msgs.msg import (
    InteractiveMarker,
    InteractiveMarkerFeedback,
    InteractiveMarkerUpdate,
    MarkerArray,
)
from visualization_msgs.srv import GetInteractiveMarkers

from rosa_client.bringup.bringup import Bringup
from rosa_client.bringup.graph import Cell, Robot, panel, robots_of
from rosa_sim.ports import free_port
from tests.system.replayed import robot_file

ROOT = Path(__file__).parents[3]
ASK_AGAIN_S = 5.0
WAIT_S = 40.0
READY_S = 120.0  # a server that loads real models, on a busy machine, as in the other cells
LATEST = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
AUDITS = QoSProfile(depth=50, durability=DurabilityPolicy.TRANSIENT_LOCAL)
# The model of the first task answers after its deadline, always: its robot calls a human again after each resume.
FACTORY = """
server_cluster: {{num_servers: 2, gpu_type: cpu}}
robot_fleet:
  - {{task: late, num_robots: 1}}
  - {{task: easy, num_robots: 1}}
late:
  pipeline: {{action_period_ms: 200}}
  safety_and_slo_violation: {{max_consecutive_slo_violation: 2}}
  components:
    system1: {{model: slow, slo_ms: 150, fallback: stop_and_resend}}
easy:
  pipeline: {{action_period_ms: 200}}
  components:
    system1: {{model: quick, slo_ms: 2000, fallback: stop_and_resend}}
models:
  slow: {{backend: emulated, options: {{latency_ms: 400}}}}
  quick: {{backend: emulated, options: {{latency_ms: 5}}}}
gateway: {{bind: "{endpoint}", metrics_port: 0}}
"""


@contextmanager
def place(folder: Path) -> Iterator[Bringup]:
    """Server, two robots that replay one picture, and the panel; everything is ended on leaving."""
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    factory = folder / "factory.yaml"
    factory.write_text(FACTORY.format(endpoint=endpoint))
    robot = Robot(
        config=str(factory),
        robot=str(robot_file(folder)),
        gateway=endpoint,
        driver="replay",
        source=str(folder),
    )
    cell = Cell(fleet=True, panel=True, operator="anna")
    robots = robots_of(robot, cell)
    bringup = Bringup(robots, server=str(factory), logs=folder / "logs", panel=panel(robots, cell))
    with bringup:
        yield bringup


class Desk:
    """A ROS node of a test: it spins while it waits."""

    def __init__(self, name: str) -> None:
        self.node = Node(name)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)

    def close(self) -> None:
        self._executor.shutdown()
        self.node.destroy_node()

    def until(self, condition: Callable[[], Any], what: str, within_s: float = WAIT_S) -> Any:
        end_s = time.monotonic() + within_s
        while not (found := condition()):
            assert time.monotonic() < end_s, f"waited {within_s:g} s in vain for {what}"
            self._executor.spin_once(timeout_sec=0.05)
        return found

    def pause(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        self.until(lambda: time.monotonic() > end_s, "time to pass", seconds + 1)

    def call(self, kind: Any, name: str, request: Any) -> Any:
        """Ask until there is an answer, as RViz does: a response may come before its reader is matched, and is lost."""
        client = self.node.create_client(kind, name)
        self.until(client.service_is_ready, name)
        asked: list[Any] = []
        asked_s = -ASK_AGAIN_S

        def answered() -> bool:
            nonlocal asked_s
            if time.monotonic() - asked_s >= ASK_AGAIN_S:
                asked_s = time.monotonic()
                asked.append(client.call_async(request))
            return any(future.done() for future in asked)

        self.until(answered, f"an answer of {name}")
        self.node.destroy_client(client)
        return next(future.result() for future in asked if future.done())


class Floor(Desk):
    """Starts tasks and watches the robots' own topics, past the panel."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__("floor")
        self.status: dict[str, RobotStatus] = {}
        self.states: dict[str, list[str]] = {name: [] for name in names}
        self.rounds = dict.fromkeys(names, 0)  # the most that was seen
        self.tasks: dict[str, set[str]] = {name: set() for name in names}
        self.audits: dict[str, list[OperatorAudit]] = {name: [] for name in names}
        # Before the subscriptions: a status of a robot then says that it knows these, and can answer them.
        self._actions = {name: ActionClient(self.node, RunTask, f"/{name}/run_task") for name in names}
        for name in names:
            self.node.create_subscription(
                RobotStatus, f"/{name}/robot_status", lambda m, name=name: self._on_status(name, m), LATEST
            )
            self.node.create_subscription(
                OperatorAudit, f"/{name}/operator_audit", self.audits[name].append, AUDITS
            )

    def start(self, name: str, task: str) -> None:
        action = self._actions[name]
        self.until(action.server_is_ready, f"{name}'s run_task")
        connected = lambda: name in self.status and self.status[name].server_connected  # noqa: E731
        self.until(connected, f"{name}'s server", READY_S)
        future = action.send_goal_async(RunTask.Goal(task=task))
        self.until(future.done, f"{name} to take its task")
        assert future.result().accepted

    def audit(self, name: str, condition: Callable[[OperatorAudit], bool]) -> OperatorAudit:
        """The newest audit that is meant."""
        return self.until(lambda: [a for a in self.audits[name] if condition(a)], f"an audit of {name}")[-1]

    def _on_status(self, name: str, message: RobotStatus) -> None:
        self.status[name] = message
        self.rounds[name] = max(self.rounds[name], int(message.round))
        self.tasks[name] |= {message.task} - {""}
        seen = self.states[name]
        if not seen or seen[-1] != message.state:
            seen.append(message.state)


class Rviz(Desk):
    """Does with the panel what RViz's InteractiveMarkers and MarkerArray displays do.

    As its client: updates are collected first, then the service is asked, then updates up to the answer's number are
    dropped; an update whose number is not one more than that of the one before is an error.
    """

    def __init__(self, name: str, server: str = "/operator") -> None:
        super().__init__(name)
        self.markers: dict[str, InteractiveMarker] = {}
        self.drawn: dict[tuple[str, int], Any] = {}
        self.replaced: list[str] = []
        self._queue: list[InteractiveMarkerUpdate] = []
        self._answered: int | None = None  # number of the service's answer
        self._last: int | None = None  # number of the last update
        self._server = server
        node = self.node
        node.create_subscription(
            InteractiveMarkerUpdate, f"{server}/update", self._on_update, QoSProfile(depth=100)
        )
        node.create_subscription(MarkerArray, f"{server}/markers", self._on_markers, LATEST)
        self._feedback = node.create_publisher(
            InteractiveMarkerFeedback, f"{server}/feedback", QoSProfile(depth=100)
        )

    def connect(self) -> None:
        answer = self.call(
            GetInteractiveMarkers, f"{self._server}/get_interactive_markers", GetInteractiveMarkers.Request()
        )
        self.markers = {marker.name: marker for marker in answer.markers}
        self._answered = int(answer.sequence_number)
        queued, self._queue = self._queue, []
        for update in queued:
            self._apply(update)
        self.until(lambda: self._feedback.get_subscription_count() > 0, "the panel to listen")

    def offered(self, robot: str) -> list[str]:
        """Names of the buttons above a robot."""
        marker = self.markers.get(f"/{robot}")
        return [control.name for control in marker.controls if control.name != "words"] if marker else []

    def words(self, robot: str) -> str:
        """What stands above a robot: on its board and over it, in one line."""
        board = self.markers.get(f"/{robot}")
        parts = [part for control in board.controls for part in control.markers] if board else []
        words = " ".join([*(part.text for part in parts), self.text(f"{robot}/state")])
        return words.replace("\n", " ")

    def text(self, group: str) -> str:
        """The words of one group of markers, in one line."""
        texts = [m.text for (ns, _), m in sorted(self.drawn.items()) if ns == group]
        return " ".join(texts).replace("\n", " ")

    def press(self, robot: str, control: str) -> None:
        """A left click on a button, with everything else that RViz sends on a click."""
        for event in (
            InteractiveMarkerFeedback.POSE_UPDATE,
            InteractiveMarkerFeedback.MOUSE_DOWN,
            InteractiveMarkerFeedback.POSE_UPDATE,
            InteractiveMarkerFeedback.MOUSE_UP,
            InteractiveMarkerFeedback.BUTTON_CLICK,
        ):
            self._send(robot, event, control=control)

    def entry(self, robot: str, title: str) -> int:
        """The number of a menu entry."""
        return int({e.title: e.id for e in self.markers[f"/{robot}"].menu_entries}[title])

    def select(self, robot: str, entry: int) -> None:
        """An entry of the right-click menu."""
        self._send(robot, InteractiveMarkerFeedback.MENU_SELECT, entry=entry)

    def _send(self, robot: str, event: int, control: str = "", entry: int = 0) -> None:
        message = InteractiveMarkerFeedback(
            client_id=self.node.get_fully_qualified_name(),
            marker_name=f"/{robot}",
            control_name=control,
            event_type=event,
            menu_entry_id=entry,
        )
        self._feedback.publish(message)

    def _on_update(self, update: InteractiveMarkerUpdate) -> None:
        assert update.type == InteractiveMarkerUpdate.UPDATE, "RViz 2 warns of keep-alive messages"
        assert self._last is None or update.seq_num == self._last + 1, "RViz starts anew on a gap"
        self._last = int(update.seq_num)
        if self._answered is None:
            self._queue.append(update)
        else:
            self._apply(update)

    def _apply(self, update: InteractiveMarkerUpdate) -> None:
        assert self._answered is not None
        if update.seq_num <= self._answered:
            return  # in the answer already
        for marker in update.markers:
            assert marker.controls, "RViz drops the display of a marker without controls"
            self.markers[marker.name] = marker
            self.replaced.append(marker.name)
        for name in update.erases:
            del self.markers[name]

    def _on_markers(self, array: MarkerArray) -> None:
        names = [(marker.ns, marker.id) for marker in array.markers]
        assert len(set(names)) == len(names), "RViz complains of two markers with one name"
        for marker in array.markers:
            if marker.action == marker.DELETE:
                self.drawn.pop((marker.ns, marker.id), None)
            else:
                self.drawn[marker.ns, marker.id] = marker


def begin() -> None:
    """ROS for the test's own nodes, after the bring-up has set the environment."""
    rclpy.init(signal_handler_options=rclpy.SignalHandlerOptions.NO)
