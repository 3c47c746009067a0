"""The rivals of pipelined decoding say what it says, and what is written of them follows from their columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from benchmarks.engines import pipelined_decode
from benchmarks.engines.chunked_prefill import ChunkedPrefill
from benchmarks.engines.pipelined_decode import (
    CLOSE,
    SMALL,
    TIMES_PLAIN,
    Bench,
    Run,
    below_likeliest,
    checked,
    plain,
    random_decoder,
)
from benchmarks.engines.pipelined_decode_report import judged
from rosa_server.models.token_policy.generate import StaticCache

CPU = torch.device("cpu")
torch.set_num_threads(1)  # as the benchmark; two on a busy machine wait for each other
TINY = replace(SMALL, width=32, layers=2, heads=4, kv_heads=2, mlp=48, vocabulary=61, image_tokens=4)


def bench(k: int, prefix: int = 9) -> Bench:
    config = pipelined_decode.sized(TINY, prefix, k)
    return Bench(pipelined_decode.random_decoder(CPU, torch.float32)(config), config, CPU)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_every_way_says_the_same(k: int) -> None:
    one = bench(k)
    assert checked(one) == (True, pytest.approx(0.0, abs=1e-3), pytest.approx(0.0, abs=1e-3))
    cache = StaticCache(one.config, 3, CPU, torch.float32)
    assert one.said(one.some(1, 3), cache).tolist() == [*plain(one)[1:], plain(one)[0]][:3]


@pytest.mark.parametrize("chunks", [1, 2, 3, 9])
def test_a_prefix_in_chunks_says_what_it_says_in_one(chunks: int) -> None:
    one = bench(4)
    engine = ChunkedPrefill(one.decoder, one.config, chunks)
    said: dict[int, list[int]] = {}
    number = passes = 0
    while len(said) < 8:
        done, entered = engine.step(one.prefixes[number % 4][0], number)
        passes, number = passes + 1, number + entered
        said |= {frame.number: engine.tokens[frame.slot].tolist() for frame in done}
    assert [said[index] for index in range(8)] == plain(one) * 2
    assert passes == 8 * chunks + 4 - 1, "a frame enters whenever the one before it has been read"


def test_another_token_than_the_likeliest_is_seen() -> None:
    one = bench(3)
    said = plain(one)
    assert below_likeliest(one, said) == pytest.approx(0.0, abs=1e-4)
    wrong = [[*said[0][:2], (said[0][2] + 1) % TINY.vocabulary], *said[1:]]
    assert below_likeliest(one, wrong) > 0.05


def test_in_16_bits_rounding_is_measured_against_exact_logits_and_a_fault_is_more_than_rounding() -> None:
    decoder = random_decoder(torch.device("cpu"), torch.bfloat16)(TINY)
    one = Bench(decoder, TINY, torch.device("cpu"))
    same, worst, by_plain = checked(one)
    assert same and worst <= max(CLOSE, TIMES_PLAIN * by_plain)
    one.prefixes = one.prefixes.roll(1, 0)  # each frame is answered about another one
    said = plain(one)
    one.prefixes = one.prefixes.roll(-1, 0)
    assert below_likeliest(one, said) > 0.5 > TIMES_PLAIN * by_plain


def test_the_age_is_that_of_the_newest_answer_over_time() -> None:
    alone = Run(4.0, [0.0, 1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0])
    assert (alone.age_s(), alone.jitter_s(), alone.fps) == (1.5, 0.0, 1.0)
    batches = Run(4.0, [0.0, 0.0, 2.0, 2.0], [2.0, 2.0, 4.0, 4.0])
    assert (batches.age_s(), batches.jitter_s(), batches.fps) == (3.0, None, 1.0)
    uneven = Run(4.0, [0.0, 1.0, 2.0], [1.0, 2.0, 4.0])
    assert uneven.jitter_s() == pytest.approx(0.5)


def test_columns_agree_with_each_other_and_the_aims_with_the_columns() -> None:
    one = bench(2)
    rows: list[dict[str, Any]] = list(pipelined_decode.measure(one, 0.0, 1))
    fps = {row["way"]: row["fps"] for row in rows}
    rival = max(hz for way, hz in fps.items() if way != "pipelined")
    for row in rows:
        assert row["over_static"] == round(row["fps"] / fps["static"], 2)
        assert row["over_best"] == round(row["fps"] / rival, 2)
    found = {"equal": True, "below": 0.0, "below_plain": 0.0, "close": True, "roofline": 0.5}
    aims = judged([row | found for row in rows], "cpu")
    assert str(rows[-1]["over_static"]) in aims[0]["value"]
    assert str(rows[-1]["over_best"]) in aims[1]["value"]
    assert aims[2]["holds"]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("spoilt", [{"equal": False}, {"close": False}])
def test_unequal_tokens_are_a_missed_aim_on_every_device(device: str, spoilt: dict[str, bool]) -> None:
    row = {"way": "pipelined", "K": 7, "prefill": 9, "over_static": 5.0, "over_best": 2.0, "roofline": 0.9}
    good = {"equal": True, "below": 0.0, "below_plain": 0.0, "close": True}
    assert all(aim["holds"] for aim in judged([row | good], device))
    assert not all(aim["holds"] for aim in judged([row | good | spoilt], device))


def test_a_run_without_rows_says_so() -> None:
    [aim] = judged([], "cuda")
    assert not aim["holds"]
