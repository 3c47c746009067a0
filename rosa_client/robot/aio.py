"""`AsyncRobot`: the same robot for asyncio, so that one program can be many of them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rosa_client.connection.link import GatewayLink
from rosa_client.robot.answer import Answer
from rosa_client.robot.calls import PendingCall, PendingCalls
from rosa_client.robot.connecting import CONNECT_WITHIN_S, DEADLINE_MS, check_process, connector
from rosa_client.robot.errors import RobotError
from rosa_client.robot.observation import Observation, Seen, another_kind, seen_in
from rosa_contract.config.tasks import SYSTEM1
from rosa_contract.keyfile import RobotKeys
from rosa_contract.wire.overlap import Overlap

LOOK_EVERY_S = 0.25  # at a connection on which nothing happens: signs of life, and why there is none


class AsyncRobot:
    """Like `Robot`, for asyncio. Use it from one event loop; different components may be called concurrently."""

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
        resumes: bool = True,
    ) -> None:
        """Arguments as for `Robot`. `resumes`: a named robot can reclaim its name after its program has crashed."""
        self._connect = connector(server, task, name, keys, encoding, spaces, resumes)
        self._deadline_ms, self._connect_within_s, self._encoding = deadline_ms, connect_within_s, encoding
        self._link: GatewayLink | None = None
        self._pid = 0  # of the process that has connected
        self._calls: PendingCalls | None = None
        self._waiting: dict[PendingCall, asyncio.Event] = {}  # set when something may have changed for it
        self._loop: asyncio.AbstractEventLoop | None = None  # in which it connected
        self._look: asyncio.TimerHandle | None = None
        self._closed = False

    async def infer(
        self,
        observation: Observation,
        *,
        prompt: str = "",
        component: str = SYSTEM1,
        deadline_ms: float | None = None,
        overlap: Overlap | None = None,
    ) -> Answer:
        """Like `Robot.infer`. Cancelling the asyncio task also cancels the call at the server."""
        seen = seen_in(observation, self._encoding)
        _, calls = self._connected_for(seen)
        deadline_ms = self._deadline_ms if deadline_ms is None else deadline_ms
        call = calls.begin(time.monotonic(), component, seen, prompt, deadline_ms, overlap)
        self._waiting[call] = changed = asyncio.Event()
        try:
            while True:
                changed.clear()
                now_s = time.monotonic()
                due_s = calls.step(call, now_s)
                if call.ended:
                    return call.result()
                self._receive()  # sending may have used up the socket's sign that something came
                if changed.is_set():
                    continue
                alarm = asyncio.get_running_loop().call_later(max(0.0, due_s - time.monotonic()), changed.set)
                try:
                    await changed.wait()
                finally:
                    alarm.cancel()
        finally:
            del self._waiting[call]
            if not self._closed:
                calls.cancel(call, time.monotonic())

    def _connected_for(self, seen: Seen) -> tuple[GatewayLink, PendingCalls]:
        if self._closed:
            raise RobotError("closed", "the robot was closed")
        if self._link is None or self._calls is None:
            self._link, self._pid = self._connect(seen), os.getpid()
            self._calls = PendingCalls(self._link, self._connect_within_s)
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._link.socket.fileno(), self._receive)
            self._watch()
        check_process(self._pid)
        if words := another_kind(seen, self._link.hello):
            raise RobotError("bad_observation", words)
        return self._link, self._calls

    def _receive(self) -> None:
        """Take whatever has come. The socket's descriptor tells only once, so all of it."""
        if self._link is None or self._calls is None:
            return
        link = self._link
        before = self._state(link)
        answers = link.poll(0.0, time.monotonic())
        now_s = time.monotonic()
        for response in answers:
            self._calls.take(response, now_s)
        news = any(a is not b for a, b in zip(before, self._state(link), strict=True))
        for call, changed in self._waiting.items():
            if call.ended or news:
                changed.set()

    @staticmethod
    def _state(link: GatewayLink) -> tuple[object, ...]:
        """What else a call that waits may have waited for."""
        return link.ready, link.refusals, link.permit_s, link.rates_hz

    def _watch(self) -> None:
        self._receive()
        if not self._closed:
            self._look = asyncio.get_running_loop().call_later(LOOK_EVERY_S, self._watch)

    def close(self) -> None:
        """Disconnect. Calls in progress fail with the cause `closed`. May be called twice, and after the event loop has
        ended.
        """
        if self._closed:
            return
        self._closed = True
        if self._link is not None and self._pid != os.getpid():
            return  # a forked process: the robot goes on in the other one
        if self._look is not None:
            self._look.cancel()
        for call, changed in self._waiting.items():
            call.error = call.error or RobotError("closed", "the robot was closed")
            changed.set()
        if self._link is not None:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(self._link.socket.fileno())
            self._link.close()
            self._link = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
