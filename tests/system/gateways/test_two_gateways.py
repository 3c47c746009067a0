"""Two servers, each with its gateway: a server is killed, and its robots go on with the other one."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rosa_client.connection.link import GatewayLink
from rosa_contract.wire import messages as m
from tests.system.server_harness import FRONT, JOINTS, PATIENCE_S, Server, serving

BUDGET_S = 20.0
CAMERAS = {"front": m.CameraInfo(height=8, width=8, encoding="rgb8")}


class Robot:
    """Asks one call after the other over the link that robots have."""

    def __init__(self, name: str, gateways: str) -> None:
        self.link = GatewayLink(gateways, m.Hello(name, "pick", CAMERAS, {"joint_position": 7}))
        self.answered: list[tuple[str, int]] = []  # (endpoint, request id)
        self.lost: list[int] = []  # requests without an answer: their gateway was gone
        self._open: int | None = None
        self._asked = ""  # whom
        self.moves, self._at = 0, self.link.endpoint  # from one gateway to the other
        self._number = 0

    def step(self) -> None:
        now_s = time.monotonic()
        for answer in self.link.poll(0.002, now_s):
            assert answer.request_id == self._open, "each request is answered once, and no other is"
            assert answer.status == m.OK, answer
            self.answered.append((self._asked, answer.request_id))
            self._open = None
        self.moves += self.link.endpoint != self._at
        self._at = self.link.endpoint
        if self._open is not None and (not self.link.ready or self.link.endpoint != self._asked):
            self.lost.append(self._open)
            self._open = None
        if self._open is None and self.link.ready:
            self._number += 1
            images, state = {"front": FRONT}, JOINTS
            request = m.Request(self._number, "system1", BUDGET_S * 1000, state=state, images=images)
            self._open = self._number if self.link.send(request, now_s) else None
            self._asked = self.link.endpoint


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    with ExitStack() as stack:
        made = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            made.append(stack.enter_context(serving(tmp_path / name)))
        yield made[0], made[1]


def run_until(robots: list[Robot], done: Callable[[], bool]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < end_s, [(one.link.endpoint, one.link.reason) for one in robots]
        for one in robots:
            one.step()


def ready(server: Server) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not server.events("worker_ready"):
        assert time.monotonic() < end_s, server.log()
        time.sleep(0.05)


def test_robots_of_a_killed_server_go_on_with_the_other_one_and_come_back_when_that_is_killed(
    servers: tuple[Server, Server],
) -> None:
    by_endpoint = {one.endpoint: one for one in servers}
    for server in servers:
        ready(server)
    both, turned = ",".join(by_endpoint), ",".join(reversed(by_endpoint))
    robots = [Robot("r1", both), Robot("r2", both), Robot("r3", turned)]

    def five_more() -> None:
        """Everybody is answered five times more."""
        counts = {one: len(one.answered) + 5 for one in robots}
        run_until(robots, lambda: all(len(one.answered) >= count for one, count in counts.items()))

    def served_until(done: Callable[[], bool]) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not done():
            assert time.monotonic() < end_s
            five_more()

    def all_at(server: Server) -> None:
        run_until(robots, lambda: all(one.answered[-1][0] == server.endpoint for one in robots))

    try:
        five_more()
        killed = by_endpoint[robots[0].answered[-1][0]]
        killed.stop(signal.SIGKILL)
        five_more()
        (left,) = (server for server in servers if server is not killed)
        all_at(left)
        wanted = {(name, "pick") for name in ("r1", "r2", "r3")}

        def joined() -> bool:
            return wanted <= {(line["robot"], line["task"]) for line in left.events("robot_joined")}

        served_until(joined)

        killed.start()
        served_until(lambda: len(killed.events("worker_ready")) >= 2)
        left.stop(signal.SIGKILL)
        five_more()
        all_at(killed)
        # Where the machine is so slow that a heartbeat is missing, a robot moves once more.
        assert all(len(one.lost) <= one.moves for one in robots), "at most the call that was under way"
        assert all(one.moves >= 1 for one in robots)
        for one in robots:
            numbers = [number for _, number in one.answered]
            assert len(set(numbers)) == len(numbers), "no request is answered twice"
    finally:
        for one in robots:
            one.link.close()
