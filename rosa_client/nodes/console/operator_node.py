"""The operator panel for RViz 2: interactive markers above every robot it finds, and markers of what each one does.

One node for any number of robots, each of which says itself what it looks like. RViz shows `/operator` with its
InteractiveMarkers display and `/operator/markers` with its MarkerArray display (`configs/rviz/operator.rviz`). Nothing
here can move a robot: a click is a question to the robot's own services, and the robot checks it.
"""

from __future__ import annotations

import math
import time
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSProfile
from std_msgs.msg import Bool
from visualization_msgs.msg import InteractiveMarkerFeedback, InteractiveMarkerUpdate, MarkerArray
from visualization_msgs.srv import GetInteractiveMarkers

from rosa_client.nodes.base.parameters import Parameter, declare
from rosa_client.nodes.base.qos import LATEST
from rosa_client.nodes.base.shell import run_node
from rosa_client.nodes.console.panel_messages import LIFETIME_S, deletion, interactive_marker, marker
from rosa_client.nodes.console.robot_feed import STOP_ALL, RobotFeed, robots_seen
from rosa_client.operator.bases import Bases, parse_bases
from rosa_client.operator.choices import RELEASE, STOP, Click, parse_click
from rosa_client.operator.layout import Board, Shape, board, plain, scene, stop_all_board
from rosa_client.operator.marker_book import MarkerBook, MenuEntries
from rosa_client.ros.clock import steady_timer
from rosa_contract.errors import ConfigError

PARAMETERS = {
    "operator": Parameter(
        "", "who sits here, for the audit; empty: the name of the RViz node that clicked", fixed=False
    ),
    "frame": Parameter("world", "frame of all markers; RViz's fixed frame"),
    "bases": Parameter(
        "",
        "where robots stand in it: 'panda0: x y z yaw; panda1: ...' in m and rad; others: in a row",
    ),
    "forget_s": Parameter(
        60.0, "a robot whose runtime is gone is shown as silent this long, s", 1, 86400, fixed=False
    ),
}
SERVER = "operator"
ALL_ROBOTS = "/"  # the marker with the button that stops all robots
TICK_S = 0.2
LOOK_EVERY_S = 1.0
DRAW_EVERY_S = LIFETIME_S / 3  # also where nothing changes
DEEP = QoSProfile(depth=100)  # as RViz's own client: one click sends several messages


class OperatorNode(Node):
    """Finds robots, draws them, and forwards clicks to their services."""

    def __init__(self) -> None:
        super().__init__("operator_node")
        declare(self, PARAMETERS)
        self._frame = str(self.get_parameter("frame").value)
        self._bases = Bases(parse_bases(str(self.get_parameter("bases").value)))
        self._feeds: dict[str, RobotFeed] = {}
        self._book: MarkerBook[Board] = MarkerBook()
        self._entries = MenuEntries(fixed=(STOP, RELEASE))
        self._drawn: list[Shape] = []
        self._drawn_s = -math.inf
        self._look_s = 0.0
        self._markers = self.create_publisher(MarkerArray, f"{SERVER}/markers", LATEST)
        self._updates = self.create_publisher(InteractiveMarkerUpdate, f"{SERVER}/update", DEEP)
        self._stop_all = self.create_publisher(Bool, STOP_ALL, QoSProfile(depth=10))
        self.create_service(GetInteractiveMarkers, f"{SERVER}/get_interactive_markers", self._on_get)
        self.create_subscription(InteractiveMarkerFeedback, f"{SERVER}/feedback", self._on_feedback, DEEP)
        steady_timer(self, TICK_S, self._tick)
        self.get_logger().info(f"looking for robots; fixed frame {self._frame!r}")

    def close(self) -> None:
        """Nothing to do: markers disappear from RViz by themselves."""

    # -- robots -----------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._look_s:
            self._look_s = now_s + LOOK_EVERY_S
            self._look(now_s)
        for feed in self._feeds.values():
            feed.check_answers(now_s)
        self._draw(now_s)
        self._offer()

    def _look(self, now_s: float) -> None:
        """Add new robots; forget those that have been silent for long."""
        present = robots_seen(self)
        for namespace in present:
            if namespace not in self._feeds:
                self._feeds[namespace] = RobotFeed(self, namespace, drawn=True)
                self._bases.of(namespace)  # reserves its place
                self.get_logger().info(f"found {namespace}")
        forget_s = float(self.get_parameter("forget_s").value)
        for namespace, feed in list(self._feeds.items()):
            if namespace not in present and feed.view.silent_for_s(now_s) > forget_s:
                feed.destroy()
                del self._feeds[namespace]
                self.get_logger().warning(f"{namespace} has been silent for {forget_s:g} s; forgotten")

    # -- what is shown ----------------------------------------------------------------------------------------------

    def _draw(self, now_s: float) -> None:
        """Every message is complete, so that an RViz that starts late needs only the last one. Sent when something has
        changed, and before what RViz has disappears."""
        shapes = [
            shape
            for namespace, feed in self._feeds.items()
            for shape in scene(feed.view, self._bases.of(namespace), now_s, feed.zones)
        ]
        if shapes == self._drawn and now_s - self._drawn_s < DRAW_EVERY_S:
            return
        before, now = ({(shape.group, shape.number) for shape in some} for some in (self._drawn, shapes))
        gone = [deletion(group, number, self._frame) for group, number in sorted(before - now)]
        self._drawn, self._drawn_s = shapes, now_s
        self._markers.publish(MarkerArray(markers=[*gone, *(marker(shape, self._frame) for shape in shapes)]))

    def _offer(self) -> None:
        """Send RViz the boards that changed."""
        boards = {name: board(feed.view, self._bases.of(name)) for name, feed in self._feeds.items()}
        if len(boards) > 1:
            boards[ALL_ROBOTS] = stop_all_board([self._bases.of(name) for name in self._feeds])
        update = self._book.change(boards)
        if update is not None:
            message = InteractiveMarkerUpdate(server_id=SERVER, seq_num=update.number)
            message.type = InteractiveMarkerUpdate.UPDATE
            message.markers = [self._message(one) for one in update.changed.values()]
            message.erases = update.erased
            self._updates.publish(message)

    def _on_get(
        self, request: GetInteractiveMarkers.Request, response: GetInteractiveMarkers.Response
    ) -> GetInteractiveMarkers.Response:
        response.sequence_number = self._book.number
        response.markers = [self._message(one) for one in self._book.markers.values()]
        return response

    def _message(self, one: Board) -> Any:
        return interactive_marker(one, self._frame, lambda key: self._entries.number(one.name, key))

    # -- what is clicked --------------------------------------------------------------------------------------------

    def _on_feedback(self, message: InteractiveMarkerFeedback) -> None:
        try:
            if message.event_type == InteractiveMarkerFeedback.MENU_SELECT:
                control = "menu"
                click = parse_click(self._entries.meaning(message.marker_name, message.menu_entry_id))
            elif message.event_type == InteractiveMarkerFeedback.BUTTON_CLICK:
                control, click = "button", parse_click(message.control_name)
            else:
                return  # mouse movements and poses, which RViz sends along with clicks
        except ValueError as error:
            self.get_logger().error(f"{message.client_id}: {plain(str(error))}")
            return
        here = str(self.get_parameter("operator").value)
        by = f"{here} ({message.client_id})" if here else message.client_id or "operator panel"
        if message.marker_name == ALL_ROBOTS and click.kind == STOP:
            self._stop_all.publish(Bool(data=True))
            for feed in self._feeds.values():
                self._ask(feed, click, by, control)
        elif message.marker_name in self._feeds:
            self._ask(self._feeds[message.marker_name], click, by, control)
        else:
            self.get_logger().error(f"{message.client_id}: no robot {message.marker_name!r} here")

    def _ask(self, feed: RobotFeed, click: Click, by: str, control: str) -> None:
        what = click.choice or click.kind
        view = feed.view
        view.hear_outcome(time.monotonic(), f"{what} by {by}: asked", True)

        def answered(accepted: bool, reason: str) -> None:
            verdict = "accepted" if accepted else f"refused, {reason}"
            view.hear_outcome(time.monotonic(), f"{what} by {by}: {verdict}", accepted)
            text = f"{view.label}: {what} by {by}: {verdict}"
            if accepted:
                self.get_logger().info(text)
            else:  # a separate call: rclpy allows one severity per line of code
                self.get_logger().warning(text)

        feed.ask(click, by, f"clicked in the panel ({control})", answered)


def main() -> None:
    run_node(OperatorNode, (ConfigError,))


if __name__ == "__main__":
    main()
