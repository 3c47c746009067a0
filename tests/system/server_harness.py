"""A real server in its own process, and a robot that speaks to it over a bare ZeroMQ socket."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import zmq

from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.images import EncodedImage
from rosa_sim.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
METADATA = 95  # ZMQ_METADATA, which pyzmq does not name
PATIENCE_S = 60.0  # hard limit of every wait; the machine may be busy
FRONT = EncodedImage("rgb8", 8, 8, bytes(8 * 8 * 3))
JOINTS = {"joint_position": np.zeros(7, np.float32)}

FACTORY = """
server_cluster: {{num_servers: 4}}
robot_fleet: [{{task: pick, num_robots: 4}}]
pick:
  pipeline: {{action_period_ms: 400}}
  components:
    system1: {{model: policy, slo_ms: 300}}
models:
  policy: {{workers: {workers}, backend: "{backend}", options: {options}}}
gateway: {{bind: "tcp://127.0.0.1:{port}", metrics_port: {metrics_port}, max_message_mb: 0.2{gateway}}}
"""
FAULTY = "tests.system.server_faults.faulty:FaultyBackend"
EMULATED = {"images": {"front": [8, 8]}, "state": {"joint_position": 7}}


class Server:
    """`rosa serve` as a user starts it."""

    def __init__(
        self,
        folder: Path,
        backend: str = "emulated",
        options: dict[str, Any] | None = None,
        workers: int = 1,
        gateway: str = "",
        factory: str = "",
        arguments: Sequence[str] = (),
        descriptors: int = 0,
        within: Sequence[str] = (),
    ) -> None:
        """`factory`: another factory file, with {port} and {metrics_port}. `arguments`: more of `rosa serve`.
        `descriptors`: how many the server may open, as `ulimit -n` says it; 0: as many as here. `within`: the command
        that runs it where it is to run."""
        self._arguments = arguments
        self._limit = ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "-"] if descriptors else [*within]
        self.port, self.metrics_port = free_ports(2)
        self.config = folder / "factory.yaml"
        self._log = folder / "server.log"
        text = (factory or FACTORY).format(
            workers=workers,
            backend=backend,
            options=json.dumps(EMULATED if options is None else options),
            port=self.port,
            metrics_port=self.metrics_port,
            gateway=gateway,
        )
        self.config.write_text(text)
        self.process: subprocess.Popen[bytes] | None = None
        self.tokens: dict[str, str] = {}  # robot -> as in the private file of its machine

    @property
    def endpoint(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def start(self, group: bool = False) -> Server:
        """`group`: in a process group of its own, as a shell starts it."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        command = [
            *self._limit,
            sys.executable,
            "-m",
            "rosa_server.cli",
            "serve",
            str(self.config),
            *self._arguments,
        ]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, cwd=ROOT, process_group=0 if group else None
            )
        return self

    def log(self) -> str:
        return self._log.read_text()

    def events(self, name: str) -> list[dict[str, Any]]:
        """The log lines of one event; the server may be in the middle of the last line."""
        whole = self.log().rpartition("\n")[0]
        lines = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == name]

    def workers(self) -> list[psutil.Process]:
        assert self.process is not None
        children = psutil.Process(self.process.pid).children()
        return [
            child for child in children if "rosa_server.serving.worker.worker" in " ".join(child.cmdline())
        ]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Signal it, and wait for its end; returns the exit status."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE_S)


class Robot:
    """A connection to a gateway."""

    def __init__(
        self,
        server: Server,
        name: str = "r1",
        keys: tuple[bytes, bytes, bytes] | None = None,
        source: str = "",
        claim: str = "",
    ) -> None:
        """`keys`: the server's public one, and a pair. `source`: the address to connect from. `claim`: what it says of
        its connection, as NAME:VALUE."""
        self.name = name
        self._tokens = server.tokens
        self._context = zmq.Context()
        self.socket = self._context.socket(zmq.DEALER)
        self.socket.linger = 0
        if keys is not None:
            self.socket.curve_serverkey, self.socket.curve_publickey, self.socket.curve_secretkey = keys
        if claim:
            self.socket.setsockopt(METADATA, claim.encode())
        host = server.endpoint.removeprefix("tcp://")
        self.socket.connect(f"tcp://{source}:0;{host}" if source else server.endpoint)

    def send(self, message: m.Message) -> None:
        self.send_frames(codec.encode(message))

    def send_frames(self, frames: list[Any]) -> None:
        self.socket.send_multipart(frames)

    def request(
        self,
        request_id: int = 0,
        prompt: str = "",
        budget_ms: float = 20_000,
        component: str = "system1",
        **changes: Any,
    ) -> None:
        fields = {"state": JOINTS, "images": {"front": FRONT}, **changes}
        self.send(m.Request(request_id, component, budget_ms, prompt, **fields))

    def receive(self, timeout_s: float = PATIENCE_S) -> Any:
        """The next message. Raises `TimeoutError`."""
        if not self.socket.poll(int(timeout_s * 1000)):
            raise TimeoutError(f"{self.name}: nothing came within {timeout_s:g} s")
        return codec.decode(self.socket.recv_multipart())

    def answer(self) -> m.Response:
        """The next response; greetings in between are passed over."""
        while True:
            message = self.receive()
            if isinstance(message, m.Response):
                return message
            assert isinstance(message, m.Welcome), message

    def hello(self, task: str = "pick", **changes: Any) -> m.Welcome | m.Refused:
        fields = {
            "cameras": {"front": m.CameraInfo(height=8, width=8, encoding="rgb8")},
            "state": {"joint_position": 7},
            **changes,
        }
        fields.setdefault("token", self._tokens.get(self.name, ""))
        self.send(m.Hello(self.name, task, **fields))
        message = self.receive()
        assert isinstance(message, m.Welcome | m.Refused), message
        if isinstance(message, m.Welcome):
            self._tokens[self.name] = message.token
        return message

    def join(self, task: str = "pick", **changes: Any) -> Robot:
        """Say hello until welcome."""
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s:
            answer = self.hello(task, **changes)
            if isinstance(answer, m.Welcome):
                return self
            assert answer.cause in ("not_ready", "robot_id_taken"), answer
            time.sleep(0.1)
        raise TimeoutError("the server did not become ready")

    def close(self) -> None:
        self.socket.close()
        self._context.term()


@contextmanager
def serving(folder: Path, wait: bool = False, **options: Any) -> Iterator[Server]:
    """A running server that is gone afterwards, whatever happens. `wait`: the test starts it itself."""
    server = Server(folder, **options)
    if not wait:
        server.start()
    try:
        yield server
    finally:
        if server.process is not None:
            try:
                server.stop()
            finally:
                server.kill()


@contextmanager
def robot(server: Server, name: str = "r1", **options: Any) -> Iterator[Robot]:
    one = Robot(server, name, **options)
    try:
        yield one
    finally:
        one.close()
