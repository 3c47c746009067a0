"""Switches faults on and off in a running cell, and reports when everything works again."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zmq
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from rclpy.client import Client
from rclpy.node import Node
from rosa_interfaces.srv import ReleaseEmergencyStop
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger

from rosa_client.bringup.supervisor import BringupError
from rosa_contract.errors import CodecError
from rosa_contract.wire import codec
from rosa_contract.wire.messages import HealthQuery, HealthReport
from rosa_sim.controller.graph import CELL
from rosa_sim.faults.cell import SERVER, FaultyCell
from rosa_sim.faults.link import LinkFault
from rosa_sim.faults.proxy import set_fault
from rosa_sim.faults.switch import turn
from rosa_sim.faults.table import ARM, CLOCK, CONTROLLER, GATEWAY, LINK, RUNTIME, SENSORS, WORKER, fault

WORKER_MODULE = "rosa_server.serving.worker.worker"
GONE_WITHIN_S = 5.0
ASK_EVERY_S = 0.1
SIGNALS = {"worker_killed": signal.SIGKILL, "worker_stopped": signal.SIGSTOP}


class Injector:
    """One fault at a time. `begin` and `end` do not wait for the robot; `ready` says whether the server is complete."""

    def __init__(self, cell: FaultyCell, node: Node) -> None:
        """`node`: in the robot's namespace; it is spun by its owner."""
        self._cell = cell
        self._setup = cell.setup
        self._name = ""
        self._stopped_pid = 0
        self._pressed = False
        self._button = node.create_publisher(Bool, "emergency_stop", 10)
        self._release: Client[Any, Any] = node.create_client(
            ReleaseEmergencyStop, "arm_node/release_emergency_stop"
        )
        self._controller: Client[Any, Any] = node.create_client(SetParameters, f"{CELL}/set_parameters")
        self._told_client: Client[Any, Any] = node.create_client(Trigger, f"{CELL}/told_share")
        self._told: Any = None
        self._shown = node.create_publisher(String, "fault", 10)  # for the recording: which fault is on
        self._health = (
            Health(self._setup.factory.gateway.bind) if not self._setup.factory.gateway.curve_keys else None
        )
        self._places: dict[str, tuple[Callable[[str], None], Callable[[], None]]] = {
            LINK: (self._bad_link, self._good_link),
            WORKER: (self._bad_worker, self._good_worker),
            GATEWAY: (self._kill_server, self._start_server),
            SENSORS: (self._bad_sensor, lambda: turn(self._setup.switch(SENSORS))),
            ARM: (self._bad_arm, self._good_arm),
            CONTROLLER: (self._mismeasure, lambda: self._mismeasure("")),
            CLOCK: (self._jump, lambda: turn(self._setup.switch(CLOCK))),
            RUNTIME: (self._stop_runtime, self._continue),
        }

    @property
    def told_share(self) -> float:
        """How fast the controller was told to move the arm at most, as a share of its joints' limits; NaN: unknown."""
        done = self._told is not None and self._told.done() and self._told.result() is not None
        return float(self._told.result().message) if done else math.nan

    def ask_told_share(self) -> None:
        """Ask for it; the answer comes while the node is spun."""
        if self._told_client.service_is_ready():
            self._told = self._told_client.call_async(Trigger.Request())

    def begin(self, name: str) -> None:
        """Switch a fault on. Raises `UnknownFault`, or `RuntimeError` when one is already on."""
        if self._name:
            raise RuntimeError(f"{self._name} is on; lift it before {name}")
        self._places[fault(name).place][0](name)
        self._name = name
        self._shown.publish(String(data=name))

    def end(self) -> None:
        """Lift the fault that is on, if any."""
        name, self._name = self._name, ""
        if name:
            self._places[fault(name).place][1]()
            self._shown.publish(String())

    def ready(self) -> bool:
        """Whether the server reports a warm worker for every model."""
        return self._health is None or self._health.ready()

    def forget_health(self) -> None:
        """What was heard so far no longer counts: something has just been broken or mended."""
        if self._health is not None:
            self._health.forget()

    def close(self) -> None:
        if self._health is not None:
            self._health.close()

    # -- link -------------------------------------------------------------------------------------------------------

    def _bad_link(self, name: str) -> None:
        set_fault(self._setup.control, LinkFault(**fault(name).settings))

    def _good_link(self) -> None:
        set_fault(self._setup.control, LinkFault())

    # -- server -----------------------------------------------------------------------------------------------------

    def _bad_worker(self, name: str) -> None:
        if name in SIGNALS:
            self._stopped_pid = worker_pid(self._cell.bringup.supervisor.pid(SERVER), self._setup.model)
            os.kill(self._stopped_pid, SIGNALS[name])
        else:
            turn(self._setup.switch(WORKER), **fault(name).settings)

    def _good_worker(self) -> None:
        turn(self._setup.switch(WORKER))
        self._continue()

    def _kill_server(self, name: str) -> None:
        self._cell.bringup.down.add(SERVER)
        supervisor = self._cell.bringup.supervisor
        workers = [pid for pid, _ in processes(supervisor.pid(SERVER))]
        supervisor.kill(SERVER)
        until_s = time.monotonic() + GONE_WITHIN_S
        while alive := [pid for pid in workers if command(pid)]:
            if time.monotonic() > until_s:
                raise BringupError(f"workers of the killed server live on: {alive}")
            time.sleep(0.02)

    def _start_server(self) -> None:
        self._cell.bringup.start_server()
        self._cell.bringup.down.discard(SERVER)

    # -- robot ------------------------------------------------------------------------------------------------------

    def _bad_sensor(self, name: str) -> None:
        settings = dict(fault(name).settings)
        first = next(iter(self._setup.spec.cameras))
        hit = {"frozen": [first], "late": [first], "repeats": [first], "stale": ["joint_states"]}
        turn(self._setup.switch(SENSORS), **{key: hit.get(key, value) for key, value in settings.items()})

    def _bad_arm(self, name: str) -> None:
        if name == "emergency_stop":
            self._pressed = True
            self._button.publish(Bool(data=True))
        else:
            turn(self._setup.switch(ARM), fault="a brake does not open (injected)")

    def _good_arm(self) -> None:
        turn(self._setup.switch(ARM))
        if self._pressed:
            self._pressed = False
            request = ReleaseEmergencyStop.Request(decided_by="run", why="the fault of this run is over")
            self._release.call_async(request)

    def _mismeasure(self, name: str) -> None:
        if not self._controller.service_is_ready():
            raise BringupError(
                "the simulated controllers are not there: this fault needs an arm behind ros2_control"
            )
        value = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=name)
        request = SetParameters.Request(parameters=[Parameter(name="fault", value=value)])
        self._controller.call_async(request)

    def _jump(self, name: str) -> None:
        turn(self._setup.switch(CLOCK), **fault(name).settings)

    def _stop_runtime(self, name: str) -> None:
        namespace = self._setup.robot.namespace.strip("/")
        self._stopped_pid = self._cell.bringup.supervisor.pid(f"{namespace}/runtime_node")
        os.kill(self._stopped_pid, signal.SIGSTOP)

    def _continue(self) -> None:
        pid, self._stopped_pid = self._stopped_pid, 0
        if pid and command(pid):
            os.kill(pid, signal.SIGCONT)


class Health:
    """Asks a gateway whether every model has a warm worker; never waits."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._socket: zmq.Socket[bytes] | None = None
        self._asked_s = 0.0
        self._ready = False

    def ready(self) -> bool:
        """What the gateway last said; asks again when that is old. False until it has answered."""
        now_s = time.monotonic()
        if self._socket is None:
            self._socket = zmq.Context.instance().socket(zmq.DEALER)
            self._socket.setsockopt(zmq.LINGER, 0)
            self._socket.setsockopt(zmq.IMMEDIATE, 1)
            self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, 200)
            self._socket.connect(self._endpoint)
        while self._socket.poll(0):
            try:
                message = codec.decode(self._socket.recv_multipart())
            except CodecError:
                continue
            self._ready = isinstance(message, HealthReport) and message.ready
        if now_s - self._asked_s >= ASK_EVERY_S:
            self._asked_s = now_s
            try:
                self._socket.send_multipart(codec.encode(HealthQuery()), zmq.NOBLOCK)
            except zmq.Again:
                self._ready = False
        return self._ready

    def forget(self) -> None:
        """A new socket, so that no old answer counts."""
        self.close()
        self._ready, self._asked_s = False, 0.0

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def processes(parent: int) -> list[tuple[int, list[str]]]:
    """The children of a process, with their command lines."""
    found: list[Any] = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The command may hold spaces and brackets; what follows its last bracket is state and parent.
            after = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(after[1]) == parent:
            pid = int(entry.parent.name)
            found.append((pid, command(pid)))
    return found


def worker_pid(server: int, model: str) -> int:
    """The process that serves `model`, among the children of the server. Raises `BringupError`."""
    workers = [(pid, words) for pid, words in processes(server) if WORKER_MODULE in words]
    for pid, words in workers:
        if f'"model": "{model}"' in words[-1]:
            return pid
    known = ", ".join(str(pid) for pid, _ in workers) or "none"
    raise BringupError(f"no worker of {model} among the children of process {server}: workers are {known}")


def command(pid: int) -> list[str]:
    """The command line of a process; empty when it is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0")
    except OSError:
        return []
    return text.split("\0") if text else []
