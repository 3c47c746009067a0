"""Starts and watches the nodes of robots as processes, for machines without `ros2 launch`.

    python -m rosa_client.bringup start_server:=true
    python -m rosa_client.bringup config:=configs/two_robots.yaml fleet:=true panel:=true start_server:=true

`graph.py` lists the nodes. SIGINT or SIGTERM ends all of them (`supervisor.py`). When a process ends by itself,
`roles.py` says what follows: no robot needs a recorder or the panel, a robot needs its own nodes, and when no robot can
work any more, everything ends. Exit status 0: no robot was lost. `Bringup` is the same as a library.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import yaml
from ament_index_python.packages import get_package_prefix

from rosa_client.bringup.arguments import ENTRIES, robot_and_cell, split
from rosa_client.bringup.description import description_nodes, description_note
from rosa_client.bringup.graph import PACKAGE, Cell, NodeSpec, Robot, panel, recorder, robot_graph, robots_of
from rosa_client.bringup.last_words import LastWords
from rosa_client.bringup.names import Names
from rosa_client.bringup.preflight import check_robots, check_server
from rosa_client.bringup.roles import roles_of
from rosa_client.bringup.supervisor import BringupError, Supervisor
from rosa_client.executables import module_of, program
from rosa_client.nodes.base.environment import prepare_environment
from rosa_client.nodes.base.managed import AUTOSTART
from rosa_client.nodes.base.readiness import tell_ready
from rosa_client.nodes.base.shell import FAILED, LOOK_EVERY_S
from rosa_contract.say import say
from rosa_contract.shipped import shipped

CONFIGS = shipped("configs")
DEFAULTS = {"config": str(CONFIGS / "pick_place.yaml"), "robot": str(CONFIGS / "robots" / "panda.yaml")}
# A runtime after its start; what else the robots have, when the last one's runtime is up.
ACTIVE_WITHIN_S = 30.0
PANEL_AGAIN_AFTER_S = 2.0  # as in the launch files; no limit, since a person may repair what ends it


class Bringup:
    """A context manager around a running cell: `server` (a factory file, or none) and the nodes of `robots`.

    With `logs`, each process writes to its own file there; without, to standard output with its name before each line.
    """

    def __init__(
        self,
        robots: Sequence[Robot],
        server: str | None = None,
        logs: Path | None = None,
        last: bool = False,
        graph: Callable[[Robot], list[NodeSpec]] = robot_graph,
        panel: NodeSpec | None = None,
    ) -> None:
        """Raises `PreflightError` for robots that cannot be brought up.

        `last`: this process does not use ROS afterwards, so shared memory that only it has mapped is removed too.

        `graph`: the nodes of a robot, in the order of their start; fault injection puts its own between the others.
        `panel`: the operator panel. When it ends, robots go on, and `news` starts it again.
        """
        check_robots(robots)
        self._robots = robots
        self._panel = panel
        self._panel_due_s: float | None = None  # when to start it again; None while it runs
        self._graph = graph
        self._roles = roles_of(robots, graph, panel)
        self._told: set[str] = set()  # processes whose end was reported
        self.down: set[str] = set()  # processes that were ended on purpose
        self._last = last
        self._names = Names()
        self._words = LastWords()
        self.unlogged = ""  # why the logs are incomplete; empty: they are not
        self._server = server
        self._logs = logs
        if logs is not None:
            logs.mkdir(parents=True, exist_ok=True)
        prepare_environment()
        made = {**os.environ, "PYTHONUNBUFFERED": "1", "RCUTILS_COLORIZED_OUTPUT": "0"}
        if logs is not None:
            made["ROS_LOG_DIR"] = str(logs.resolve() / "ros")
        self.supervisor = Supervisor(self._say, made)

    def __enter__(self) -> Bringup:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End everything; safe to call twice."""
        self.supervisor.stop(listening=not self._last)
        self._names.release()

    def failure(self) -> str:
        """Why no robot can work any more, and where the logs are; empty while one can."""
        over = self._roles.all_lost(self._ended(), self._words.of)
        return over and over + self._where()

    def lost(self) -> list[str]:
        """Robots that have lost a node."""
        return self._roles.lost(self._ended())

    def news(self) -> list[str]:
        """What ended by itself since the last call, and what follows. Also restarts an ended panel when it is time."""
        ended = self._ended()
        self._told &= ended.keys()  # a restarted process may end again
        news = [name for name in ended if name not in self._told]
        self._told |= set(news)
        self._mind_panel(ended, time.monotonic())
        return [self._roles.explain(name, ended) for name in news]

    def _mind_panel(self, ended: Mapping[str, int], now_s: float) -> None:
        """Start an ended panel again after a while, however often it ends."""
        if self._panel is None or self._panel.process not in ended:
            return
        if self._panel_due_s is None:
            self._panel_due_s = now_s + PANEL_AGAIN_AFTER_S
        elif now_s >= self._panel_due_s:
            self._panel_due_s = None
            self._told.discard(self._panel.process)  # report its next end, also when it comes at once
            self.supervisor.start(self._panel.process, node_command(self._panel))

    def _ended(self) -> dict[str, int]:
        return {name: status for name, status in self.supervisor.ended().items() if name not in self.down}

    def start_server(self, server: str | None = None) -> None:
        """Start the server, or start it again after it has ended. `server`: a factory file, default the one given."""
        self._server = server or self._server
        if self._server is None:
            raise BringupError("start_server: expected a factory file, got none")
        self.supervisor.start("server", [sys.executable, "-m", "rosa_server.cli", "serve", self._server])

    def _start(self) -> None:
        self._names.take([robot.namespace for robot in self._robots])
        if self._server is not None:
            self.start_server()
        if self._panel is not None:
            self.supervisor.start(self._panel.process, node_command(self._panel))
        # One after the other, as far as their runtimes; what takes long, such as to reach an arm, they do together.
        started = {robot.namespace: self._start_robot(robot) for robot in self._robots}
        until_s = time.monotonic() + ACTIVE_WITHIN_S
        for robot in self._robots:
            for node in started[robot.namespace]:
                if node.parameters.get(AUTOSTART):
                    self._await(node, robot.namespace, until_s)
        if died := self.failure():
            raise BringupError(died)

    def _start_robot(self, robot: Robot) -> list[NodeSpec]:
        """Start its nodes, and wait for its runtime."""
        nodes = [recorder(robot)] if robot.record else []
        nodes += [*description_nodes(robot), *self._graph(robot)]
        if note := description_note(robot):
            self._say("bringup", note)
        for node in nodes:
            self.supervisor.start(node.process, node_command(node))
        for node in nodes:
            if node.is_runtime and robot.autostart:
                self._await(node, robot.namespace, time.monotonic() + ACTIVE_WITHIN_S)
        return nodes

    def _await(self, node: NodeSpec, robot: str, until_s: float) -> None:
        """Wait until a node is active, or its robot is lost: whoever gives it a task at once finds an arm and pictures.

        Raises `BringupError` for what must be put right before any robot works: a runtime that refuses its files or its
        parameters, or hangs. A node that ends in any other way costs only its robot, and hardware may take its time.
        """
        while not self.supervisor.is_ready(node.process):
            if node.is_runtime and self._ended().get(node.process) == FAILED:
                raise BringupError(f"{node.full_name} cannot start{self._because(node)}")
            if died := self.failure():
                raise BringupError(died)
            if robot in self.lost():
                return
            if time.monotonic() > until_s:
                words = f"{node.full_name} did not become active within {ACTIVE_WITHIN_S:g} s{self._because(node)}"
                if node.is_runtime:
                    raise BringupError(words)
                self._say("bringup", words)
                return
            time.sleep(LOOK_EVERY_S)

    def _because(self, node: NodeSpec) -> str:
        """What a node said last, where it said anything, and where the logs are."""
        words = self._words.of(node.process)
        return (f": {words}" if words else "") + self._where()

    def _where(self) -> str:
        return f"; see {self._logs}" if self._logs is not None else ""

    def _say(self, name: str, line: str) -> None:
        self._words.hear(name, line)
        if self._logs is None:
            say(f"[{name}] {line}")
            return
        path = self._logs / f"{name.replace('/', '_')}.log"
        try:
            with path.open("a") as file:
                file.write(line + "\n")
        except OSError as error:  # whoever writes must go on, so its output is read on
            if not self.unlogged:
                self.unlogged = f"{path}: {error.strerror or error}"
                complain(f"logs are incomplete from here on: {self.unlogged}; everything else goes on")


def node_command(spec: NodeSpec) -> list[str]:
    """The command that runs a node without `ros2 run`: its module with the same ROS arguments."""
    if spec.package == PACKAGE:
        command = program(module_of(spec.executable))
    else:
        command = [f"{get_package_prefix(spec.package)}/lib/{spec.package}/{spec.executable}"]
    command += ["--ros-args", "-r", f"__node:={spec.name}", "-r", f"__ns:={spec.namespace}"]
    for name, other in spec.remap.items():
        command += ["-r", f"{name}:={other}"]
    for name, value in spec.parameters.items():
        text = yaml.safe_dump(value, default_flow_style=True).removesuffix("...\n").strip()
        command += ["-p", f"{name}:={text}"]
    return command


def end_on_signals() -> Callable[[], None]:
    """Make the first SIGINT or SIGTERM raise `KeyboardInterrupt`, also during start-up; later ones do nothing.

    Python drops an exception that is raised while it forks. So call the returned function regularly: it raises again.
    """
    seen: list[int] = []

    def stop(number: int, _: object) -> None:
        seen.append(number)
        if len(seen) == 1:
            raise KeyboardInterrupt

    def check() -> None:
        if seen:
            raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    return check


def parse(arguments: Sequence[str]) -> tuple[Robot, Cell]:
    """`name:=value` as for `ros2 launch`: the arguments of one robot, and those for the whole cell."""
    return robot_and_cell({**DEFAULTS, **split(arguments)}, CONFIGS.parent)


def usage() -> str:
    lines = [str(__doc__), "Arguments:"]
    for name, entry in ENTRIES.items():
        lines.append(f"  {f'{name}:={DEFAULTS.get(name, entry.default)}':<34} {entry.metadata['doc']}")
    return "\n".join(lines)


def main() -> int:
    """Run the robots until a signal, or until none can work any more."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(usage())
        return 0
    check_signals = end_on_signals()
    try:
        robot, cell = parse(sys.argv[1:])
        robots = robots_of(robot, cell)
        check_server(robots, cell)
        bringup = Bringup(
            robots,
            server=robot.config if cell.start_server else None,
            last=True,
            panel=panel(robots, cell) if cell.panel else None,
        )
        with bringup:
            tell_ready()
            names = ", ".join(f"{one.namespace} ({one.task or 'first task'})" for one in robots)
            print(f"[bringup] running {names}; Ctrl-C ends it", flush=True)
            watch(bringup, check_signals)
    except KeyboardInterrupt:
        return 0
    except (BringupError, ValueError) as error:
        complain(str(error))
        return 2


def watch(bringup: Bringup, check_signals: Callable[[], None]) -> NoReturn:
    """Report what ends, until a signal or until no robot can work. Raises `BringupError` when a robot was lost."""
    try:
        while True:
            time.sleep(0.2)
            check_signals()
            for line in bringup.news():
                complain(line)
            if died := bringup.failure():
                raise BringupError(died)
    except KeyboardInterrupt:
        if lost := bringup.lost():
            raise BringupError(f"ended; lost on the way: {', '.join(lost)}") from None
        raise


def complain(line: str) -> None:
    say(f"[bringup] ERROR: {line}", sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
