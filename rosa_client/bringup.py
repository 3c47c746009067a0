"""Starts and watches the nodes of one robot where there is no `ros2 launch`: the list of `graph.py`, as processes.

    python -m rosa_client.bringup config:=configs/pick_place.yaml robot:=configs/robots/panda.yaml start_server:=true

Each child has its own process group and dies with this process whatever happens to it. On SIGINT or SIGTERM, or when
one child ends, all get SIGINT, and after a grace time SIGKILL. `Supervisor` is the same as a library.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from rosa_client.graph import Arguments, NodeSpec, robot_graph

GRACE_S = 5.0
LIFECYCLE_TIMEOUT_S = 20.0
DDS_PROFILE = Path(__file__).resolve().parent.parent / "configs" / "dds" / "fastdds.xml"
SHM = Path("/dev/shm")
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


class BringupError(Exception):
    """Something did not start, in words for a person."""


@dataclass
class Child:
    """One started process."""

    name: str
    process: subprocess.Popen[bytes]
    reader: threading.Thread


class Supervisor:
    """Starts processes and never leaves one behind. Use it as a context manager.

    `say(name, line)` gets each line that a child writes, from that child's reader thread.
    """

    def __init__(self, say: Callable[[str, str], None] | None = None, domain_id: int | None = None) -> None:
        self._say = say or (lambda name, line: print(f"[{name}] {line}", flush=True))
        self._children: dict[str, Child] = {}
        self._environment = environment(domain_id)
        self._shared_before = shared_memory()

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self, name: str, command: Sequence[str], **environment: str) -> None:
        """Start `command` as `name`; a child of that name that has ended is replaced."""
        if name in self._children and self.is_running(name):
            raise BringupError(f"{name} is already running (pid {self.pid(name)})")
        parent = os.getpid()
        try:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**self._environment, **environment},
                preexec_fn=lambda: _die_with(parent),
                start_new_session=True,
            )
        except OSError as error:
            raise BringupError(f"{name}: cannot start {command[0]}: {error.strerror}") from error
        reader = threading.Thread(target=self._read, args=(name, process), daemon=True)
        self._children[name] = Child(name, process, reader)
        reader.start()

    def start_node(self, spec: NodeSpec) -> None:
        """Start one node of a graph."""
        self.start(spec.name, node_command(spec))

    def is_running(self, name: str) -> bool:
        return self._children[name].process.poll() is None

    def pid(self, name: str) -> int:
        return self._children[name].process.pid

    def ended(self) -> dict[str, int]:
        """Children that have ended, with their exit status (negative: the signal)."""
        statuses = {name: child.process.poll() for name, child in self._children.items()}
        return {name: status for name, status in statuses.items() if status is not None}

    def kill(self, name: str) -> None:
        """SIGKILL one child at once, as a crash would."""
        self._signal(self._children[name], signal.SIGKILL)
        self._children[name].process.wait()

    def stop(self, grace_s: float = GRACE_S) -> None:
        """End every child, the last started first: SIGINT, then SIGKILL after `grace_s`; then remove their traces."""
        children = list(reversed(self._children.values()))
        for child in children:
            self._signal(child, signal.SIGINT)
        until_s = time.monotonic() + grace_s
        for child in children:
            try:
                child.process.wait(max(0.0, until_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._say(child.name, f"did not end within {grace_s:g} s; killed")
            self._signal(child, signal.SIGKILL)  # also what the child itself may have left in its group
            child.process.wait()
            child.reader.join(timeout=1.0)
        self._children.clear()
        remove_shared_memory(self._shared_before)

    def _signal(self, child: Child, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.process.pid, number)

    def _read(self, name: str, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self._say(name, line.decode(errors="replace").rstrip())


def environment(domain_id: int | None = None) -> dict[str, str]:
    """This process's environment with what the nodes need: unbuffered output and the DDS profile."""
    made = dict(os.environ)
    made["PYTHONUNBUFFERED"] = "1"
    made.setdefault("RCUTILS_COLORIZED_OUTPUT", "0")
    if DDS_PROFILE.is_file():
        made.setdefault("FASTDDS_DEFAULT_PROFILES_FILE", str(DDS_PROFILE))
    if domain_id is not None:
        made["ROS_DOMAIN_ID"] = str(domain_id)
    return made


def node_command(spec: NodeSpec) -> list[str]:
    """How to run a node without `ros2 run`: its module with the same ROS arguments."""
    module = {"recorder_node": "rosa_sim.recorder"}.get(
        spec.executable, f"rosa_client.nodes.{spec.executable}"
    )
    command = [sys.executable, "-m", module, "--ros-args", "-r", f"__node:={spec.name}", "-r"]
    command.append(f"__ns:={spec.namespace}")
    for name, value in spec.parameters.items():
        text = yaml.safe_dump(value, default_flow_style=True).removesuffix("...\n").strip()
        command += ["-p", f"{name}:={text}"]
    return command


def activate(node_name: str, domain_id: int | None = None, timeout_s: float = LIFECYCLE_TIMEOUT_S) -> None:
    """Configure and activate a managed node; raises `BringupError` when it does not come up."""
    import rclpy
    from lifecycle_msgs.msg import Transition
    from lifecycle_msgs.srv import ChangeState
    from rclpy.executors import SingleThreadedExecutor

    context = rclpy.Context()
    rclpy.init(context=context, domain_id=domain_id, signal_handler_options=rclpy.SignalHandlerOptions.NO)
    node = rclpy.create_node(f"bringup_{os.getpid()}", context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    try:
        client = node.create_client(ChangeState, f"{node_name}/change_state")
        until_s = time.monotonic() + timeout_s
        while not client.wait_for_service(timeout_sec=0.2):
            if time.monotonic() > until_s:
                raise BringupError(f"{node_name} does not offer its lifecycle service after {timeout_s:g} s")
        for name, number in (
            ("configure", Transition.TRANSITION_CONFIGURE),
            ("activate", Transition.TRANSITION_ACTIVATE),
        ):
            future = client.call_async(ChangeState.Request(transition=Transition(id=number)))
            executor.spin_until_future_complete(future, timeout_sec=max(0.1, until_s - time.monotonic()))
            if not future.done():
                raise BringupError(f"{node_name} did not answer '{name}' within {timeout_s:g} s")
            if not future.result().success:
                raise BringupError(f"{node_name} refused to {name}; its own output says why")
    finally:
        executor.shutdown()
        node.destroy_node()
        rclpy.shutdown(context=context)


def start_robot(supervisor: Supervisor, given: Arguments, domain_id: int | None = None) -> list[NodeSpec]:
    """Start the nodes of one robot and bring the managed ones to active. Returns what was started."""
    specs = robot_graph(given)
    for spec in specs:
        supervisor.start_node(spec)
    for spec in specs:
        if spec.managed:
            activate(spec.full_name, domain_id)
    if ended := supervisor.ended():
        raise BringupError(
            "ended during start-up: " + ", ".join(f"{n} (status {s})" for n, s in ended.items())
        )
    return specs


def shared_memory() -> set[str]:
    """Fast DDS's files in shared memory now."""
    return {path.name for path in SHM.glob("*fastdds*")} | {path.name for path in SHM.glob("sem.fastdds*")}


def remove_shared_memory(before: set[str]) -> None:
    """Remove files that came after `before` and that no process has open or mapped: killed nodes leave theirs."""
    candidates = shared_memory() - before
    if not candidates:
        return
    used = _open_shared_memory()
    for name in candidates - used:
        (SHM / name).unlink(missing_ok=True)


def _open_shared_memory() -> set[str]:
    used = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            lines = maps.read_text().splitlines()
        except OSError:
            continue
        used |= {line.rsplit("/", 1)[1].split(" ")[0] for line in lines if "/dev/shm/" in line}
    for entry in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            target = os.readlink(entry)
        except OSError:
            continue
        if target.startswith("/dev/shm/"):
            used.add(Path(target.split(" ")[0]).name)
    return used


def _die_with(parent: int) -> None:
    """In the child, before exec: SIGKILL it when the thread that started it is gone."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was gone before the line above
        os._exit(1)


def parse(arguments: Sequence[str]) -> tuple[Arguments, bool, Path | None]:
    """`name:=value` as for `ros2 launch`: the robot's arguments, start_server, and where to record."""
    kinds = {entry.name: type(entry.default) for entry in fields(Arguments)}
    values: dict[str, Any] = {}
    start_server, record = False, None
    for argument in arguments:
        name, found, text = argument.partition(":=")
        if not found or name not in {*kinds, "start_server", "record"}:
            known = ", ".join([*kinds, "start_server", "record"])
            raise BringupError(f"expected name:=value with a name of {known}; got {argument!r}")
        if name == "record":
            record = Path(text) if text else None
        elif name == "start_server" or kinds[name] is bool:
            if text.lower() not in ("true", "false"):
                raise BringupError(f"{name}: expected true or false, got {text!r}")
            truth = text.lower() == "true"
            if name == "start_server":
                start_server = truth
            else:
                values[name] = truth
        elif kinds[name] is int:
            if not text.isdigit():
                raise BringupError(f"{name}: expected a whole number, got {text!r}")
            values[name] = int(text)
        else:
            values[name] = text
    return Arguments(**values), start_server, record


def recorder(given: Arguments, path: Path) -> NodeSpec:
    """The node that records everything of one robot to an MCAP file."""
    return NodeSpec("recorder_node", "recorder_node", "/" + given.namespace.strip("/"), {"path": str(path)})


def main() -> int:
    """Run one robot until a signal, or until one of its processes ends."""
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    try:
        given, start_server, record = parse(sys.argv[1:])
        with Supervisor() as supervisor:
            if start_server:
                supervisor.start("server", [sys.executable, "-m", "rosa_server.cli", "serve", given.config])
            if record is not None:
                supervisor.start_node(recorder(given, record))
            start_robot(supervisor, given)
            print("[bringup] running; Ctrl-C ends it", flush=True)
            while not stopping.wait(0.2):
                if ended := supervisor.ended():
                    raise BringupError(", ".join(f"{n} ended with status {s}" for n, s in ended.items()))
    except (BringupError, ValueError) as error:
        print(f"[bringup] ERROR: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
