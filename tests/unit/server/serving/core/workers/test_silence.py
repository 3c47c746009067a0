"""A worker that falls silent is passed over where others could run its calls, and nowhere else."""

from __future__ import annotations

from collections.abc import Collection

from rosa_contract.wire.messages import WorkerReady
from rosa_server.serving.core.workers.pool import WorkerPool
from rosa_server.serving.core.workers.silence import passed_over
from rosa_server.serving.core.workers.worker_state import WorkerState


def pool(*names: str, queue: str = "policy") -> WorkerPool:
    made = WorkerPool()
    for name in names:
        made.add(WorkerReady(name, "policy", 8, {}, {}), name.partition(".")[0], queue, 8)
    return made


def nobody(replica: str, without: Collection[str]) -> bool:
    return False


def names(found: Collection[WorkerState]) -> list[str]:
    return sorted(one.worker_id for one in found)


def test_the_calls_of_a_silent_worker_run_on_one_that_is_heard() -> None:
    both = pool("policy/0.1", "policy/1.1")
    assert names(passed_over(both, {"policy/1.1"}, nobody)) == ["policy/1.1"]


def test_where_nobody_else_is_heard_nothing_is_taken_away() -> None:
    both = pool("policy/0.1", "policy/1.1")
    assert not passed_over(both, {"policy/0.1", "policy/1.1"}, nobody)
    assert not passed_over(pool("policy/0.1"), {"policy/0.1"}, nobody)


def test_a_standby_that_is_silent_too_covers_nobody() -> None:
    asked = []

    def covered(replica: str, without: Collection[str]) -> bool:
        asked.append((replica, set(without)))
        return "spare/0" not in without

    apart = pool("policy/0.1")
    apart.add(WorkerReady("spare/0.1", "policy", 8, {}, {}), "spare/0", "spare/0", 8)
    assert names(passed_over(apart, {"policy/0.1"}, covered)) == ["policy/0.1"]
    assert not passed_over(apart, {"policy/0.1", "spare/0.1"}, covered)
    assert asked[0] == ("policy/0", {"policy/0"})


def test_a_worker_that_is_given_nothing_is_left_alone() -> None:
    both = pool("policy/0.1", "policy/1.1")
    retired = both.get("policy/1.1")
    assert retired is not None
    both.retire(retired)
    assert not passed_over(both, {"policy/1.1"}, nobody)
    assert not passed_over(both, {"policy/7.1"}, nobody), "one that is away already"
