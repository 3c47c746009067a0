"""`rosa run [TASK] --robot panda0`: give a robot its task, see its rounds, cancel with Ctrl-C.

ROS 2 is imported only when the command runs, so that `rosa serve` needs none.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rosa_client.operator.progress import ShownProgress
from rosa_client.operator.robot_view import OperatorError
from rosa_contract.config.prompts import Instruction
from rosa_contract.interrupt import EXIT_STATUS as CANCELLED
from rosa_contract.say import say
from rosa_contract.wording import NEEDS_ROS

if TYPE_CHECKING:
    from rosa_client.nodes.console.operator_client import OperatorClient
    from rosa_client.nodes.console.task_client import Ended, TaskClient

DONE, FAILED, REFUSED, NOBODY = 0, 1, 2, 3
ALONE_S = 4.0  # nobody else has been discovered for so long: on a busy machine one robot may come seconds after another
STATUSES = (
    f"Exit status: {DONE} done; {FAILED} failed, given up or aborted by an operator; {REFUSED} wrong arguments, or "
    f"the robot refused the task; {NOBODY} no such robot, or it fell silent; {CANCELLED} cancelled."
)


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """`rosa run`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "run",
        help="start a robot's task and follow it to the end (needs ROS 2)",
        description="Start a robot's task and print its rounds until it ends. Ctrl-C cancels the task and waits for "
        "the robot to end it; a second Ctrl-C exits immediately. " + STATUSES,
    )
    parser.add_argument(
        "task", nargs="?", default="", help="task; default: the one that the robot was started with"
    )
    parser.add_argument(
        "--prompt",
        default="",
        metavar="TEXT",
        help="what to do, in words; default: the prompt in the configuration",
    )
    parser.add_argument(
        "--parameter",
        type=_parameter,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="value for a {NAME} placeholder in the configuration's prompts",
    )
    parser.add_argument(
        "--robot", default="", help="robot namespace, such as panda0; default: the only robot"
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=0.0,
        metavar="S",
        help="give up after this long, s, not counting time spent waiting for a human; default: never",
    )
    parser.add_argument(
        "--wait", type=_seconds, default=10.0, metavar="S", help="how long to look for the robot, s"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the result as JSON and everything else to stderr"
    )
    return parser


def main(arguments: argparse.Namespace) -> int:
    """Exit status as `STATUSES` says."""
    try:
        from rosa_client.nodes.console.operator_client import connected
        from rosa_client.nodes.console.task_client import RejectedError, TaskClient
    except ImportError as error:
        raise OperatorError(f"{NEEDS_ROS} ({error})") from None
    with _signals() as signals, connected() as client:
        try:
            robot = arguments.robot or _only_robot(client, arguments.wait)
            task = TaskClient(client, robot)
            try:
                return _run(task, arguments, signals)
            finally:
                task.close()
        except RejectedError as error:
            say(f"rosa run: {error}", sys.stderr)
            return REFUSED
        except OperatorError as error:
            domain = os.environ.get("ROS_DOMAIN_ID", "0, its default")
            sought = f"/{arguments.robot.strip('/')}/run_task" if arguments.robot else "any robot"
            looked = f"looked for {sought} on ROS domain {domain}"
            say(f"rosa run: {error} ({looked})", sys.stderr)
            return NOBODY


def _run(task: TaskClient, arguments: argparse.Namespace, signals: list[int]) -> int:
    screen = Screen(sys.stderr if arguments.json else sys.stdout)
    progress = ShownProgress(task.view.label)

    def show() -> None:
        if task.step is not None:
            screen.show(progress.now(task.step, task.view), progress.lines(task.step, task.view))

    def interrupted() -> bool:
        show()
        return bool(signals)

    if not task.wait(arguments.wait, lambda: bool(signals)):
        screen.keep("cancelled before the task was sent")
        return CANCELLED
    task.send(arguments.task, arguments.timeout, Instruction(arguments.prompt, dict(arguments.parameter)))
    if not task.follow(interrupted):
        screen.keep(f"{task.view.label}: cancelling; waiting for the arm to come to rest")
        seen = len(signals)

        def again() -> bool:
            show()
            return len(signals) > seen

        if not task.cancel(again):
            screen.keep(f"{task.view.label} was told to cancel and has not confirmed it; look at the robot")
            return CANCELLED
    show()
    return _end(task.ended(), arguments.json, screen)


def _end(ended: Ended, as_json: bool, screen: Screen) -> int:
    screen.keep(
        f"{ended.outcome}: {ended.reason} ({ended.rounds} rounds, {ended.retries} retries, "
        f"{ended.deadlines_missed} of {ended.deadlines_met + ended.deadlines_missed} deadlines missed)"
    )
    if as_json:
        say(json.dumps(dataclasses.asdict(ended)))
    if ended.cancelled:
        return CANCELLED
    return DONE if ended.outcome == "done" else FAILED


class Screen:
    """One line that replaces itself on a terminal; anywhere else, lines."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._live = bool(stream.isatty())
        self._width = 0

    def show(self, now: str, lines: list[str]) -> None:
        """`now` is the present state; `lines` are what is new."""
        if not self._live:
            for line in lines:
                say(line, self._stream)
            return
        for line in lines:
            if line != now:  # alerts stay on the screen
                self.keep(line)
        if now or self._width:
            say(f"\r{now:<{self._width}}", self._stream, end="")
            self._width = len(now)

    def keep(self, line: str) -> None:
        """A line that stays."""
        blank = f"\r{' ' * self._width}\r" if self._width else ""
        self._width = 0
        say(blank + line, self._stream)


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Collects SIGINT and SIGTERM. An exception in the middle of a ROS call could leave it half done."""
    seen: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: seen.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _only_robot(client: OperatorClient, wait_s: float) -> str:
    """The robot that is there alone. A second one may be discovered seconds later, and then this one must not move."""
    feeds = client.find(max(wait_s, 2 * ALONE_S), settle_s=ALONE_S)
    names = [feed.view.namespace.strip("/") for feed in feeds]
    if len(names) > 1:
        raise OperatorError(f"several robots are there: name one with --robot: {', '.join(names)}")
    return names[0]


def _parameter(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    return name, value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1e5:
        raise argparse.ArgumentTypeError(f"expected seconds from 0 to 100000, got {text}")
    return value
