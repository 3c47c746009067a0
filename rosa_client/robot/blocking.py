"""`Robot`: ask a ROSA server for actions and wait for the answer, from plain Python."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rosa_client.connection.link import GatewayLink
from rosa_client.robot.answer import Answer
from rosa_client.robot.calls import PendingCalls
from rosa_client.robot.connecting import CONNECT_WITHIN_S, DEADLINE_MS, check_process, connector
from rosa_client.robot.errors import RobotError
from rosa_client.robot.observation import Observation, Seen, another_kind, seen_in
from rosa_contract.config.tasks import SYSTEM1
from rosa_contract.keyfile import RobotKeys
from rosa_contract.wire.overlap import Overlap

ALIVE_EVERY_S = 0.5  # a robot that says nothing loses its place in a schedule


class Robot:
    """A robot connected to a ROSA server. It connects with its first observation and reconnects by itself after a lost
    connection. It may be shared by threads; calls then run one after another.
    """

    def __init__(
        self,
        server: str,
        task: str,
        *,
        name: str = "",
        keys: str | Path | RobotKeys = "",
        deadline_ms: float = DEADLINE_MS,
        connect_within_s: float = CONNECT_WITHIN_S,
        encoding: str = "jpeg",
        spaces: Sequence[str] = (),
    ) -> None:
        """`server`: endpoint, such as tcp://gpu-box:5570. `task`: a task in the server's factory file. `name`: robot
        name; generated if empty. `keys`: key folder, if the server requires keys. `deadline_ms`: deadline of a call,
        counted from sending. `connect_within_s`: how long the first call waits to be accepted. `encoding`: how camera
        frames are sent: jpeg, png or rgb8 (raw). `spaces`: action spaces besides joint positions that this program can
        execute itself, such as tool_step_delta (docs/bring_your_own.md). Raises `ValueError` for invalid arguments.
        """
        self._connect = connector(server, task, name, keys, encoding, spaces)
        self._deadline_ms, self._connect_within_s, self._encoding = deadline_ms, connect_within_s, encoding
        self._link: GatewayLink | None = None
        self._pid = 0  # of the process that has connected
        self._calls: PendingCalls | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._alive: threading.Thread | None = None

    def infer(
        self,
        observation: Observation,
        *,
        prompt: str = "",
        component: str = SYSTEM1,
        deadline_ms: float | None = None,
        overlap: Overlap | None = None,
    ) -> Answer:
        """Send an observation and wait for the answer.

        `observation`: camera -> (height, width, 3) uint8 RGB, and state -> (length,) numbers. `prompt`: what to do.
        `overlap`: the actions played in the meantime, which the new chunk continues (real-time chunking). Raises
        `DeadlineMissed` if no answer arrives in time, and `RobotError` with a `cause` for any other failure.
        """
        seen = seen_in(observation, self._encoding)
        if self._link is not None:
            check_process(self._pid)  # before the lock, which nobody may ever give back there
        with self._lock:
            link, calls = self._connected_for(seen)
            deadline_ms = self._deadline_ms if deadline_ms is None else deadline_ms
            call = calls.begin(time.monotonic(), component, seen, prompt, deadline_ms, overlap)
            try:
                while True:
                    now_s = time.monotonic()
                    due_s = calls.step(call, now_s)
                    if call.ended:
                        return call.result()
                    if self._closed.is_set():
                        raise RobotError("closed", "the robot was closed")
                    answers = link.poll(due_s - now_s, now_s)
                    now_s = time.monotonic()
                    for response in answers:
                        calls.take(response, now_s)
            finally:  # an exception from outside, such as Ctrl-C
                calls.cancel(call, time.monotonic())

    def _connected_for(self, seen: Seen) -> tuple[GatewayLink, PendingCalls]:
        if self._closed.is_set():
            raise RobotError("closed", "the robot was closed")
        if self._link is None or self._calls is None:
            self._link, self._pid = self._connect(seen), os.getpid()
            self._calls = PendingCalls(self._link, self._connect_within_s)
            self._alive = threading.Thread(target=self._stay_alive, name="rosa-robot", daemon=True)
            self._alive.start()
        elif words := another_kind(seen, self._link.hello):
            raise RobotError("bad_observation", words)
        return self._link, self._calls

    def _stay_alive(self) -> None:
        """Says something now and then while the program does other things."""
        while not self._closed.wait(ALIVE_EVERY_S):
            with self._lock:
                if self._link is not None and not self._closed.is_set():
                    self._link.poll(0.0, time.monotonic())

    def close(self) -> None:
        """Disconnect. A call in progress in another thread fails with the cause `closed`. May be called twice."""
        self._closed.set()
        if self._link is not None and self._pid != os.getpid():
            return  # a forked process: the robot goes on in the other one
        with self._lock:
            if self._link is not None:
                self._link.close()
                self._link = None
        if self._alive is not None:
            self._alive.join(5)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
