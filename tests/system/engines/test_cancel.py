"""A frame that its robot cancels, or whose robot is gone, leaves the pipe at once; its place is another robot's.

The engine stands still in the middle of a pass meanwhile, so nothing but the cancellation can free a place.
"""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rosa_contract.wire import messages as m
from rosa_server.models.token_policy.backend import TokenPolicyBackend
from tests.system.engines.gated import reached
from tests.system.engines.test_pipelined import CAMERAS, STATE, check, send
from tests.system.server_harness import PATIENCE_S, Robot, Server, robot, serving

SLOTS = 2
FACTORY = """
server_cluster: {{{{num_servers: 1}}}}
robot_fleet: [{{{{task: pick, num_robots: 4}}}}]
pick:
  pipeline: {{{{action_period_ms: 400}}}}
  components:
    system1: {{{{model: tokens, slo_ms: 20000}}}}
models:
  tokens:
    backend: "tests.system.engines.gated:GatedTokenPolicy"
    options: {{{{gate: "{gate}", slots: {slots}}}}}
gateway: {{{{bind: "tcp://127.0.0.1:{{port}}", metrics_port: {{metrics_port}}}}}}
"""


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gate") / "shut"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, gate: Path) -> Iterator[Server]:
    factory = FACTORY.format(gate=gate, slots=SLOTS)
    with serving(tmp_path_factory.mktemp("cancel"), factory=factory) as running:
        yield running


@pytest.fixture
def shut(server: Server, gate: Path) -> Iterator[Path]:
    """The engine stands still with the next frame that enters."""
    with robot(server, "r0") as one:
        one.join(cameras=CAMERAS, state=STATE)  # it is warm
    reached(gate).unlink(missing_ok=True)
    gate.touch()
    yield gate
    gate.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def alone() -> TokenPolicyBackend:
    """The same model without gateway, worker and engine."""
    backend = TokenPolicyBackend()
    backend.load()
    return backend


def gauge(server: Server, name: str) -> float:
    """One value of /metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.metrics_port}/metrics", timeout=10) as page:
        lines = page.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name + "{"))


def until(condition: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s, what
        time.sleep(0.05)


def ends_by_cancel(one: Robot) -> None:
    one.send(m.Cancel(0))
    answer = one.answer()
    assert (answer.request_id, answer.status, answer.cause) == (0, "cancelled", "cancelled")


def ends_by_bye(one: Robot) -> None:
    one.send(m.Bye())
    answer = one.answer()
    assert (answer.request_id, answer.status, answer.cause) == (0, "unavailable", "robot_left")


def ends_without_a_word(one: Robot) -> None:
    one.close()


@pytest.mark.parametrize("ends", [ends_by_cancel, ends_by_bye, ends_without_a_word])
def test_a_place_is_free_at_once_and_the_others_answers_are_as_alone(
    server: Server, shut: Path, alone: TokenPolicyBackend, ends: Callable[[Robot], None]
) -> None:
    before = gauge(server, "rosa_frames_cancelled")
    with ExitStack() as stack:
        robots = [stack.enter_context(robot(server, f"r{number}")) for number in range(3)]
        first, second, third = (one.join(cameras=CAMERAS, state=STATE) for one in robots)
        send(first, 0, budget_ms=100_000)
        until(reached(shut).exists, "the first frame is in the engine")
        send(second, 0, budget_ms=100_000)
        send(third, 0, budget_ms=100_000)
        until(
            lambda: gauge(server, "rosa_queue_depth") == 1,
            "both places of the engine are taken, the third frame waits",
        )
        ends(first)
        until(lambda: gauge(server, "rosa_queue_depth") == 0, "the third frame has the place of the first")
        assert not second.socket.poll(0) and not third.socket.poll(0), "the engine has not moved"
        shut.unlink()
        for one in (second, third):
            answer = one.answer()
            assert answer.status == "ok" and answer.output is not None, answer
            check(one.name, {0: answer.output.arrays["actions"]}, alone)
        until(
            lambda: gauge(server, "rosa_frames_cancelled") == before + 1, "one frame left the pipe unfinished"
        )
        assert not any(one.socket.poll(200) for one in (second, third)), "each is answered once"


def test_nobody_cancels_what_is_not_his(server: Server, shut: Path, alone: TokenPolicyBackend) -> None:
    with robot(server, "r1") as owner, robot(server, "r2") as thief, robot(server, "r3") as stranger:
        for one in (owner, thief):
            one.join(cameras=CAMERAS, state=STATE)
        send(owner, 5, budget_ms=100_000)
        for number in (5, 6, (1 << 63) - 1):
            thief.send(m.Cancel(number))
        stranger.send(m.Cancel(5))
        refusal = stranger.receive()
        assert isinstance(refusal, m.Refused) and refusal.cause == "hello_required"
        shut.unlink()
        answer = owner.answer()
        assert answer.status == "ok" and answer.output is not None
        check(owner.name, {5: answer.output.arrays["actions"]}, alone)
        assert not thief.socket.poll(200), "it may not even know whether there is such a call"
