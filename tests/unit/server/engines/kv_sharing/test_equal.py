"""The engine's answers are those of isolated execution, whatever comes, leaves, waits or is evicted.

With every batch of one, they are equal to the last bit (float32, CPU). Batches change the order in which the CPU's
matrix products add up: words are then still the same, probabilities and chunks within `CLOSE`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache
from math import inf

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rosa_server.engines.kv_sharing.engine import CallLeft, KvSharingEngine, run_all
from rosa_server.engines.kv_sharing.passes import PassCall, Words, isolated
from rosa_server.engines.kv_sharing.turns import Kind, TurnLimits
from rosa_server.models.vla.network import VlaNetwork
from tests.unit.server.engines.kv_sharing.conftest import SMALL, STOP

CLOSE = 1e-5
ONE = TurnLimits(slice_tokens=2, prefills=1, actions=1, sequences=1)
MANY = TurnLimits(slice_tokens=2, prefills=3, actions=3, sequences=4)
Make = Callable[..., PassCall]


def engine_of(network: VlaNetwork, limits: TurnLimits, memory_mb: float = 16.0) -> KvSharingEngine:
    return KvSharingEngine(network, STOP, memory_mb, limits, longest_prompt=5, longest_answer=9)


@pytest.fixture(scope="module")
def alone(network: VlaNetwork) -> Callable[[PassCall], object]:
    """The isolated answer."""

    def answer(call: PassCall) -> object:
        with torch.inference_mode():
            return isolated(network, call, STOP)

    return answer


def same(got: object, expected: object, exactly: bool) -> bool:
    if isinstance(expected, Words):
        assert isinstance(got, Words)
        near = torch.allclose(torch.tensor(got.sureness), torch.tensor(expected.sureness), atol=CLOSE)
        return got == expected if exactly else got.tokens == expected.tokens and near
    assert isinstance(got, torch.Tensor) and isinstance(expected, torch.Tensor)
    return torch.equal(got, expected) if exactly else torch.allclose(got, expected, atol=CLOSE)


def components(make: Make, seen: int, name: str) -> list[PassCall]:
    """The four components of a robot ask about the same observation."""
    return [
        make(seen, "action", 1, observation=name),
        make(seen, "language", 2, longest=9, observation=name),
        make(seen, "language", 3, longest=1, observation=name),
        make(seen, "language", 4, longest=1, observation=name),
    ]


@pytest.mark.parametrize("limits", [ONE, MANY])
def test_four_components_share_one_prefill_and_answer_as_if_alone(
    network: VlaNetwork, call: Make, alone: Callable[[PassCall], object], limits: TurnLimits
) -> None:
    engine = engine_of(network, limits)
    calls = components(call, 7, "r1/7")
    answers = run_all(engine, calls)
    assert all(same(got, alone(one), limits is ONE) for got, one in zip(answers, calls, strict=True))
    counts = engine.counts()
    assert (counts["prefills"], counts["prefills_saved"]) == (1, 3)


def test_the_answers_depend_on_the_observation_and_end_at_the_stop_token(
    network: VlaNetwork, call: Make, alone: Callable[[PassCall], object]
) -> None:
    """What the comparisons above compare is not always the same."""
    said = [alone(call(seen, "language", own, longest=9)) for seen in range(4) for own in range(4)]
    assert len({words.tokens for words in said if isinstance(words, Words)}) > 8
    first, second = alone(call(0, "action")), alone(call(1, "action"))
    assert isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor)
    assert not torch.allclose(first, second, atol=100 * CLOSE)
    words = alone(call(0, "language", 2, longest=9))
    assert isinstance(words, Words)
    with torch.inference_mode():
        cut = isolated(network, call(0, "language", 2, longest=9), stop=words.tokens[3])
    assert isinstance(cut, Words)
    assert cut.tokens == words.tokens[: words.tokens.index(words.tokens[3])]


PLANS = ((5, 6, 7, 8, STOP), (5, 6, 9, STOP), (11, 6, STOP), (5, 12, 13, 8, 9, 10, 14, STOP))


def next_tokens(said: Sequence[int]) -> list[int]:
    """What may follow in one of `PLANS`."""
    begun = len(said)
    return sorted({one[begun] for one in PLANS if len(one) > begun and one[:begun] == tuple(said)})


def test_a_grammar_allows_its_answers_only_and_its_words_without_a_choice_cost_no_pass(
    network: VlaNetwork, call: Make, alone: Callable[[PassCall], object]
) -> None:
    engine = engine_of(network, MANY)
    calls = [call(seen, "language", seen, longest=9, grammar=next_tokens) for seen in range(6)]
    calls.append(call(8, "language", 2, longest=9))
    answers = run_all(engine, calls)
    assert all(same(got, alone(one), False) for got, one in zip(answers, calls, strict=True))
    said = {got.tokens for got in answers[:6] if isinstance(got, Words)}
    assert said <= {plan[:-1] for plan in PLANS}
    assert len(said) > 1
    assert all(
        len(got.first) == 2 and sum(got.first) == pytest.approx(1.0)
        for got in answers[:6]
        if isinstance(got, Words)
    )


def test_a_verdict_is_a_choice_of_one_word(network: VlaNetwork, call: Make) -> None:
    def verdicts(said: Sequence[int]) -> tuple[int, ...]:
        return () if said else (21, 4, 9)

    engine = engine_of(network, MANY)
    (answer,) = run_all(engine, [call(3, "language", 1, longest=1, grammar=verdicts)])
    assert isinstance(answer, Words)
    assert len(answer.first) == 3
    assert answer.tokens == ((21, 4, 9)[answer.first.index(max(answer.first))],)
    assert engine.counts()["slices"] == 1


def test_language_of_several_frames_shares_slices(network: VlaNetwork, call: Make) -> None:
    engine = engine_of(network, MANY)
    run_all(engine, [call(seen, "language", seen, longest=9) for seen in range(4)])
    counts = engine.counts()
    assert counts["sequences_in_slices"] > 2 * counts["slices"]


def test_the_same_name_of_another_robot_is_another_observation(
    network: VlaNetwork, call: Make, alone: Callable[[PassCall], object]
) -> None:
    engine = engine_of(network, ONE)
    calls = [call(1, "action", observation="s1:5"), call(2, "action", observation="s2:5")]
    assert all(same(got, alone(one), True) for got, one in zip(run_all(engine, calls), calls, strict=True))
    assert engine.counts()["prefills"] == 2


def test_a_call_that_fails_fails_alone(network: VlaNetwork, call: Make) -> None:
    engine = engine_of(network, MANY)
    good, bad = call(1, "language"), call(2, "language")
    bad.pictures[0].resize_(1, 3, 9, 9)
    answers = [engine.submit(one)[1] for one in (bad, good)]
    while engine.step(0.0) is not None:
        pass
    assert isinstance(answers[0].exception(0), Exception)


def test_calls_beyond_the_positions_or_the_memory_are_refused(network: VlaNetwork, call: Make) -> None:
    engine = engine_of(network, MANY)
    with pytest.raises(ValueError, match="at most 5 of prompt and 9 of answer, got 1 and 80"):
        engine.submit(call(1, "language", longest=80))
    with pytest.raises(ValueError, match="two calls at a time"):
        engine_of(network, MANY, 0.01)


def test_an_ended_engine_cancels_what_waits(network: VlaNetwork, call: Make) -> None:
    engine = engine_of(network, MANY)
    _, answer = engine.submit(call(1, "action"))
    engine.close()
    with pytest.raises(CallLeft, match="cancelled"):
        answer.result(0)


def test_in_a_thread_of_its_own_it_answers_many_callers(
    network: VlaNetwork, call: Make, alone: Callable[[PassCall], object]
) -> None:
    engine = engine_of(network, MANY)
    engine.start()
    try:
        calls = [one for seen in range(3) for one in components(call, seen, str(seen))]
        answers = [engine.submit(one)[1] for one in calls]
        assert all(
            same(answer.result(30.0), alone(one), False) for answer, one in zip(answers, calls, strict=True)
        )
    finally:
        engine.close()
    assert engine.manager.bytes <= engine.counts()["held_bytes"]


@dataclass(frozen=True)
class Asks:
    """A call comes."""

    seen: int
    kind: Kind
    own: int  # its prompt and noise
    longest: int  # words
    within: int | None  # turns from now
    named: bool


@dataclass(frozen=True)
class Cancels:
    """The call with this number, counted round, is not waited for any more."""

    number: int


@dataclass(frozen=True)
class Runs:
    """So many turns pass."""

    turns: int


KINDS: tuple[Kind, ...] = ("action", "language")
arrivals = st.lists(
    st.one_of(
        st.builds(
            Asks,
            st.integers(0, 3),
            st.sampled_from(KINDS),
            st.integers(0, 6),
            st.integers(1, 7),
            st.one_of(st.none(), st.integers(1, 25)),
            st.booleans(),
        ),
        st.builds(Cancels, st.integers(0, 12)),
        st.builds(Runs, st.integers(1, 5)),
    ),
    min_size=1,
    max_size=16,
)


@pytest.mark.parametrize("limits", [ONE, MANY], ids=["one by one", "batched"])
@given(story=arrivals, prefixes=st.sampled_from([5, 7, 40]))
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_arrivals_cancellations_budgets_and_evictions(
    network: VlaNetwork,
    call: Make,
    limits: TurnLimits,
    story: list[Asks | Cancels | Runs],
    prefixes: int,
) -> None:
    prefix = SMALL.cache_bytes(SMALL.observation)
    engine = engine_of(network, limits, prefixes * prefix / 1e6)
    asked: list[tuple[Asks, int, Future[object]]] = []
    now = 0

    def turns(count: int) -> None:
        nonlocal now
        for _ in range(count):
            if engine.step(float(now)) is None:
                return
            now += 1
            assert engine.manager.bytes <= engine.counts()["held_bytes"] <= prefixes * prefix

    for event in story:
        if isinstance(event, Asks):
            deadline_s = inf if event.within is None else float(now + event.within)
            name = str(event.seen) if event.named else ""
            asked.append((event, *engine.submit(call(*what(event), observation=name, deadline_s=deadline_s))))
        elif isinstance(event, Runs):
            turns(event.turns)
        elif asked:
            engine.cancel(asked[event.number % len(asked)][1])
    turns(1000)
    expected = answers_of(network, call)
    for event, _, answer in asked:
        assert answer.done(), "every call ends"
        left = answer.exception(0)
        assert left is None or isinstance(left, CallLeft)
        if left is None:
            assert same(answer.result(0), expected(*what(event)), limits is ONE)
    assert len(engine.manager._states) == 0


def what(asks: Asks) -> tuple[int, Kind, int, int]:
    """All that an answer depends on."""
    return asks.seen, asks.kind, asks.own, asks.longest


@lru_cache
def answers_of(network: VlaNetwork, call: Make) -> Callable[..., object]:
    """Isolated answers, each computed once."""

    @lru_cache
    def answer(seen: int, kind: Kind, own: int, longest: int) -> object:
        with torch.inference_mode():
            return isolated(network, call(seen, kind, own, longest), STOP)

    return answer
