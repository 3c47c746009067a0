"""Who enters, advances and leaves: each frame ends once, slots are never shared, K passes make an action."""

from __future__ import annotations

from collections import Counter
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosa_server.engines.pipelined_decode.pipe import Pipe, PipeFrame

K = 4


def numbers(seats):
    return [seat.frame.number for seat in seats]


def test_one_stream_fills_the_pipe_and_then_one_action_leaves_with_each_pass():
    pipe = Pipe(K, slots=K)
    finished = []
    for moment in range(10):
        pipe.offer(PipeFrame(moment))
        do = pipe.next_pass(0.0)
        assert do is not None
        assert numbers(do.enter) == [moment]
        assert sorted(seat.step for seat in do.decode) == list(range(1, min(moment, K - 1) + 1))
        finished.append(numbers(pipe.passed(do)))
    assert finished == [[], [], [], *([n] for n in range(7))]


def test_a_pipe_without_new_frames_runs_empty():
    pipe = Pipe(K, slots=K)
    pipe.offer(PipeFrame(0))
    passes = 0
    while (do := pipe.next_pass(0.0)) is not None:
        passes += 1
        pipe.passed(do)
    assert passes == K and len(pipe) == 0


def test_a_cancelled_frame_leaves_its_slot_at_once():
    pipe = Pipe(K, slots=1)
    pipe.offer(PipeFrame(0))
    pipe.offer(PipeFrame(1))
    pipe.passed(pipe.next_pass(0.0))
    assert pipe.cancel(0)
    do = pipe.next_pass(0.0)
    assert numbers(do.enter) == [1] and not do.decode
    assert [(one.frame.number, one.cause) for one in pipe.left()] == [(0, "cancelled")]
    assert not pipe.cancel(0)


def test_a_frame_cancelled_while_its_last_pass_runs_is_not_finished():
    pipe = Pipe(1, slots=1)
    pipe.offer(PipeFrame(0))
    do = pipe.next_pass(0.0)
    assert pipe.cancel(0)
    assert pipe.passed(do) == []


def test_a_slot_taken_over_during_a_pass_does_not_advance_with_it():
    pipe = Pipe(K, slots=1)
    pipe.offer(PipeFrame(0))
    pipe.offer(PipeFrame(1))
    first = pipe.next_pass(0.0)
    pipe.cancel(0)
    second = pipe.next_pass(0.0)
    assert numbers(second.enter) == [1]
    assert pipe.passed(first) == []
    pipe.passed(second)
    assert pipe.next_pass(0.0).decode[0].step == 1


def test_an_expired_frame_leaves_and_one_that_cannot_be_in_time_does_not_enter():
    pipe = Pipe(K, slots=2)
    pipe.offer(PipeFrame(0, deadline_s=1.0))
    pipe.passed(pipe.next_pass(0.0, pass_s=0.2))
    pipe.offer(PipeFrame(1, deadline_s=1.7))
    do = pipe.next_pass(1.0, pass_s=0.2)
    assert do is None
    assert {one.frame.number: one.cause for one in pipe.left()} == {0: "expired", 1: "too_late"}


def test_robots_with_fewer_frames_inside_go_first_then_the_earliest_deadline():
    pipe = Pipe(K, slots=K)
    for frame in (
        PipeFrame(0, "a", 9.0),
        PipeFrame(1, "a", 5.0),
        PipeFrame(2, "b", 8.0),
        PipeFrame(3, "c", 7.0),
    ):
        pipe.offer(frame)
    order = []
    for _ in range(4):
        do = pipe.next_pass(0.0)
        order += numbers(do.enter)
        pipe.passed(do)
    assert order == [1, 3, 2, 0]


def test_unpacked_prefill_and_decode_alternate():
    pipe = Pipe(K, slots=2, packed=False)
    pipe.offer(PipeFrame(0))
    pipe.passed(pipe.next_pass(0.0))
    pipe.offer(PipeFrame(1))
    do = pipe.next_pass(0.0)
    assert numbers(do.enter) == [1] and not do.decode
    pipe.passed(do)
    assert len(pipe.next_pass(0.0).decode) == 2


def test_impossible_sizes_and_a_number_in_use_are_refused():
    with pytest.raises(ValueError, match="at least 1"):
        Pipe(0, 1)
    pipe = Pipe(K, 1)
    pipe.offer(PipeFrame(3))
    with pytest.raises(ValueError, match="frame 3"):
        pipe.offer(PipeFrame(3))
    pipe.next_pass(0.0)
    with pytest.raises(ValueError, match="frame 3"):
        pipe.offer(PipeFrame(3))


events = st.one_of(
    st.tuples(st.just("offer"), st.sampled_from("abc"), st.floats(0.0, 6.0) | st.just(inf)),
    st.tuples(st.just("cancel"), st.integers(0, 30)),
    st.tuples(st.just("pass"), st.floats(0.0, 0.5)),
)


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 3), st.booleans(), st.lists(events, max_size=60))
def test_every_frame_ends_once_and_only_after_all_its_passes(tokens, slots, at_once, packed, happened):
    pipe = Pipe(tokens, slots, at_once, packed)
    now_s, offered = 0.0, 0
    steps: dict[int, list[int]] = {}
    places: dict[int, int] = {}
    ended: Counter[int] = Counter()

    def run(pass_s):
        do = pipe.next_pass(now_s, pass_s)
        for one in pipe.left():
            ended[one.frame.number] += 1
        if do is None:
            return False
        seats = (*do.enter, *do.decode)
        assert len({seat.slot for seat in seats}) == len(seats) <= slots
        assert len(do.enter) <= at_once
        assert packed or not (do.enter and do.decode)
        assert [seat.slot for seat in do.decode] == sorted(seat.slot for seat in do.decode)
        for seat in seats:
            number = seat.frame.number
            assert not ended[number] and seat.frame.deadline_s > now_s
            assert places.setdefault(number, seat.slot) == seat.slot
            assert seat.step == len(steps.setdefault(number, []))
            steps[number].append(seat.step)
        for seat in pipe.passed(do):
            assert len(steps[seat.frame.number]) == tokens
            ended[seat.frame.number] += 1
        return True

    for kind, *about in happened:
        if kind == "offer":
            pipe.offer(PipeFrame(offered, about[0], now_s + about[1]))
            offered += 1
        elif kind == "cancel":
            pipe.cancel(about[0])
        else:
            run(about[0])
            now_s += about[0]
    while run(0.0):
        pass
    assert len(pipe) == 0
    assert ended == Counter(range(offered))
