"""`rosa operator`: what the panel does, from a shell, for sites without a screen.

    rosa operator list
    rosa operator decide panda0 resume --why "the server is back"
    rosa operator stop all

ROS 2 is imported only when a command runs, so that `rosa serve` needs none.
"""

from __future__ import annotations

import argparse
import dataclasses
import getpass
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rosa_client.operator.choices import DECIDE, RELEASE, STOP, Click, choices
from rosa_client.operator.lights import lights
from rosa_client.operator.robot_view import AuditView, RobotView
from rosa_contract.errors import ContractError

if TYPE_CHECKING:
    from rosa_client.nodes.robot_feed import RobotFeed

SETTLE_S = 1.5  # nothing new for this long: then all robots are found, and their latched topics are here
ALL = "all"
ACCEPTED, REFUSED = 0, 1


class OperatorError(ContractError):
    """A command that could not be asked; the text says what was seen instead."""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """`rosa operator` and its commands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "operator", help="see what robots wait for a person, decide, stop (needs ROS 2)"
    )
    inner = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    _command(inner, _list, "list", "every robot, what it does, and what it waits for").add_argument(
        "--json", action="store_true", help="for machines"
    )
    decide = _command(inner, _decide, "decide", "answer a robot's alert")
    decide.add_argument("robot", help="its namespace, such as panda0")
    decide.add_argument("choice", help="one of the alert's choices, such as resume")
    decide.add_argument("--alert", type=int, help="number of the alert that is meant; default: the open one")
    _signed(decide)
    stop = _command(inner, _stop, "stop", "emergency stop; stays until it is released")
    stop.add_argument("robot", help="its namespace, or all")
    release = _command(inner, _release, "release", "release an emergency stop; nothing moves by this alone")
    release.add_argument("robot", help="its namespace")
    _signed(release)
    audit = _command(inner, _audit, "audit", "the last decisions: who, when, what, why")
    audit.add_argument("robot", nargs="?", default="", help="its namespace; default: every robot")
    return parser


def main(arguments: argparse.Namespace) -> int:
    """0 when done or accepted, 1 when the robot refused; raises `OperatorError` when nobody could be asked."""
    return int(arguments.act(arguments))


def _command(inner: Any, act: Callable[[argparse.Namespace], int], name: str, text: str) -> Any:
    parser = inner.add_parser(name, help=text)
    parser.add_argument(
        "--wait", type=_seconds, default=5.0, metavar="S", help="look for robots this long, s"
    )
    parser.set_defaults(act=act)
    return parser


def _signed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--why", required=True, help="in your words; it is kept with the decision")
    parser.add_argument("--by", default=_me(), help="who decides; default: %(default)s")


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f"expected seconds from 0 to 3600, got {text}")
    return value


def _me() -> str:
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):  # a container without a user entry
        return f"uid {os.getuid()}@{socket.gethostname()}"


# -- the commands -----------------------------------------------------------------------------------------------------


def _list(arguments: argparse.Namespace) -> int:
    with _shell() as shell:
        feeds = shell.find(arguments.wait)
        now_s = time.monotonic()
        if arguments.json:
            print(json.dumps([_record(feed.view, now_s) for feed in feeds], indent=2))
        else:
            print("\n".join(line for feed in feeds for line in _lines(feed.view, now_s)))
    return ACCEPTED


def _decide(arguments: argparse.Namespace) -> int:
    with _shell() as shell:
        feed = shell.feed(arguments.robot)
        alert_id = arguments.alert
        if alert_id is None:
            shell.spin(lambda: feed.view.alert is not None, arguments.wait)
            if feed.view.alert is None:
                raise OperatorError(shell.why_nothing_to_decide(feed, arguments.wait))
            alert_id = feed.view.alert.id
        click = Click(DECIDE, alert_id, arguments.choice)
        return shell.ask(feed, click, arguments.by, arguments.why, arguments.wait)


def _stop(arguments: argparse.Namespace) -> int:
    with _shell() as shell:
        if arguments.robot != ALL:
            feed = shell.feed(arguments.robot)
            return shell.ask(feed, Click(STOP), _me(), "", arguments.wait)
        shell.stop_all(arguments.wait)
        feeds = shell.find(arguments.wait)
        return max(shell.ask(feed, Click(STOP), _me(), "", arguments.wait) for feed in feeds)


def _release(arguments: argparse.Namespace) -> int:
    with _shell() as shell:
        feed = shell.feed(arguments.robot)
        return shell.ask(feed, Click(RELEASE), arguments.by, arguments.why, arguments.wait)


def _audit(arguments: argparse.Namespace) -> int:
    with _shell() as shell:
        wanted = _namespace(arguments.robot) if arguments.robot else ""
        feeds = shell.find(arguments.wait, wanted)
        if wanted:
            feeds = [feed for feed in feeds if feed.view.namespace == wanted] or shell.unknown(wanted)
        entries = [(entry, feed.view.label) for feed in feeds for entry in feed.view.audits]
        for entry, label in sorted(entries, key=lambda pair: pair[0].when_s):
            print(_audit_line(entry, label))
        if not entries:
            print("nobody has decided anything since these robots were started")
    return ACCEPTED


# -- words ------------------------------------------------------------------------------------------------------------


def _lines(view: RobotView, now_s: float) -> list[str]:
    """What a person should know of one robot."""
    status = view.status
    if status is None:
        lines = [f"{view.label}: no status; is its runtime node active?"]
    else:
        doing = f"{status.task}, {status.state}" if status.task else status.state
        lines = [f"{view.label}: {doing}, round {status.round}, attempt {status.attempt}"]
        if silent_s := view.silent_for_s(now_s):
            lines.append(f"  no sign of life for {silent_s:.0f} s")
    if shown := lights(view, now_s):
        lines.append("  " + "; ".join(f"{light.name} {light.text} ({light.level})" for light in shown))
    if view.stopped:
        lines.append(f'  EMERGENCY STOP is latched: rosa operator release {view.label} --why "..."')
    elif view.arm is not None and (view.arm.fault or view.arm.cut_short):
        lines.append(f"  arm: {view.arm.fault or view.arm.cut_short}")
    if arm_silent_s := view.arm_silent_for_s(now_s):
        lines.append(f"  the arm has been silent for {arm_silent_s:.0f} s")
    if view.alert is not None:
        offered = " | ".join(parts for parts in (c.key.rpartition("/")[2] for c in choices(view)) if parts)
        lines.append(f"  ALERT {view.alert.id}, {view.alert.cause}: {view.alert.reason}")
        lines.append(f"  decide: {offered}")
    return lines


def _record(view: RobotView, now_s: float) -> dict[str, Any]:
    """The same for machines."""
    status = view.status
    return {
        "namespace": view.namespace,
        "robot": view.label,
        "task": status.task if status is not None else "",
        "state": status.state if status is not None else "",
        "silent_s": round(view.silent_for_s(now_s), 1),
        "emergency_stop": view.stopped,
        "arm_silent_s": round(view.arm_silent_for_s(now_s), 1),
        "arm_fault": view.arm.fault if view.arm is not None else "",
        "lights": [dataclasses.asdict(light) for light in lights(view, now_s)],
        "alert": None
        if view.alert is None
        else {
            "id": view.alert.id,
            "cause": view.alert.cause,
            "reason": view.alert.reason,
            "choices": list(view.alert.choices),
        },
        "last_decision": view.last_audit.line() if view.last_audit is not None else "",
    }


def _audit_line(entry: AuditView, label: str) -> str:
    when = datetime.fromtimestamp(entry.when_s).astimezone().isoformat(sep=" ", timespec="seconds")
    about = f"alert {entry.alert_id}: " if entry.alert_id else ""
    why = f'; why: "{entry.why}"' if entry.why else ""
    return f"{when}  {label}  {about}{entry.line()}{why}"


# -- ROS 2 ------------------------------------------------------------------------------------------------------------


def _namespace(robot: str) -> str:
    return "/" + robot.strip("/")


@contextmanager
def _shell() -> Iterator[Shell]:
    """A node of its own for one command."""
    try:
        import rclpy

        from rosa_client.bringup import prepare_environment
    except ImportError as error:
        raise OperatorError(
            f"needs ROS 2 and the built rosa_interfaces; source them first ({error})"
        ) from None
    prepare_environment()
    rclpy.init(args=[], signal_handler_options=rclpy.SignalHandlerOptions.NO)
    shell = Shell()
    try:
        yield shell
    finally:
        shell.close()
        rclpy.try_shutdown()


class Shell:
    """Finds robots and asks them, one thing after the other."""

    def __init__(self) -> None:
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.node import Node

        self.node = Node(f"rosa_operator_{os.getpid()}")
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)
        self._feeds: dict[str, RobotFeed] = {}

    def close(self) -> None:
        self._executor.shutdown()
        self.node.destroy_node()

    def spin(self, condition: Callable[[], Any], timeout_s: float) -> bool:
        """Whether the condition came true in time."""
        until_s = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > until_s:
                return False
            self._executor.spin_once(timeout_sec=0.05)
        return True

    def feed(self, robot: str) -> RobotFeed:
        """The robot of that name, seen or not: an emergency stop must not wait until it is."""
        from rosa_client.nodes.robot_feed import RobotFeed

        namespace = _namespace(robot)
        if namespace not in self._feeds:
            self._feeds[namespace] = RobotFeed(self.node, namespace)
        return self._feeds[namespace]

    def find(self, wait_s: float, wanted: str = "") -> list[RobotFeed]:
        """Every robot that can be seen, once no more of them appear. Raises `OperatorError` when there is none.

        `wanted`: the namespace of one that is waited for, if it takes as long as that.
        """
        if not self.spin(self._seen, wait_s):
            raise OperatorError(self._nobody(wait_s))
        graph: tuple[list[str], int] = ([], 0)
        changed_s = time.monotonic()

        def settled() -> bool:
            nonlocal graph, changed_s
            now_s = time.monotonic()
            names = self._seen()
            newest = (names, len(self.node.get_topic_names_and_types()))
            if newest != graph:
                graph, changed_s = newest, now_s
            feeds = [self.feed(name) for name in names]  # listening begins here
            spoke = all(feed.view.status is not None for feed in feeds)
            return now_s - changed_s > SETTLE_S and spoke and (not wanted or wanted in names)

        self.spin(settled, wait_s)
        return [self.feed(name) for name in self._seen()]

    def ask(self, feed: RobotFeed, click: Click, by: str, why: str, wait_s: float) -> int:
        """Ask one robot and print its answer."""
        answers: list[tuple[bool, str]] = []
        what = click.choice or click.kind.replace("_", " ")
        if not self.spin(lambda: feed.ready(click.kind), wait_s):
            seen = self._seen()
            if feed.view.namespace not in seen:
                if click.kind == STOP:  # whoever listens on the topic gets it all the same
                    feed.ask(click, by, why, lambda accepted, reason: None)
                self.unknown(feed.view.namespace)
            raise OperatorError(
                f"{feed.view.label} is there, but does not take '{what}'; is it being started?"
            )
        feed.ask(click, by, why, lambda accepted, reason: answers.append((accepted, reason)))
        self.spin(lambda: feed.check_answers(time.monotonic()) or answers, 60.0)
        accepted, reason = answers[0]
        if accepted:
            print(f"{feed.view.label}: {what}: accepted" + (f" ({reason})" if reason else ""))
            return ACCEPTED
        print(f"{feed.view.label}: {what}: refused: {reason}", file=sys.stderr)
        return REFUSED

    def stop_all(self, wait_s: float) -> None:
        """Tell every arm that listens at once, before any robot is looked for."""
        from rclpy.qos import QoSProfile
        from std_msgs.msg import Bool

        from rosa_client.nodes.robot_feed import STOP_ALL

        topic = self.node.create_publisher(Bool, STOP_ALL, QoSProfile(depth=10))
        self.spin(lambda: topic.get_subscription_count() > 0, wait_s)
        topic.publish(Bool(data=True))

    def unknown(self, namespace: str) -> list[RobotFeed]:
        """Raises `OperatorError`: no such robot here."""
        seen = ", ".join(name.strip("/") for name in self._seen())
        if not seen:
            raise OperatorError(self._nobody(None))
        raise OperatorError(f"no robot {namespace.strip('/')!r}; found: {seen}")

    def why_nothing_to_decide(self, feed: RobotFeed, wait_s: float) -> str:
        view = feed.view
        if view.namespace not in self._seen():
            self.unknown(view.namespace)
        state = view.status.state if view.status is not None else "not active"
        return f"{view.label} waits for no decision: it is {state} (looked for {wait_s:g} s)"

    def _seen(self) -> list[str]:
        from rosa_client.nodes.robot_feed import robots_seen

        return robots_seen(self.node)

    def _nobody(self, wait_s: float | None) -> str:
        nodes = [name for name in self.node.get_node_names() if name != self.node.get_name()]
        others = f"{len(nodes)} other ROS nodes" if nodes else "no other ROS node"
        domain = os.environ.get("ROS_DOMAIN_ID", "0, its default")
        reach = os.environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "SUBNET, its default")
        within = f" within {wait_s:g} s" if wait_s is not None else ""
        return (
            f"no robot found{within}; seen: {others}. Is a bring-up running, with the same ROS_DOMAIN_ID "
            f"(here {domain}) and a ROS_AUTOMATIC_DISCOVERY_RANGE that reaches it (here {reach})?"
        )
