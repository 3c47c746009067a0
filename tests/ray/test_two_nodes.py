"""A server whose workers Ray starts on two nodes: what is refused, what fails over.

The nodes are network namespaces of this machine. `make test-ray` runs it, in an environment with Ray. Waits have
generous limits; nothing asserts how fast a machine is.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rosa_sim.machines.nodes import Nodes, two_nodes
from rosa_sim.machines.planned import plan
from rosa_sim.machines.story import Story, factory, story
from rosa_sim.namespaces import denied

REFUSED_S = 120.0
WHY_NOT = denied()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=f"no network namespaces here: {WHY_NOT}")


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with two_nodes() as made:
        yield made


@pytest.fixture
def told(nodes: Nodes, tmp_path: Path) -> Iterator[Story]:
    with story(nodes, tmp_path) as made:
        yield made


def test_more_gpus_than_there_are_is_one_sentence_and_nothing_is_started(told: Story) -> None:
    server = told.serve(factory(told.nodes, gpu_type="h200"))
    assert server.wait(REFUSED_S) == 2
    assert "the schedule needs 2 GPUs and the 2 nodes have 0 free" in told.text()
    assert "Traceback" not in told.text()
    assert not told.nodes.workers(told.nodes.one) and not told.nodes.workers(told.nodes.two)


def test_an_address_without_ray_is_refused(told: Story) -> None:
    server = told.serve(factory(told.nodes), "--address", f"{told.nodes.one.address}:6399")
    assert server.wait(REFUSED_S) == 2
    assert f"{told.nodes.one.address}:6399" in told.text() and "Traceback" not in told.text()


def test_a_second_server_on_one_port_is_refused_and_gives_everything_back(
    nodes: Nodes, tmp_path: Path, told: Story
) -> None:
    server = told.serve(factory(nodes))
    told.until(lambda: len(told.events("worker_ready")) == 2, "both workers ready")
    (tmp_path / "second").mkdir()
    with story(nodes, tmp_path / "second") as second:
        assert second.serve(factory(nodes)).wait(REFUSED_S) == 2
        assert "cannot listen on" in second.text() and "Traceback" not in second.text()
    assert len(nodes.workers(nodes.one)) == len(nodes.workers(nodes.two)) == 1
    server.kill()  # it cannot end anything itself any more
    told.until(lambda: not nodes.workers(nodes.one) + nodes.workers(nodes.two), "no worker left")


def test_a_worker_on_another_machine_is_drained_given_back_and_gets_new_weights(
    told: Story, tmp_path: Path
) -> None:
    nodes, old, new = told.nodes, tmp_path / "old", tmp_path / "new"
    old.write_text("1")
    new.write_text("2")
    content = factory(nodes)
    number = {"backend": "tests.system.operations.backend:NumberBackend", "options": {"weights": str(old)}}
    content["models"]["policy"].update(number)
    told.serve(content)
    told.until(lambda: len(told.events("worker_ready")) == 2, "both workers ready")

    def rosa(*words: str) -> None:
        done = told.rosa(*words)
        assert done.returncode == 0, done.stderr

    def one_each(two: int = 1) -> None:
        """A worker's link ends before its process does."""
        wanted = (1, two)
        told.until(
            lambda: (len(nodes.workers(nodes.one)), len(nodes.workers(nodes.two))) == wanted,
            f"{wanted} workers",
        )

    rosa("drain", "policy/1")
    one_each(two=0)
    rosa("undrain", "policy/1")
    told.until(lambda: len(told.events("worker_ready")) == 3, "the worker back")
    one_each()
    rosa("rollout", "policy", str(new))
    assert [one["worker"] for one in told.events("worker_ready")][3:] == ["policy/0.2", "policy/1.3"]
    one_each()
    assert told.stop() == 0


def test_a_schedule_gets_more_servers_and_fewer_while_robots_are_served(told: Story, tmp_path: Path) -> None:
    nodes = told.nodes
    content = factory(nodes, workers=0)
    told.serve(content, *plan(nodes, content, tmp_path, 2))
    told.until(lambda: len(told.events("worker_ready")) == 2, "both workers ready")
    told.robots(4, 300.0)
    told.until(lambda: len(told.served(0.0)) == 4, "four robots served")
    done = told.rosa("scale", "servers=3", "--save", str(tmp_path / "three.json"))
    assert done.returncode == 0, done.stderr
    assert "3 servers (was 2)" in done.stdout and "gpu2 loads policy" in done.stderr
    assert len(nodes.workers(nodes.one) + nodes.workers(nodes.two)) == 3
    assert len(told.events("parts_placed")[-1]["nodes"]) == 3
    since_s = time.monotonic()
    told.until(lambda: len(told.served(since_s)) == 4, "all robots served afterwards")
    done = told.rosa("reschedule", str(tmp_path / "plan2.json"))
    assert done.returncode == 0 and "unloads" in done.stderr, done.stderr
    told.until(lambda: len(nodes.workers(nodes.one) + nodes.workers(nodes.two)) == 2, "one worker less")
    since_s = time.monotonic()
    told.until(lambda: len(told.served(since_s)) == 4, "all robots served with two again")
    assert told.stop() == 0
    told.until(lambda: not nodes.workers(nodes.one) + nodes.workers(nodes.two), "no worker left")


def test_a_worker_a_link_and_a_node_are_lost_and_no_robot_is(told: Story) -> None:
    nodes = told.nodes
    server = told.serve(factory(nodes))
    told.until(lambda: len(told.events("worker_ready")) == 2, "both workers ready")
    (mine,), (theirs,) = nodes.workers(nodes.one), nodes.workers(nodes.two)
    robots = told.robots(8, 300.0)
    told.until(lambda: len(told.served(0.0)) == 8, "eight robots served")

    at_s = time.monotonic()
    os.kill(theirs, signal.SIGKILL)
    told.until(lambda: told.events("worker_ready", at_s), "the worker started again")
    assert told.events("worker_link_ended", at_s)[0]["worker"] == "policy/1.1"

    at_s = time.monotonic()
    nodes.cut(nodes.two)
    told.until(lambda: told.noticed(at_s), "the link noticed")
    nodes.mend(nodes.two)
    (back,) = told.until(lambda: told.events("worker_back", at_s), "the worker back")
    assert back["worker"] == "policy/1.2", "the same life: nothing was loaded again"

    at_s = time.monotonic()
    nodes.kill(nodes.two)
    told.until(lambda: told.events("worker_ready", at_s), "another worker on the other node")
    assert told.events("worker_ready", at_s)[0]["worker"] == "policy/1.3"
    assert told.events("parts_placed", at_s)[0]["nodes"]["policy/1"] == nodes.one.address
    since_s = time.monotonic()
    told.until(lambda: len(told.served(since_s)) == 8, "all robots served afterwards")
    assert server.poll() is None and robots.poll() is None
    robots.terminate()
    assert told.stop() == 0
    told.until(lambda: not nodes.workers(nodes.one), "no worker left")
    assert mine not in nodes.pids(nodes.one)
