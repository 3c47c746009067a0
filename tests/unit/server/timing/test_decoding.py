"""What a batch takes where its pictures are decoded while the one before it runs."""

from __future__ import annotations

import pytest

from rosa_server.timing.decoding import MAX_THREADS, MIN_RUN_MS, DecodeCost


def test_with_cores_enough_decoding_costs_a_batch_nothing() -> None:
    assert DecodeCost(3.4, cores=8).takes_ms(8, 60.0) == 60.0


def test_with_too_few_batches_come_as_slowly_as_pictures_are_decoded() -> None:
    assert DecodeCost(3.4, cores=1).takes_ms(16, 40.0) == pytest.approx(16 * 3.4)
    assert DecodeCost(3.4, cores=2).takes_ms(16, 20.0) == pytest.approx(16 * 3.4 / 2)
    assert DecodeCost(3.4, cores=64).takes_ms(64, 20.0) == pytest.approx(64 * 3.4 / MAX_THREADS)


def test_a_model_that_needs_the_cores_itself_leaves_fewer_for_pictures() -> None:
    assert DecodeCost(5.0, cores=2, model_cores=1.0).takes_ms(8, 30.0) == pytest.approx((40 + 30) / 2)
    assert DecodeCost(5.0, cores=2, model_cores=2.0).takes_ms(8, 30.0) == pytest.approx((40 + 60) / 2)


def test_a_short_run_is_not_used_for_decoding() -> None:
    cost = DecodeCost(1.0, cores=4)
    assert cost.takes_ms(4, MIN_RUN_MS / 2) == pytest.approx(MIN_RUN_MS / 2 + 1.0)
    assert cost.takes_ms(4, MIN_RUN_MS) == MIN_RUN_MS


def test_one_request_has_one_thread() -> None:
    cost = DecodeCost(3.0, cores=8)
    assert [cost.alone_ms(size) for size in (1, 2, 4, 8)] == [3.0, 3.0, 3.0, 6.0]
    assert DecodeCost(0.1, cores=8).alone_ms(4) == pytest.approx(0.4), "too little to share among threads"
