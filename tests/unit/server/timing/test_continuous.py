"""Calls that run at the same time get on the slower the more there are."""

from __future__ import annotations

import threading
import time
from math import inf

import pytest

from rosa_server.models.backend import ModelInput
from rosa_server.models.emulated import EmulatedBackend
from rosa_server.timing.continuous import Shared


def shared() -> Shared[str]:
    return Shared(lambda size: 1.0 + size)  # alone 2 s, two 3 s


def test_alone_it_takes_the_time_of_one() -> None:
    gpu = shared()
    gpu.begin(10.0, "a")
    assert gpu.next_s == pytest.approx(12.0)
    assert gpu.end(12.0) == ("a", 10.0)
    assert gpu.next_s == inf and not gpu


def test_two_that_begin_together_end_together_after_the_time_of_two() -> None:
    gpu = shared()
    gpu.begin(0.0, "a")
    gpu.begin(0.0, "b")
    assert gpu.next_s == pytest.approx(3.0)
    gpu.end(3.0)
    assert gpu.next_s == pytest.approx(3.0)


def test_one_that_comes_in_the_middle_slows_the_first_from_then_on() -> None:
    gpu = shared()
    gpu.begin(0.0, "a")
    gpu.begin(1.0, "b")  # a has half of its way left: 1.5 s of three
    assert gpu.next_s == pytest.approx(2.5)
    assert gpu.end(2.5)[0] == "a"
    assert gpu.next_s == pytest.approx(3.5)  # b has made half of its way; the rest alone takes 1 s


def test_who_goes_on_alone_after_another_was_dropped_gets_on_the_faster() -> None:
    running = shared()
    running.begin(0.0, "a")
    running.begin(0.0, "b")
    assert running.drop(1.5, "a"), "half of both is done"
    assert not running.drop(1.5, "a")
    assert list(running) == ["b"]
    assert running.next_s == pytest.approx(2.5), "the other half of b alone, 1 s"


def test_calls_of_two_components_run_beside_each_other_each_by_its_own_times() -> None:
    gpu = shared()
    gpu.begin(0.0, "plan", service_s=lambda size: 4.0 * size)
    gpu.begin(0.0, "verdict", service_s=lambda size: 1.0 * size)
    assert gpu.next_s == pytest.approx(2.0)
    assert gpu.end(2.0)[0] == "verdict"
    assert gpu.next_s == pytest.approx(2.0 + 3.0), "a quarter of its way is made; alone the rest takes 3 s"


def with_prompts() -> Shared[str]:
    """Alone 3 s, two together 5 s; of that 1 s each is the prompt."""
    return Shared(lambda size: 1.0 + 2.0 * size, prefill_s=1.0)


def test_a_prompt_is_a_part_of_the_time_alone_and_together() -> None:
    gpu = with_prompts()
    gpu.begin(0.0, "a")
    assert gpu.next_s == pytest.approx(3.0)
    gpu.begin(0.0, "b")
    assert gpu.next_s == pytest.approx(5.0), "two prompts, then both decode for 3 s"


def test_who_runs_already_waits_for_the_prompt_of_a_new_call() -> None:
    gpu = with_prompts()
    gpu.begin(0.0, "a")
    gpu.begin(2.0, "b")  # a has decoded half; its other half takes 1.5 s beside b, once b's prompt is done
    assert gpu.next_s == pytest.approx(2.0 + 1.0 + 1.5)
    assert gpu.end(4.5)[0] == "a"
    assert gpu.next_s == pytest.approx(4.5 + 1.0), "b has decoded half"


def test_prompts_are_done_one_after_another() -> None:
    gpu = with_prompts()
    gpu.begin(0.0, "a")
    gpu.begin(0.5, "b")
    assert gpu.drop(1.5, "b"), "half of its prompt is done"
    assert gpu.next_s == pytest.approx(1.5 + 2.0), "nothing of a's decoding"


def test_a_steady_number_of_calls_takes_what_a_batch_of_them_takes() -> None:
    gpu: Shared[int] = Shared(lambda size: 1.0 + 2.0 * size, prefill_s=1.0)
    for number in range(2):
        gpu.begin(2.5 * number, number)
    took = []
    for number in range(2, 40):
        now_s = gpu.next_s
        took.append(now_s - gpu.end(now_s)[1])
        gpu.begin(now_s, number)
    assert took[-1] == pytest.approx(5.0)


def test_a_short_call_beside_long_ones_takes_its_own_time_and_delays_them_by_its_prompt() -> None:
    def plans() -> Shared[str]:
        gpu: Shared[str] = Shared(lambda size: 20.0 + size, prefill_s=1.0)
        for number in range(4):
            gpu.begin(0.0, f"plan {number}")
        return gpu

    alone_s = plans().next_s
    gpu = plans()
    gpu.begin(10.0, "verdict", service_s=lambda size: 1.0 + size, prefill_s=1.0)
    assert gpu.next_s == pytest.approx(12.0), "a prompt and a second of decoding, whatever runs beside it"
    gpu.end(gpu.next_s)
    assert gpu.next_s == pytest.approx(alone_s + 1.0)


def test_an_emulated_model_runs_calls_of_several_threads_at_a_time() -> None:
    model = EmulatedBackend(latency_ms=60, per_item_ms=20, at_once=4)
    begun_s = time.perf_counter()
    threads = [threading.Thread(target=model.infer, args=([ModelInput("system2")],)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert time.perf_counter() - begun_s >= 0.1, "four together are slower than one alone"
