"""The engine says what plain greedy generation says of the same frames, whatever else is in the pipe."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_server.engines.pipelined_decode.engine import Engine, FrameLeft
from rosa_server.engines.pipelined_decode.packed import PackedForward
from rosa_server.engines.pipelined_decode.pipe import Pipe, PipeFrame
from rosa_server.models.token_policy.config import TokenPolicyConfig
from rosa_server.models.token_policy.decoder import Decoder, attend_causally
from rosa_server.models.token_policy.generate import GrowingCache, StaticCache, generate

CONFIG = TokenPolicyConfig(
    width=32,
    layers=2,
    heads=4,
    kv_heads=2,
    mlp=48,
    vocabulary=61,
    image_tokens=4,
    state_tokens=1,
    prompt_tokens=2,
    action_tokens=5,
)


def make(config):
    # In 64 bits: a different order of additions must not turn one likeliest token into another.
    torch.manual_seed(1)
    decoder = Decoder(config).double().eval()
    for weight in decoder.parameters():
        weight.data.mul_(3.0) if weight.dim() > 1 else weight.data.uniform_(0.8, 1.2)
    return decoder


DECODER = make(CONFIG)
PREFIXES = torch.randn(24, CONFIG.prefix, CONFIG.width, dtype=torch.float64)


def from_scratch(decoder, config, prefix):
    """The whole sequence again for each token, with no cache at all."""
    tokens = []
    with torch.inference_mode():
        for _ in range(config.action_tokens):
            hidden = torch.cat([prefix, decoder.embedding(torch.tensor(tokens, dtype=torch.long))])[None]
            states = decoder(hidden, torch.arange(hidden.shape[1]), attend_causally)
            tokens.append(int(decoder.head(states[0, -1]).argmax()))
    return tokens


@cache
def expected():
    return [from_scratch(DECODER, CONFIG, prefix) for prefix in PREFIXES]


def engine_for(slots, at_once=1, packed=True, padded=False):
    pipe = Pipe(CONFIG.action_tokens, slots, at_once, packed)
    runner = PackedForward(DECODER, CONFIG, slots, padded)
    return Engine(pipe, runner, lambda frames: PREFIXES[list(frames)])


def test_frames_do_differ():
    assert len({tuple(tokens) for tokens in expected()}) > 12


@pytest.mark.parametrize("cache", ["growing", "static"])
def test_plain_generation_with_a_cache_equals_that_without(cache):
    held = (
        GrowingCache(CONFIG)
        if cache == "growing"
        else StaticCache(CONFIG, len(PREFIXES), torch.device("cpu"), torch.float64)
    )
    assert generate(DECODER, CONFIG, PREFIXES, held).tolist() == expected()


@settings(max_examples=60)
@given(
    slots=st.integers(1, 7),
    at_once=st.integers(1, 3),
    packed=st.booleans(),
    padded=st.booleans(),
    events=st.lists(
        st.tuples(st.just("frame"), st.integers(0, len(PREFIXES) - 1))
        | st.tuples(st.just("cancel"), st.integers(0, 40))
        | st.tuples(st.just("pass"), st.just(0)),
        max_size=50,
    ),
)
def test_tokens_equal_plain_generation_over_any_arrivals_and_cancellations(
    slots, at_once, packed, padded, events
):
    engine = engine_for(slots, at_once, packed, padded)
    frames, answers, cancelled = [], [], set()
    for kind, value in events:
        if kind == "frame":
            frames.append(value)
            answers.append(engine.submit(value, robot=str(value % 3))[1])
        elif kind == "cancel":
            if engine.cancel(value):
                cancelled.add(value)
        else:
            engine.step(0.0)
    while engine.step(0.0):
        pass
    for number, (frame, answer) in enumerate(zip(frames, answers, strict=True)):
        assert answer.done()
        if number in cancelled:
            assert isinstance(answer.exception(), FrameLeft)
        else:
            assert answer.result().tolist() == expected()[frame]


def test_a_full_pipe_packs_the_prefix_of_one_frame_with_a_step_of_all_others():
    sizes = []

    class Counted(PackedForward):
        def run(self, do, prefixes):
            sizes.append((len(do.enter), len(do.decode)))
            super().run(do, prefixes)

    k = CONFIG.action_tokens
    engine = Engine(Pipe(k, k), Counted(DECODER, CONFIG, k), lambda frames: PREFIXES[list(frames)])
    answers = []
    for frame in range(12):
        answers.append(engine.submit(frame)[1])
        engine.step(0.0)
        assert [one.done() for one in answers] == [frame - n >= k - 1 for n in range(frame + 1)]
    assert sizes[k:] == [(1, k - 1)] * (12 - k)
    assert [one.result().tolist() for one in answers[: 13 - k]] == expected()[: 13 - k]


def test_no_step_allocates_keys_and_values():
    engine = engine_for(3)
    ring = engine._runner.ring
    places = ring.keys.data_ptr(), ring.values.data_ptr()
    for frame in range(9):
        engine.submit(frame)
        engine.step(0.0)
    assert (ring.keys.data_ptr(), ring.values.data_ptr()) == places
    assert ring.bytes == 2 * CONFIG.layers * 4 * CONFIG.longest * CONFIG.kv_heads * CONFIG.head_dim * 8


def test_a_frame_past_its_deadline_ends_and_its_slot_serves_the_next():
    engine = engine_for(1)
    late = engine.submit(0, deadline_s=1.0)[1]
    engine.step(0.0)
    fine = engine.submit(1, deadline_s=9.0)[1]
    while engine.step(2.0):
        pass
    assert late.exception().cause == "expired"
    assert engine.counts() == {"passes": 6, "frames": 1, "frames_late": 1, "frames_cancelled": 0}
    assert fine.result().tolist() == expected()[1]


def test_a_frame_that_cannot_be_embedded_fails_alone_and_those_inside_go_on():
    def embed(frames):
        if 99 in frames:
            raise ValueError("no picture")
        return PREFIXES[list(frames)]

    pipe = Pipe(CONFIG.action_tokens, 3)
    engine = Engine(pipe, PackedForward(DECODER, CONFIG, 3), embed)
    fine = [engine.submit(4)[1]]
    engine.step(0.0)
    bad = engine.submit(99)[1]
    engine.step(0.0)
    assert isinstance(bad.exception(), ValueError)
    fine.append(engine.submit(5)[1])
    while engine.step(0.0):
        pass
    assert [answer.result().tolist() for answer in fine] == expected()[4:6]


def test_in_its_own_thread_it_answers_every_caller_and_ends_those_it_leaves():
    engine = engine_for(3)
    engine.start()
    answers = [engine.submit(frame)[1] for frame in range(12)]
    assert [answer.result(timeout=30).tolist() for answer in answers] == expected()[:12]
    engine.close()
    left = engine.submit(0)[1]
    engine.close()
    assert left.exception(timeout=5).cause == "cancelled"


def test_one_token_a_frame_needs_no_decode_step_padded_or_not():
    config = replace(CONFIG, action_tokens=1)
    for padded in (False, True):
        forward = PackedForward(DECODER, config, 3, padded=padded)
        pipe = Pipe(1, 3)
        said = {}
        for number in range(4):
            pipe.offer(PipeFrame(number))
        with torch.inference_mode():
            while (do := pipe.next_pass(0.0)) is not None:
                forward.run(do, PREFIXES[[seat.frame.number for seat in do.enter]])
                said |= {seat.frame.number: forward.tokens[seat.slot].tolist() for seat in pipe.passed(do)}
        assert [said[number] for number in range(4)] == [tokens[:1] for tokens in expected()[:4]]
