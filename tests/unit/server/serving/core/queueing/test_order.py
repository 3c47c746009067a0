"""The order of waiting calls, by every policy, alone and inside the server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosa_contract.config.gateway import (
    FIRST_COME,
    KAIROS,
    MIN_ATTAINED_SERVICE,
    ORDERS,
    REMAINING_WORK,
    Gateway,
)
from rosa_contract.wire import messages as m
from rosa_contract.wire.progress import Progress
from rosa_server.serving.core.dispatch.lane import RequestQueue
from rosa_server.serving.core.queueing.ledger import Call, Ledger
from rosa_server.serving.core.queueing.lengths import TaskLengths
from rosa_server.serving.core.queueing.order import (
    FirstCome,
    Kairos,
    Ranking,
    RemainingWork,
    Rounds,
    TaskSeen,
    Turnover,
)
from rosa_server.serving.core.queueing.orders import order_of
from tests.unit.server.serving.core.stage import FACTORY, Stage, request


def call(ledger: Ledger, robot: str, now_s: float = 0.0, budget_ms: float = 600_000.0) -> Call:
    one = ledger.open(robot.encode(), robot, "system1", "policy", 0, now_s, budget_ms, [])
    one.since_s = now_s
    return one


def task(waited_s: float = 0.0, acted_s: float = 0.0, generated_s: float = 0.0) -> TaskSeen:
    """A task that has just finished acting, 10 s after it began."""
    rounds = Rounds(0.0)
    rounds.waited_s, rounds.last_execution_s, rounds.generated_s = waited_s, acted_s, generated_s
    rounds.acted_s = acted_s
    return TaskSeen(0.0, 1, streams={"system1": rounds})


# -- Kairos ------------------------------------------------------------------------------------------------------------


def buckets(order: Kairos, waited_s: list[float]) -> list[float]:
    one = call(Ledger(), "r", 10.0)
    return [-order.rank(10.0, one, task(waited))[0] for waited in waited_s]


def test_wait_ratios_fall_into_buckets_of_equal_width() -> None:
    order = Kairos(buckets=10, ageing_s=5.0)
    assert buckets(order, [0.0, 0.99, 1.0, 5.5, 9.99, 10.0]) == [0, 0, 1, 5, 9, 9]


def test_without_buckets_the_ratio_itself_decides() -> None:
    one, two = buckets(Kairos(buckets=0, ageing_s=5.0), [1.1, 1.2])
    assert one < two


def test_only_waits_between_recorded_rounds_count() -> None:
    order, ledger = Kairos(buckets=10, ageing_s=1000.0), Ledger()
    new, waits = call(ledger, "new"), TaskSeen(0.0, 1, streams={"system1": Rounds(0.0)})
    under_way = call(ledger, "under way", 9.0)
    assert order.rank(10.0, under_way, task(2.0, 1.0)) < order.rank(10.0, new, waits), (
        "a new task has no recorded wait, however long it has waited, so tasks under way finish first"
    )


def test_a_call_rises_by_a_bucket_for_each_ageing_time_and_stops_at_the_top() -> None:
    order, one = Kairos(buckets=10, ageing_s=5.0), call(Ledger(), "r", 10.0)
    known = task(0.0, 1.0)
    known.streams["system1"].began_s = -1e9  # its wait ratio stays as good as 0
    risen = [-order.rank(10.0 + waits_s, one, known)[0] for waits_s in (0.0, 4.9, 5.0, 6.0, 10.0, 11.0, 9e3)]
    assert risen == [0, 0, 1, 2, 2, 3, 9]


def test_within_a_bucket_the_longest_execution_goes_first_and_waiting_lengthens_it() -> None:
    order, ledger = Kairos(buckets=10, ageing_s=100.0), Ledger()
    fresh, waits = call(ledger, "a", 10.0), call(ledger, "b", 9.0)
    long, short = task(0.0, 1.0, 0.25), task(0.0, 0.3, 0.25)
    assert order.rank(10.0, fresh, long) < order.rank(10.0, fresh, short)
    assert order.rank(10.0, waits, short) < order.rank(10.0, fresh, long), (
        "four generations long it has waited"
    )
    assert order.rank(10.0, fresh, task(2.0)) < order.rank(10.0, waits, long), "a higher bucket goes before"


def test_a_new_task_is_last_in_its_bucket_as_written_and_first_where_asked_for() -> None:
    new, known, ledger = TaskSeen(10.0, 1, streams={"system1": Rounds(10.0)}), task(0.0, 1.0), Ledger()
    for new_first in (False, True):
        order = Kairos(10, 100.0, new_first=new_first)
        one = call(ledger, "a", 10.0)
        assert (order.rank(10.0, one, new) < order.rank(10.0, one, known)) is new_first


# -- remaining work ----------------------------------------------------------------------------------------------------


def learned(*acted_s: float, round_s: float = 1.0, kind: str = "") -> TaskLengths:
    lengths = TaskLengths()
    for one_s in acted_s:
        lengths.ended(kind, one_s, max(1, round(one_s / round_s)))
    return lengths


def by_work(lengths: TaskLengths, min_age_weight: float = 0.0) -> RemainingWork:
    """In an open fleet whose servers take 0.1 s for a round."""
    turnover = Turnover()
    turnover.gpu_s, turnover.closed = 0.1, 0.0
    return RemainingWork(lengths, turnover, min_age_weight)


def test_the_task_with_the_least_left_to_do_goes_first() -> None:
    order, one = by_work(learned(*[10.0] * 5), 0.0), call(Ledger(), "a", 10.0)
    near, far = task(acted_s=8.0), task(acted_s=2.0)
    assert order.rank(10.0, one, near) < order.rank(10.0, one, far)


def test_what_is_left_counts_in_rounds_as_long_as_the_last_one() -> None:
    order = by_work(learned(*[10.0] * 5), 0.0)
    long, short = task(), task()
    for known, last_s in ((long, 2.0), (short, 0.5)):
        known.streams["system1"].acted_s, known.streams["system1"].last_execution_s = 4.0, last_s
        known.gpu_s = 0.1
    assert order.work_s(long) == pytest.approx(6.0 / 2.0 * 0.1)
    assert order.work_s(short) == pytest.approx(6.0 / 0.5 * 0.1)


def test_age_makes_up_for_work() -> None:
    order, one = by_work(learned(*[10.0] * 5), 0.05), call(Ledger(), "a", 100.0)
    old, new = task(acted_s=1.0), task(acted_s=1.0)
    new.streams["system1"].acted_s = 9.0
    new.began_s = 90.0
    assert order.work_s(old) - order.work_s(new) == pytest.approx(0.8)
    assert order.rank(100.0, one, old) < order.rank(100.0, one, new), "90 s of age count for 4.5 s of work"


def test_before_any_length_is_known_the_first_to_come_goes_first() -> None:
    order, ledger = by_work(TaskLengths(), 0.05), Ledger()
    first, second = call(ledger, "a", 1.0), call(ledger, "b", 2.0)
    assert order.rank(10.0, first, task()) < order.rank(10.0, second, task())
    older = task()
    older.began_s = -1000.0
    assert order.rank(10.0, first, task()) < order.rank(10.0, second, older), (
        "a task's age does not count yet"
    )


def test_a_periodic_component_goes_before_tasks_and_by_deadline() -> None:
    order, ledger = by_work(learned(*[10.0] * 5), 0.05), Ledger()
    ranks = {}
    for name, budget_ms in (("safety", 500.0), ("monitor", 60_000.0), ("system1", 30_000.0)):
        one = ledger.open(b"r", "r", name, "policy", 0, 0.0, budget_ms, [])
        ranks[name] = order.rank(0.0, one, task(acted_s=9.9))
    assert sorted(ranks, key=lambda name: ranks[name]) == ["safety", "monitor", "system1"]


def test_a_call_whose_deadline_is_near_goes_before_any_work_and_by_deadline() -> None:
    order, ledger = by_work(learned(*[10.0] * 5), 0.05), Ledger()
    short, long = task(acted_s=9.9), TaskSeen(0.0, 1)
    soon, sooner, later = (call(ledger, "a", 0.0, budget) for budget in (5000.0, 4000.0, 60_000.0))
    assert order.rank(0.0, sooner, long) < order.rank(0.0, soon, long) < order.rank(0.0, later, short)
    assert not order.moves_while_waiting(0.0, soon)
    assert order.moves_while_waiting(0.0, later)
    assert order.rank(56.0, later, long)[0] == 0.0, "its own deadline is near by then"


# -- in the queue and in the server ------------------------------------------------------------------------------------


def test_first_come_keeps_the_place_of_a_replaced_request() -> None:
    ledger, queue = Ledger(), RequestQueue(10, Ranking(FirstCome()))
    queue.put(call(ledger, "eager", 0.0, 300))
    queue.put(call(ledger, "calm", 0.1, 100))
    queue.put(call(ledger, "eager", 0.2, 300))
    assert [one.robot_id for one in queue] == ["eager", "calm"]


def served(order: str) -> Stage:
    factory = FACTORY.replace("gateway: {", f"gateway: {{order: {order}, ").replace(
        "slo_ms: 300", "slo_ms: 60000"
    )
    stage = Stage(100, factory).open("a", "b", "c")
    stage.worker("p1", "policy", 1)
    return stage


def send(stage: Stage, robot: str, request_id: int, progress: Progress | None = None) -> None:
    stage.send_as(robot.encode(), request(request_id, "system1", 60_000.0, progress=progress))


def round_of(stage: Stage, robot: str, number: int, progress: Progress | None, acts_s: float) -> None:
    """A robot alone: it is answered after 0.1 s and acts for `acts_s`."""
    send(stage, robot, number, progress)
    stage.wait(0.1)
    stage.finish("p1", 100.0)
    stage.wait(acts_s)


def next_of(stage: Stage, **robots: Progress | None) -> list[str]:
    """Who runs in which order when these robots send while the worker is busy with robot `c`."""
    stage.greet("c")
    stage.send("c", 100, "system1", 9000)
    before = len(stage.dispatched)
    for number, (robot, progress) in enumerate(robots.items()):
        send(stage, robot, 200 + number, progress)
    for _ in range(len(robots) + 1):
        stage.finish("p1", 10.0)
    return [one.calls[0].robot_id for one in stage.dispatched[before:]]


def test_the_server_runs_first_whom_its_models_have_served_least() -> None:
    stage = served(MIN_ATTAINED_SERVICE)
    for number in range(3):
        round_of(stage, "a", number, None, 0.1)
    round_of(stage, "b", 5, None, 0.1)
    assert next_of(stage, a=None, b=None) == ["b", "a"]


def test_the_server_runs_in_order_of_arrival() -> None:
    assert next_of(served(FIRST_COME), b=None, a=None) == ["b", "a"]


def test_the_server_runs_first_who_acts_longest_while_nobody_has_waited() -> None:
    stage = served(KAIROS)
    for robot in "ab":
        round_of(stage, robot, 1, Progress(1, 0, 0.0), 0.0)
    # Both say how long they act yet. By their calls' arrival alone, `a` would have acted for longer in either case.
    assert next_of(stage, b=Progress(1, 1, 500.0), a=Progress(1, 1, 1000.0)) == ["a", "b"]
    stage = served(KAIROS)
    for robot in "ab":
        round_of(stage, robot, 1, Progress(1, 0, 0.0), 0.0)
    assert next_of(stage, b=Progress(1, 1, 1000.0), a=Progress(1, 1, 500.0)) == ["b", "a"]


def do_task(stage: Stage, robot: str, number: int, rounds: int, kind: str, outcome: str = "done") -> None:
    """A whole task of rounds of 1 s, as a robot tells it."""
    for index in range(rounds):
        round_of(stage, robot, 1000 * number + index, Progress(number, index, 0.0, kind), 1.0)
    stage.core.on_robot(stage.now_s, robot.encode(), m.TaskEnds(number, outcome))
    stage.settle()


def test_the_server_learns_how_long_tasks_of_a_kind_are_and_runs_the_shorter_ones_first() -> None:
    stage = served(REMAINING_WORK)
    for number in range(1, 6):
        do_task(stage, "a", number, 2, "short")
        do_task(stage, "b", number, 6, "long")
    short, long = Progress(9, 0, 0.0, "short"), Progress(9, 0, 0.0, "long")
    assert next_of(stage, b=long, a=short) == ["a", "b"]
    left_s = stage.core.lengths.left_s
    assert left_s("pick: long", 0.0) > 1.8 * left_s("pick: short", 0.0)


@pytest.mark.parametrize("outcome", ["canceled", "aborted", "timed_out"])
def test_nothing_is_learned_from_a_task_that_was_broken_off(outcome: str) -> None:
    stage = served(REMAINING_WORK)
    do_task(stage, "a", 1, 3, "short", outcome)
    assert len(stage.core.lengths) == 0


def test_nothing_is_learned_from_a_task_that_began_elsewhere_or_whose_end_was_not_heard() -> None:
    stage = served(REMAINING_WORK)
    round_of(stage, "a", 1, Progress(1, 4, 0.0), 1.0)
    stage.core.on_robot(stage.now_s, b"a", m.TaskEnds(1, "done"))
    round_of(stage, "a", 2, Progress(2, 0, 0.0), 1.0)
    round_of(stage, "a", 3, Progress(3, 0, 0.0), 1.0)
    stage.core.on_robot(stage.now_s, b"a", m.TaskEnds(2, "done"))  # another one runs by now
    assert len(stage.core.lengths) == 0
    stage.core.on_robot(stage.now_s, b"a", m.TaskEnds(3, "done"))
    assert len(stage.core.lengths) == 1


def test_a_stranger_ends_no_task() -> None:
    stage = served(REMAINING_WORK)
    stage.core.on_robot(stage.now_s, b"nobody", m.TaskEnds(1, "done"))
    stage.settle()
    assert stage.refusals() == ["hello_required"]


def test_what_is_known_of_a_robot_is_forgotten_with_its_session() -> None:
    stage = served(KAIROS)
    ranking = stage.core.queues["policy"].ranking
    round_of(stage, "a", 1, None, 0.1)
    assert len(ranking) == 1
    stage.send("a", 2, "system1", 9000)
    stage.wait(12)
    stage.finish("p1", 10.0)
    assert "a" not in stage.core.sessions.robots
    assert len(ranking) == 0, "the late result of a robot that has left begins no new record"


def test_nothing_is_kept_for_a_policy_that_needs_nothing() -> None:
    stage = served(FIRST_COME)
    round_of(stage, "a", 1, Progress(1, 0, 0.0), 0.1)
    assert len(stage.core.queues["policy"].ranking) == 0


@pytest.mark.parametrize("name", ORDERS)
@given(
    arrivals=st.lists(
        st.tuples(st.sampled_from("abcdef"), st.integers(1, 9), st.booleans(), st.integers(0, 3)), max_size=40
    ),
    ageing_s=st.floats(0.1, 5.0),
    buckets=st.integers(0, 12),
)
def test_every_policy_ranks_every_waiting_call_once_and_nobody_waits_for_ever(
    name: str, arrivals: list[tuple[str, int, bool, int]], ageing_s: float, buckets: int
) -> None:
    ledger, lengths = Ledger(), learned(*[2.0] * 5, kind="t: ")
    settings = Gateway(order=name, order_buckets=buckets, order_ageing_s=ageing_s)
    ranking = Ranking(order_of(settings, lengths), lengths)
    queue = RequestQueue(100, ranking)
    now_s = 0.0
    for robot, budget, runs, number in arrivals:
        now_s += 0.1
        one = call(ledger, robot, now_s, budget * 1000.0)
        ranking.arrived(now_s, one, "t", Progress(number, 0, 50.0) if number else None)
        queue.put(one)
        queue.expire(now_s)
        queue.rank_at(now_s)
        order = queue.in_order()
        assert sorted(c.ticket for c in order) == sorted(c.ticket for c in queue)
        assert all(c.deadline_s > now_s for c in order)
        if runs and order:
            taken = queue.take(order[:1])
            taken[0].dispatched_s = now_s
            ranking.executed(now_s + 0.05, taken[0], 0.05, True)
            if budget == 9:
                ranking.task_ends(now_s + 0.05, taken[0].connection, m.TaskEnds(number, "done"))
    assert len(ranking) <= 6
    for _ in range(len(queue)):
        queue.take(queue.in_order()[:1])
    assert not len(queue)
