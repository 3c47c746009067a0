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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rosa_client.operator.choices import DECIDE, RELEASE, STOP, Click, choices, parse_click
from rosa_client.operator.lights import lights
from rosa_client.operator.robot_view import AuditView, OperatorError, RobotView, namespace_of
from rosa_contract.wire.bounds import MAX_ID
from rosa_contract.wording import NEEDS_ROS

if TYPE_CHECKING:
    from rosa_client.nodes.console.operator_client import OperatorClient
    from rosa_client.nodes.console.robot_feed import RobotFeed

ALL = "all"
ACCEPTED, REFUSED = 0, 1
WATCH_EVERY_S = 1.0
ONE_OR_ALL = "robot namespace, which is waited for; default: all robots"
LATECOMERS_S = 1.5  # how long `stop all` waits for robots that were not found with the others


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """`rosa operator` and its commands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "operator", help="list robots that need an operator, answer alerts, emergency stop (needs ROS 2)"
    )
    inner = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    listed = _command(inner, _list, "list", "list every robot, its state and its open alert")
    listed.add_argument("robot", nargs="?", default="", help=ONE_OR_ALL)
    form = listed.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--watch", action="store_true", help="refresh every second until Ctrl-C")
    decide = _command(inner, _decide, "decide", "answer a robot's alert")
    decide.add_argument("robot", help="robot namespace, such as panda0")
    decide.add_argument("choice", help="one of the alert's choices, such as resume")
    decide.add_argument("--alert", type=_number, help="alert number; default: the open alert")
    _signed(decide)
    stop = _command(inner, _stop, "stop", "trigger an emergency stop, which holds until released")
    stop.add_argument("robot", help="robot namespace, or all")
    release = _command(inner, _release, "release", "release an emergency stop; this alone moves nothing")
    release.add_argument("robot", help="robot namespace")
    _signed(release)
    audit = _command(inner, _audit, "audit", "show the latest decisions: who, when, what and why")
    audit.add_argument("robot", nargs="?", default="", help=ONE_OR_ALL)
    return parser


def main(arguments: argparse.Namespace) -> int:
    """0 when done or accepted, 1 when the robot refused; raises `OperatorError` when nobody could be asked."""
    return int(arguments.act(arguments))


def _command(inner: Any, act: Callable[[argparse.Namespace], int], name: str, text: str) -> Any:
    parser = inner.add_parser(name, help=text)
    parser.add_argument(
        "--wait", type=_seconds, default=5.0, metavar="S", help="how long to look for robots, s"
    )
    parser.set_defaults(act=act)
    return parser


def _signed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--why", required=True, help="your reason, recorded with the decision")
    parser.add_argument("--by", default="", help="who decides (default: you, as USER@HOST)")


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f"expected seconds from 0 to 3600, got {text}")
    return value


def _number(text: str) -> int:
    if not text.isdecimal() or int(text) > MAX_ID:
        raise argparse.ArgumentTypeError(f"expected the number of an alert, got {text!r}")
    return int(text)


def _me() -> str:
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):  # a container without a user entry
        return f"uid {os.getuid()}@{socket.gethostname()}"


# -- the commands -----------------------------------------------------------------------------------------------------


def _found(client: OperatorClient, arguments: argparse.Namespace) -> list[RobotFeed]:
    """The robot that was asked for, waiting for it, or all of them."""
    wanted = namespace_of(arguments.robot) if arguments.robot else ""
    feeds = client.find(arguments.wait, wanted)
    if not wanted:
        return feeds
    client.must_know(wanted)
    return [client.feed(wanted)]


def _list(arguments: argparse.Namespace) -> int:
    with _ros() as client:
        feeds = _found(client, arguments)
        now_s = time.monotonic()
        if arguments.json:
            print(json.dumps([_record(feed.view, now_s) for feed in feeds], indent=2))
        elif arguments.watch:
            _watch(client, feeds if arguments.robot else None)
        else:
            print(_listing(feeds, now_s))
    return ACCEPTED


def _listing(feeds: Sequence[RobotFeed], now_s: float) -> str:
    return "\n".join(line for feed in feeds for line in _lines(feed.view, now_s)) or "no robot is left"


def _watch(client: OperatorClient, feeds: list[RobotFeed] | None) -> None:
    """The list again and again, on a terminal in place of the one before. None: of all robots, later ones too."""
    clear = "\x1b[H\x1b[2J" if sys.stdout.isatty() else ""
    with suppress(KeyboardInterrupt):
        while True:
            shown = client.present() if feeds is None else feeds
            print(f"{clear}{_listing(shown, time.monotonic())}", flush=True)
            client.spin(lambda: False, WATCH_EVERY_S)


def _decide(arguments: argparse.Namespace) -> int:
    with _ros() as client:
        feed = client.feed(arguments.robot)
        number, about = arguments.alert, f"alert {arguments.alert}"
        if number is None:  # who decides may have read of another one: say which it was
            alert = client.open_alert(feed, arguments.wait)
            number, about = alert.id, f"alert {alert.id} ({alert.cause})"
        click = Click(DECIDE, number, arguments.choice)
        return _ask(client, feed, click, arguments.by or _me(), arguments.why, arguments.wait, f"{about}: ")


def _stop(arguments: argparse.Namespace) -> int:
    with _ros() as client:
        if arguments.robot == ALL:
            client.stop_all(arguments.wait)
            return _stop_each(client, client.find(arguments.wait), arguments.wait)
        return _ask(client, client.feed(arguments.robot), Click(STOP), _me(), "", arguments.wait)


def _stop_each(client: OperatorClient, feeds: list[RobotFeed], wait_s: float) -> int:
    """Ask every robot, also when another one's arm is gone; those that can answer need not wait for it.

    On a busy machine one robot may be found seconds after the others: it ends when no new one has come for a while.
    """
    answers, gone, asked = [], [], set[str]()
    while feeds:
        for feed in sorted(feeds, key=lambda feed: not feed.ready(STOP)):
            asked.add(feed.view.namespace)
            try:
                answers.append(_ask(client, feed, Click(STOP), _me(), "", wait_s))
            except OperatorError as error:
                gone.append(str(error))
        client.spin(lambda: False, LATECOMERS_S)
        feeds = [feed for feed in client.present() if feed.view.namespace not in asked]
    if gone:
        raise OperatorError("; ".join(gone))
    return max(answers)


def _release(arguments: argparse.Namespace) -> int:
    with _ros() as client:
        feed = client.feed(arguments.robot)
        return _ask(client, feed, Click(RELEASE), arguments.by or _me(), arguments.why, arguments.wait)


def _audit(arguments: argparse.Namespace) -> int:
    with _ros() as client:
        feeds = _found(client, arguments)
        entries = [(entry, feed.view.label) for feed in feeds for entry in feed.view.audits]
        for entry, label in sorted(entries, key=lambda pair: pair[0].when_s):
            print(_audit_line(entry, label))
        if not entries:
            print(
                "nobody has decided anything since these robots were started (earlier: the server's log, run.mcap)"
            )
    return ACCEPTED


def _ask(
    client: OperatorClient, feed: RobotFeed, click: Click, by: str, why: str, wait_s: float, about: str = ""
) -> int:
    """Ask one robot and print its answer, after `about` what it was asked."""
    what = f"{feed.view.label}: {about}{(click.choice or click.kind).replace('_', ' ')}"
    accepted, reason = client.ask(feed, click, by, why, wait_s)
    if accepted:
        print(f"{what}: accepted" + (f" ({reason})" if reason else ""))
        return ACCEPTED
    print(f"{what}: refused: {reason}", file=sys.stderr)
    return REFUSED


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
        offered = " | ".join(
            parse_click(choice.key).choice for choice in choices(view) if choice.key != RELEASE
        )
        lines.append(f"  ALERT {view.alert.id}, {view.alert.cause}: {view.alert.reason}")
        lines.append(f'  decide: rosa operator decide {view.label} CHOICE --why "..."')
        lines.append(f"  CHOICE: {offered}")
    return lines


def _record(view: RobotView, now_s: float) -> dict[str, Any]:
    """A robot and its alert as JSON says them, for programs."""
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


@contextmanager
def _ros() -> Iterator[OperatorClient]:
    """A client for one command."""
    try:
        from rosa_client.nodes.console.operator_client import connected
    except ImportError as error:
        raise OperatorError(f"{NEEDS_ROS} ({error})") from None
    with connected() as client:
        yield client
