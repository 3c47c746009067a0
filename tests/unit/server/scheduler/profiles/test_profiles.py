"""Profiles: strict files, latency that never falls with load, nothing beyond what was measured."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rosa_contract.errors import ConfigError
from rosa_server.scheduler.problem import Need, Problem, TaskClass
from rosa_server.scheduler.profiles.library import DEFAULT_ROOT, ProfileLibrary, file_name, hardware_folder
from rosa_server.scheduler.profiles.profile import (
    CONTINUOUS,
    EVEN,
    FULL,
    IN_TURN,
    STATISTICS,
    load_profile,
    profile_from,
    save_profile,
)
from rosa_server.scheduler.profiles.queueing import batch_latencies_ms, closed_loop_latencies_ms
from rosa_server.scheduler.search.solve import solve
from scripts.h200.system1 import interpolated, system1_service_ms
from scripts.h200.vlm import plan_tokens
from tests.unit.server.scheduler.factories import BIG, CONFIGS, GR00T, LIBRARY, SMALL

H200 = "NVIDIA H200"


def test_every_shipped_profile_says_where_its_numbers_come_from() -> None:
    for model in (GR00T, BIG, SMALL):
        profile = LIBRARY.get(model, H200)
        assert profile.origin == "derived"
        assert profile.command
        assert {fact.kind for fact in profile.facts} <= {"measured", "published", "derived", "assumed"}
        assert len(profile.facts) >= 5
        for configuration in profile.configurations:
            assert len(configuration.latency) == 10
            assert configuration.latency[-1].rate_hz == pytest.approx(
                configuration.max_throughput_hz, rel=1e-3
            )


@pytest.mark.parametrize("path", sorted((CONFIGS / "profiles").glob("*/*.yaml")), ids=lambda path: path.stem)
def test_every_number_of_a_shipped_profile_has_a_fact_and_none_a_comment(path: Path) -> None:
    profile = load_profile(path)
    facts = {fact.name: fact for fact in profile.facts}
    assert facts["memory"].value == f"{profile.memory_mb:g} MB"
    of_hardware = facts.get("memory of the hardware") or facts["memory of the GPU"]
    assert of_hardware.value == f"{profile.hardware_memory_mb:.0f} MB"
    assert "latency under load" in facts
    assert "#" not in path.read_text(), "a comment is lost when the file is written anew"
    together = [one.batch for one in profile.configurations if one.batching == "continuous"]
    if together:
        assert facts["running requests"].value == f"{max(together)} at most"


def test_a_number_that_was_chosen_is_not_called_published() -> None:
    [batch_16] = [fact for fact in LIBRARY.get(GR00T, H200).facts if fact.name == "one run, batch 16"]
    assert batch_16.kind == "derived"
    assert "fitted" in batch_16.source


@given(st.floats(0, 200), st.floats(0, 200), st.sampled_from(STATISTICS), st.integers(0, 8))
def test_latency_never_falls_as_the_rate_rises(a: float, b: float, statistic: str, index: int) -> None:
    configuration = LIBRARY.get(GR00T, H200).configurations[index]
    low, high = sorted((a, b))
    assert configuration.latency_ms(statistic, low) <= configuration.latency_ms(statistic, high)


def test_a_measurement_that_dips_is_not_believed() -> None:
    configuration = LIBRARY.get(GR00T, H200).configurations[0]
    points = list(configuration.latency)
    points[5] = replace(points[5], p99_ms=points[5].p95_ms)  # lower than at the rates before it
    noisy = replace(configuration, latency=tuple(points))
    assert noisy.latency_ms("p99", points[5].rate_hz) == points[4].p99_ms


@given(st.floats(1, 5000), st.integers(0, 8))
def test_capacity_is_where_latency_meets_the_limit(limit_ms: float, index: int) -> None:
    configuration = LIBRARY.get(GR00T, H200).configurations[index]
    capacity = configuration.capacity_hz("p99", limit_ms)
    if capacity > 0:
        assert configuration.latency_ms("p99", capacity) <= limit_ms * (1 + 1e-9)
    assert (
        configuration.latency_ms("p99", capacity * 1.01 + 0.01) > limit_ms
        or capacity == configuration.latency[-1].rate_hz
    )


def test_beyond_the_measured_range_nothing_is_promised() -> None:
    configuration = LIBRARY.get(GR00T, H200).configurations[0]
    assert configuration.latency_ms("p99", configuration.latency[-1].rate_hz + 0.1) == inf
    assert configuration.capacity_hz("p99", 1e9) == configuration.latency[-1].rate_hz


def test_a_profile_survives_saving(tmp_path: Path) -> None:
    profile = LIBRARY.get(SMALL, H200)
    save_profile(profile, tmp_path / "p.yaml")
    again = load_profile(tmp_path / "p.yaml")
    assert again.model == profile.model
    assert again.configurations[0].latency == profile.configurations[0].latency


def test_mistakes_in_a_file_are_all_named() -> None:
    text = LIBRARY.path(SMALL, H200).read_text()
    document = yaml.safe_load(text)
    document["origin"] = "guessed"
    document["configurations"][0]["latency"][0]["p99_ms"] = -1
    document["configurations"][0]["prefix_share"] = 1.5  # would make servers gain capacity by being asked
    document["memorymb"] = 3
    with pytest.raises(ConfigError) as caught:
        profile_from(document, "bad.yaml")
    words = str(caught.value)
    assert "origin: must be one of measured, derived" in words
    assert "latency[0].p99_ms: must be > 0" in words
    assert "configurations[0].prefix_share: must be <= 1, got 1.5" in words
    assert "did you mean 'memory_mb'" in words


def test_rates_out_of_order_are_refused() -> None:
    document = yaml.safe_load(LIBRARY.path(SMALL, H200).read_text())
    document["configurations"][0]["latency"].reverse()
    with pytest.raises(ConfigError, match="rate_hz must rise"):
        profile_from(document, "bad.yaml")


def test_service_times_that_nothing_can_be_carried_out_with_are_refused() -> None:
    document = yaml.safe_load(LIBRARY.path(SMALL, H200).read_text())
    first = document["configurations"][0]
    first["prefill_ms"] = 2 * first["service"][0]["ms"]
    with pytest.raises(
        ConfigError, match=r"configurations\[0\]\.prefill_ms: .* is more than a request alone takes"
    ):
        profile_from(document, "bad.yaml")
    del first["service"]
    with pytest.raises(ConfigError, match=r"configurations\[0\]\.service: is empty"):
        profile_from(document, "bad.yaml")


def test_a_missing_profile_says_what_there_is_and_how_to_make_one() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'nvidia/GR00T-N1\.6-3B'.*rosa profile"):
        ProfileLibrary().get("nvidia/GR00T-N1.5-3B", H200)
    with pytest.raises(ConfigError, match="no profiles for gpu_type 'NVIDIA H100'; profiled: cpu, h200"):
        ProfileLibrary().get(GR00T, "NVIDIA H100")
    with pytest.raises(ConfigError, match=r"gpu_type 'NVIDIA HI200' \(did you mean 'h200'\?\)"):
        ProfileLibrary().get(GR00T, "NVIDIA HI200")


def test_profiles_of_ones_own_stand_beside_the_shipped_ones(tmp_path: Path) -> None:
    own = replace(LIBRARY.get(SMALL, H200), model="lab/mine")
    quick = replace(LIBRARY.get(GR00T, H200), memory_mb=1.0)
    for profile in (own, quick):
        path = ProfileLibrary(tmp_path).path(profile.model, H200)
        path.parent.mkdir(exist_ok=True)
        save_profile(profile, path)
    both = ProfileLibrary(tmp_path, beside=DEFAULT_ROOT)
    assert both.get("lab/mine", H200) == own
    assert both.get(SMALL, H200) == LIBRARY.get(SMALL, H200)
    assert both.get(GR00T, H200).memory_mb == 1.0, "one's own comes first"
    assert both.path("lab/other", H200).is_relative_to(tmp_path), "new ones are written there"
    with pytest.raises(ConfigError, match=r"profiled there: .*Qwen.*lab/mine"):
        both.get("lab/other", H200)
    with pytest.raises(ConfigError):
        ProfileLibrary(tmp_path).get(SMALL, H200)


def test_names_become_safe_files() -> None:
    assert hardware_folder("NVIDIA H200") == "h200"
    assert file_name("../../etc/passwd") == "..--..--etc--passwd.yaml"


def test_the_derived_service_times_reproduce_the_published_points() -> None:
    table, plan_ms = system1_service_ms()
    one_gpu_per_model_hz = 2 / (0.2 + table[1] / 1000 + plan_ms / 10_000)
    assert one_gpu_per_model_hz == pytest.approx(7.4, rel=0.01)  # ROSA 4.2
    assert table[16] / 16 == pytest.approx(table[1] / 4)  # ROSA Figure 13
    assert [table[b] / b for b in (1, 2, 4, 8, 16)] == sorted((table[b] / b for b in table), reverse=True)
    assert 20 < plan_tokens(BIG) < 60
    assert table[2] < interpolated(table)(3) < table[4]


def test_a_saturated_closed_loop_has_the_published_median() -> None:
    # ROSA 4.3: 32 robots on two System 1 servers at batch one: median 534.5 ms. 16 robots share a server.
    table, plan_ms = system1_service_ms()
    latencies = closed_loop_latencies_ms([200 + plan_ms / 10] * 16, 1, lambda _: table[1], 0.03, 60, seed=1)
    assert np.median(latencies[len(latencies) // 3 :]) == pytest.approx(534.5, rel=0.05)


def test_a_lightly_loaded_worker_adds_nothing_to_its_service_time() -> None:
    latencies = batch_latencies_ms(0.1, 1, lambda _: 50.0, 0.0, 500, seed=1)
    assert np.median(latencies) == pytest.approx(50.0)
    assert min(latencies) == pytest.approx(50.0)


def test_components_of_one_model_have_their_own_configurations() -> None:
    profile = LIBRARY.get(BIG, H200)
    assert profile.configurations_for("system2")[0].components == ("system2",)
    anyone = replace(profile, configurations=tuple(replace(c, components=()) for c in profile.configurations))
    assert len(anyone.configurations_for("monitor")) == 2


def test_a_component_that_was_not_profiled_gets_no_other_ones_profile() -> None:
    needs = (Need("system1", GR00T, 200.0, calls_per_action=1.0), Need("safety", BIG, 500.0, freq_hz=1.0))
    words = (
        f"no profile of '{BIG}' for 'safety'; profiled there: monitor, system2; make one with `rosa profile`"
    )
    with pytest.raises(ConfigError, match=words):
        solve(Problem(8, H200, (TaskClass("kit", 2, 0.2, needs),)), LIBRARY)


def test_a_folder_without_a_profile_is_no_hardware_that_was_meant(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "mine.partial.json").write_text("{}")
    with pytest.raises(ConfigError) as caught:
        ProfileLibrary(tmp_path).get("mine", "cpu")
    assert "no profiles for gpu_type 'cpu'; profiled: nothing" in str(caught.value)


@pytest.mark.parametrize("model", [GR00T, BIG, SMALL])
@pytest.mark.parametrize("statistic", [EVEN, FULL])
def test_calls_that_come_evenly_take_what_those_at_a_time_take(model: str, statistic: str) -> None:
    share, spare = IN_TURN[statistic]
    for one in LIBRARY.get(model, H200).configurations:
        times = {each.size: each.ms for each in one.service}
        first = min(times) if one.batching == CONTINUOUS else one.batch
        alone_ms = spare * times[first]
        assert one.latency_ms(statistic, 0.0) == pytest.approx(alone_ms)
        assert one.capacity_hz(statistic, 0.99 * alone_ms) == 0.0
        rate_hz = one.capacity_hz(statistic, 1.01 * alone_ms)
        assert rate_hz > 0 and one.latency_ms(statistic, rate_hz) <= 1.01 * alone_ms * (1 + 1e-9)
        most_hz = one.capacity_hz(statistic, inf)
        assert most_hz <= share * 1000 * max(size / ms for size, ms in times.items()) * (1 + 1e-9)
        assert most_hz <= one.latency[-1].rate_hz, "beyond it nothing is known"
        assert one.latency_ms(statistic, 1.01 * most_hz) == inf


def test_without_service_times_calls_that_come_evenly_take_the_median() -> None:
    one = replace(LIBRARY.get(BIG, H200).configurations[0], service=())
    rate_hz = one.latency[3].rate_hz
    assert one.latency_ms(EVEN, rate_hz) == one.latency_ms("p50", rate_hz)
