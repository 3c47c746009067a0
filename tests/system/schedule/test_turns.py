"""Four models on one GPU over real sockets: worker processes of their own, and the gateway gives them their turns."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rosa_client.connection.link import GatewayLink
from rosa_contract.clock import MonotonicClock
from rosa_contract.wire.messages import Executed, Hello, Request, Response
from rosa_server.scheduler.problem import problem_from
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.search.shared_gpus import solve_shared
from rosa_server.serving.core.queueing.actions import Action, Dispatch
from rosa_sim.fleet.live_server import LiveServer, WatchedCore, shares_gpus
from rosa_sim.fleet.scenario import load_scenario
from rosa_sim.fleet.systems import ROSA, executable, without_limits

PATIENCE_S = 60.0
COMPONENTS = ("system1", "system2", "safety", "monitor")
ROBOTS, ROUNDS = 4, 3


def test_one_batch_at_a_time_runs_on_the_gpu_and_every_call_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    factory = without_limits(load_scenario("lab").factory)
    library = ProfileLibrary()
    schedule = solve_shared(problem_from(factory), library, Options(), largest=2)
    assert schedule is not None
    serving = executable(ROSA, factory, schedule, library, 0.0).serving
    assert serving is not None and not shares_gpus(serving), "its turns are given by the gateway"
    clock = MonotonicClock()
    server = LiveServer(serving, tmp_path)
    links: list[GatewayLink] = []
    running: set[int] = set()
    limit = 0
    components: list[str] = []

    def given(_: float, action: Action) -> None:
        nonlocal limit
        if isinstance(action, Dispatch):
            running.add(action.batch_id)
            components.append(action.calls[0].component)
            limit = max(limit, len(running))

    def ended(core: WatchedCore) -> None:
        before = core.on_executed

        def executed(now_s: float, worker_id: str, done: Executed) -> None:
            running.discard(done.batch_id)
            before(now_s, worker_id, done)

        monkeypatch.setattr(core, "on_executed", executed)

    server.core.watch = given
    ended(server.core)
    try:
        ends_s = time.monotonic() + PATIENCE_S
        while not server.ready:
            assert time.monotonic() < ends_s, "the workers have not started"
            server.step()
        links += [
            GatewayLink(server.gateway.robots_endpoint, Hello(f"arm{number}", "tidy_bench", {}, {}))
            for number in range(ROBOTS)
        ]
        answers: list[Response] = []

        def until(count: int) -> None:
            while len(answers) < count:
                assert time.monotonic() < ends_s, f"{len(answers)} of {count} answers"
                server.gateway.step(0.001)
                for link in links:
                    answers.extend(link.poll(0.0, clock.now_s()))

        while not all(link.ready for link in links):
            assert time.monotonic() < ends_s, "not every robot is welcome"
            server.gateway.step(0.001)
            for link in links:
                link.poll(0.0, clock.now_s())
        for turn in range(ROUNDS):
            for link in links:
                for number, component in enumerate(COMPONENTS):
                    about = (turn * len(COMPONENTS) + number, component, 1000 * PATIENCE_S, "")
                    link.send(Request(*about), clock.now_s())
            until((turn + 1) * ROBOTS * len(COMPONENTS))
    finally:
        for link in links:
            link.close()
        server.close()
    assert {answer.status for answer in answers} == {"ok"}
    assert set(components) == set(COMPONENTS)
    assert limit == 1
