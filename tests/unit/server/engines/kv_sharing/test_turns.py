"""What runs next: actions first, one prefill per observation, a budget that holds, and every ask ends once."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_server.engines.kv_sharing.memory import PrefixMemory
from rosa_server.engines.kv_sharing.turns import Act, Costs, PassTurns, Prefill, Speak, TurnAsk, TurnLimits

PREFIX, OWN = 100, 10


def turns(budget: int = 1000, **limits: int) -> PassTurns:
    return PassTurns(PrefixMemory(budget, PREFIX), TurnLimits(**limits), action_own=OWN)


def action(number: int, observation: str, deadline_s: float = inf) -> TurnAsk:
    return TurnAsk(number, observation, "action", deadline_s, OWN)


def language(number: int, observation: str, deadline_s: float = inf) -> TurnAsk:
    return TurnAsk(number, observation, "language", deadline_s, OWN)


def run(queue: PassTurns, now_s: float = 0.0, costs: Costs | None = None) -> Prefill | Act | Speak:
    """The next turn, which has then run. No sequence ends."""
    turn = queue.next_turn(now_s, costs)
    assert turn is not None
    queue.passed(turn)
    return turn


def test_one_prefill_serves_the_experts_of_an_observation() -> None:
    queue = turns()
    action_ask, words = action(0, "a"), language(1, "a")
    queue.offer(action_ask)
    queue.offer(words)
    assert run(queue) == Prefill((action_ask,))
    assert run(queue) == Act((action_ask,))
    assert run(queue) == Speak((words,), 5)
    assert (queue.counts.prefills, queue.counts.shared) == (1, 1)


def test_a_prefix_stays_for_whoever_asks_later() -> None:
    queue = turns()
    queue.offer(action(0, "a"))
    run(queue), run(queue)
    queue.offer(action(1, "a"))
    assert isinstance(run(queue), Act)
    assert queue.counts.prefills == 1


def test_the_prefix_of_an_observation_that_nobody_else_can_name_goes_with_its_ask() -> None:
    queue = turns()
    queue.offer(TurnAsk(0, "a", "action", inf, OWN, alone=True))
    run(queue), run(queue)
    assert queue.memory.held == 0
    assert queue.evicted() == ["a"]
    assert queue.memory.evictions == 0, "nothing had to make room"


def test_language_of_many_frames_shares_a_slice() -> None:
    queue = turns()
    asks = [language(number, f"frame {number}") for number in range(3)]
    for ask in asks:
        queue.offer(ask)
    assert [type(run(queue)) for _ in range(3)] == [Prefill] * 3
    assert run(queue) == Speak(tuple(asks), 5)
    assert queue.passed(Speak(tuple(asks), 5), ended={1}) == [asks[1]]
    assert run(queue) == Speak((asks[0], asks[2]), 5)


def test_actions_come_first_and_then_a_slice_where_their_slack_allows() -> None:
    queue = turns()
    costs = Costs(prefill_s=0.01, act_s=0.02, token_s=0.001)
    queue.offer(language(0, "a"))
    run(queue, costs=costs)
    queue.offer(action(1, "b", deadline_s=1.0))
    queue.offer(action(2, "c", deadline_s=1.0))
    kinds = [type(run(queue, costs=costs)) for _ in range(5)]
    assert kinds == [Prefill, Act, Speak, Prefill, Act]


def test_a_slice_is_as_long_as_the_slack_of_the_actions_that_wait() -> None:
    costs = Costs(prefill_s=0.01, act_s=0.02, token_s=0.01)
    for deadline_s, expected in ((0.2, 5), (0.064, 3), (0.035, 0)):
        queue = turns()
        queue.offer(language(0, "a"))
        queue.offer(action(1, "a"))
        assert [type(run(queue, costs=costs)) for _ in range(2)] == [Prefill, Act]
        queue.offer(action(2, "b", deadline_s))
        turn = run(queue, costs=costs)
        assert turn.tokens == expected if isinstance(turn, Speak) else expected == 0


def test_an_action_that_is_late_whatever_runs_does_not_keep_language_waiting() -> None:
    costs = Costs(prefill_s=0.01, act_s=0.02, token_s=0.01)
    queue = turns()
    queue.offer(language(0, "a"))
    queue.offer(action(1, "a"))
    run(queue), run(queue)
    queue.offer(action(2, "b", deadline_s=0.001))
    assert isinstance(run(queue, costs=costs), Speak)


def test_the_least_recently_used_prefix_leaves_first_and_is_computed_again() -> None:
    queue = turns(budget=PREFIX * 2 + OWN)
    for number, observation in enumerate("aba"):
        queue.offer(action(number, observation))
        while len(queue):
            run(queue)
    queue.offer(action(3, "c"))
    assert run(queue) == Prefill((action(3, "c"),))
    assert queue.evicted() == ["b"]
    run(queue)
    queue.offer(action(4, "b"))
    assert isinstance(run(queue), Prefill)
    assert queue.memory.evictions == 2


def test_what_is_in_use_stays_and_language_leaves_room_for_an_action() -> None:
    queue = turns(budget=2 * (PREFIX + OWN))
    first, second, third = language(0, "a"), language(1, "b"), action(2, "c")
    queue.offer(first)
    queue.offer(second)
    assert run(queue) == Prefill((first,))
    assert run(queue) == Speak((first,), 5), "the second sequence would leave no room"
    queue.offer(third)
    assert [type(run(queue)) for _ in range(2)] == [Prefill, Act]
    assert queue.evicted() == []
    queue.passed(Speak((first,), 5), ended={0})
    assert run(queue) == Prefill((second,))


def test_what_never_fits_is_refused_at_once() -> None:
    queue = turns(budget=PREFIX + OWN)
    queue.offer(action(0, "a"))
    with pytest.raises(ValueError, match="needs more than 110 bytes"):
        queue.offer(language(1, "a"))
    with pytest.raises(ValueError, match="here already"):
        queue.offer(action(0, "a"))


def test_an_ask_leaves_at_its_deadline_and_when_nobody_wants_it() -> None:
    queue = turns()
    expires, unwanted = action(0, "a", deadline_s=1.0), language(1, "a")
    queue.offer(expires)
    queue.offer(unwanted)
    run(queue)
    assert queue.cancel(1)
    assert not queue.cancel(1)
    assert queue.next_turn(1.0) is None
    assert queue.left() == [(unwanted, "cancelled"), (expires, "expired")]
    assert queue.memory.in_use == 0


def test_a_prefill_that_nobody_waits_for_any_more_leaves_nothing() -> None:
    queue = turns()
    queue.offer(action(0, "a"))
    turn = queue.next_turn(0.0)
    assert turn is not None
    queue.cancel(0)
    queue.passed(turn)
    assert not queue.is_ready("a")
    assert queue.memory.held == 0


events = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.booleans(), st.integers(0, 5), st.integers(1, 60), st.booleans()),
        st.tuples(st.just("cancel"), st.integers(0, 40)),
        st.tuples(st.just("turns"), st.integers(1, 6)),
    ),
    max_size=60,
)


@pytest.mark.slow
@given(
    events,
    st.integers(2 * (PREFIX + OWN), 600),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(1, 4),
)
@settings(max_examples=300)
def test_every_ask_ends_once_and_the_budget_holds(
    story: list[tuple[object, ...]], budget: int, prefills: int, actions: int, sequences: int, words: int
) -> None:
    queue = turns(budget, prefills=prefills, actions=actions, sequences=sequences)
    asks: dict[int, TurnAsk] = {}
    ends: list[int] = []
    said: dict[int, int] = {}
    there: set[str] = set()
    now_s = 0.0
    costs = Costs(1.0, 2.0, 0.5)

    def turn() -> bool:
        nonlocal now_s
        do = queue.next_turn(now_s, costs)
        there.difference_update(queue.evicted())
        ends.extend(ask.number for ask, _ in queue.left())
        assert queue.memory.held <= budget
        if do is None:
            return False
        ended = set()
        if isinstance(do, Prefill):
            assert len(do.asks) <= prefills
            assert there.isdisjoint(ask.observation for ask in do.asks), "no prefix is computed twice"
        elif isinstance(do, Act):
            assert len(do.asks) <= actions
            assert {ask.kind for ask in do.asks} == {"action"}
            assert there.issuperset(ask.observation for ask in do.asks)
        else:
            assert 1 <= do.tokens <= queue.limits.slice_tokens
            assert len(do.asks) <= sequences
            assert there.issuperset(ask.observation for ask in do.asks)
            for ask in do.asks:
                said[ask.number] = said.get(ask.number, 0) + do.tokens
            ended = {ask.number for ask in do.asks if said[ask.number] >= 5 * words}
        now_s += 1.0
        finished = queue.passed(do, ended)
        there.difference_update(queue.evicted())
        if isinstance(do, Prefill):
            there.update(ask.observation for ask in do.asks if queue.is_ready(ask.observation))
        ends.extend(ask.number for ask in finished)
        return True

    for event in story:
        if event[0] == "ask":
            _, acts, observation, wait_s, alone = event
            number = len(asks)
            name = f"alone {number}" if alone else str(observation)
            kind = "action" if acts else "language"
            assert isinstance(wait_s, int) and isinstance(alone, bool)
            asks[number] = TurnAsk(number, name, kind, now_s + wait_s if wait_s < 50 else inf, OWN, alone)
            queue.offer(asks[number])
        elif event[0] == "cancel":
            assert isinstance(event[1], int)
            queue.cancel(event[1])
            there.difference_update(queue.evicted())
        else:
            assert isinstance(event[1], int)
            for _ in range(event[1]):
                turn()
    for _ in range(40 * (len(asks) + 1)):
        if not turn():
            break
    assert len(queue) == 0
    assert sorted(ends) == sorted(asks), "every ask ends exactly once"
    assert queue.memory.in_use == 0
