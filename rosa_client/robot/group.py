"""Many robots of one program that asks for all of them at once: a vectorised simulator, a test bench."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from rosa_client.robot.aio import AsyncRobot
from rosa_client.robot.answer import Answer
from rosa_client.robot.connecting import CONNECT_WITHIN_S, DEADLINE_MS, check_process
from rosa_client.robot.errors import RobotError
from rosa_client.robot.observation import Observation
from rosa_contract.config.tasks import SYSTEM1
from rosa_contract.wire.messages import Array
from rosa_contract.wire.overlap import Overlap

ENDS_WITHIN_S = 10.0


class RobotGroup:
    """`count` robots, run in a separate thread. Each is a robot of its own at the server; their calls can share
    batches.
    """

    def __init__(
        self,
        server: str,
        task: str,
        count: int,
        *,
        name: str = "",
        keys: str | Path = "",
        deadline_ms: float = DEADLINE_MS,
        connect_within_s: float = CONNECT_WITHIN_S,
        encoding: str = "jpeg",
    ) -> None:
        """Arguments as for `Robot`. `name`: the robots are named name-0, name-1, ...; with `keys`, each robot has its
        own.
        """
        if count < 1:
            raise ValueError(f"count: expected 1 or more, got {count}")
        self.count = count
        self._robots = [
            AsyncRobot(
                server,
                task,
                name=f"{name}-{number}" if name else "",
                keys=keys,
                deadline_ms=deadline_ms,
                connect_within_s=connect_within_s,
                encoding=encoding,
            )
            for number in range(count)
        ]
        self._pid = os.getpid()
        self._lock, self._closed = threading.Lock(), False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="rosa-robots", daemon=True)
        self._thread.start()

    def infer(
        self,
        observations: Mapping[int, Observation],
        *,
        prompts: Mapping[int, str] | str = "",
        component: str = SYSTEM1,
        deadline_ms: float | None = None,
        overlaps: Mapping[int, Overlap] | None = None,
    ) -> dict[int, Answer]:
        """Call the server for every robot in `observations` at the same time; return the answers by robot.

        `prompts`: one for all robots, or one per robot. Returns when every call has ended. If calls failed, raises the
        `RobotError` of the robot with the lowest number, as `Robot.infer` does.
        """
        if unknown := sorted(set(observations) - set(range(self.count))):
            raise ValueError(f"there are robots 0 to {self.count - 1}, not {unknown}")

        async def ask() -> list[Answer | BaseException]:
            calls = [
                self._robots[number].infer(
                    seen,
                    prompt=prompts if isinstance(prompts, str) else prompts.get(number, ""),
                    component=component,
                    deadline_ms=deadline_ms,
                    overlap=(overlaps or {}).get(number),
                )
                for number, seen in observations.items()
            ]
            return await asyncio.gather(*calls, return_exceptions=True)

        check_process(self._pid)
        with self._lock:  # `close` waits for whatever was begun before it
            if self._closed:
                raise RobotError("closed", "the robots were closed")
            future = asyncio.run_coroutine_threadsafe(ask(), self._loop)
        answers: dict[int, Answer] = {}
        for number, answer in sorted(zip(observations, _result(future), strict=True), key=lambda one: one[0]):
            if isinstance(answer, BaseException):
                raise answer
            answers[number] = answer
        return answers

    def close(self) -> None:
        """Disconnect all robots. Calls in progress fail with the cause `closed`. May be called twice."""
        if self._pid != os.getpid():
            return  # a forked process: the robots go on in the other one
        with self._lock:
            if self._closed:
                return
            self._closed = True

        async def leave() -> None:
            for robot in self._robots:
                robot.close()
            calls = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*calls, return_exceptions=True)

        _result(asyncio.run_coroutine_threadsafe(leave(), self._loop))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ENDS_WITHIN_S)
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _result(future: Future[Any]) -> Any:
    """Of what runs in the robots' thread. An interrupt of the caller cancels it."""
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


class GroupQueue:
    """One action at a time for every robot of a group. A robot that has used up its chunk requests the next."""

    def __init__(self, group: RobotGroup, steps: int = 0) -> None:
        """`steps`: number of actions to use from each chunk; 0: as many as the server chose, or all of them."""
        if steps < 0:
            raise ValueError(f"steps: expected 0 or more, got {steps}")
        self._group, self._steps = group, steps
        self._left: dict[int, list[Array]] = {}

    def next(self, observations: Sequence[Observation], **how: Any) -> Array:
        """Return the next action of every robot, (robots, values) float32. `how`: keyword arguments for
        `RobotGroup.infer`, whose errors it raises. After an error, no action of an older chunk is returned.
        """
        if len(observations) != self._group.count:
            raise ValueError(f"expected {self._group.count} observations, got {len(observations)}")
        due = {number: seen for number, seen in enumerate(observations) if not self._left.get(number)}
        if due:
            try:
                for number, answer in self._group.infer(due, **how).items():
                    steps = min(self._steps, answer.steps) if self._steps else answer.steps
                    self._left[number] = list(answer.actions[:steps])
            except BaseException:
                self.clear()
                raise
        return np.stack([self._left[number].pop(0) for number in range(self._group.count)])

    def clear(self, number: int | None = None) -> None:
        """Discard the remaining actions of one robot, or of all, for example when an episode begins."""
        if number is None:
            self._left.clear()
        else:
            self._left.pop(number, None)
