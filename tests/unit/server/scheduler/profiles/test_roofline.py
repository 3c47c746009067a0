"""Profiles of what nobody has measured. How far they are off: tests/unit/benchmarks/test_roofline.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosa_server.commands.parser import run
from rosa_server.scheduler.profiles.profile import load_profile
from rosa_server.scheduler.profiles.roofline import GPUS, Run, roofline_profile, run_from, service_ms


@given(
    st.integers(1, 64),
    st.floats(1e6, 1e11),
    st.integers(1, 4096),
    st.sampled_from(sorted(GPUS)),
    st.integers(1, 16),
    st.floats(0, 1e7),
)
def test_a_larger_batch_takes_longer_but_no_longer_than_its_requests_apart(
    times: int, parameters: float, tokens: int, gpu: str, batch: int, token_bytes: float
) -> None:
    runs = [Run(times, parameters, tokens, token_bytes)]
    one, together = service_ms(runs, GPUS[gpu]), service_ms(runs, GPUS[gpu], batch)
    assert one <= together <= batch * one * (1 + 1e-9)


def test_bytes_that_tokens_move_count_where_they_take_longest() -> None:
    thor, h100 = GPUS["jetson-agx-thor"], GPUS["h100"]
    plain, moving = run_from("1x2.0e9x800"), run_from("1x2.0e9x800x2.4e6")
    assert moving == Run(1, 2.0e9, 800, 2.4e6) and str(moving).endswith("800 tokens x 2.4e+06 bytes")
    assert service_ms([plain], h100) == service_ms([moving], h100), "its arithmetic takes longer"
    token = service_ms([Run(1, 2.0e9, 1)], thor)
    assert service_ms([Run(1, 2.0e9, 1, 4.0e9)], thor) == pytest.approx(2 * token - 1.0), (
        "as many as the weights"
    )


@pytest.mark.parametrize(
    "text",
    ["", "1x2", "1x2x", "1x1e9x1x", "1x1e9x1x1x1", "0x1e9x1", "1x1e9x0", "1x-1e9x1", "axbxc", "1x1e9x1 "],
)
def test_what_is_no_run_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="TIMESxPARAMETERSxTOKENS"):
        run_from(text)


@pytest.mark.slow
def test_a_profile_says_that_it_is_derived_and_from_what(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["profile", "lab/pi05", "--hardware", "NVIDIA RTX 4090", "--profiles", str(tmp_path)]
    assert run([*words, "--roofline", "1x2.9e9x968", "10x0.3e9x11"]) == 0
    path = tmp_path / "rtx-4090" / "lab--pi05.yaml"
    profile = load_profile(path)
    assert profile.origin == "derived"
    expected = roofline_profile(
        "lab/pi05", "NVIDIA RTX 4090", [Run(1, 2.9e9, 968), Run(10, 0.3e9, 11)], [2, 4, 8]
    )
    assert profile.facts == expected.facts
    assert profile.batch_latency_ms == pytest.approx(expected.batch_latency_ms, rel=1e-4)
    assert "--roofline 1x2.9e9x968 10x0.3e9x11" in profile.command
    assert [one.label for one in profile.configurations] == ["b1", "b<=2", "b<=4", "b<=8"]
    assert {fact.kind for fact in profile.facts} == {"derived", "assumed", "published"}
    assert "wrote" in capsys.readouterr().out
    assert run([*words, "--roofline", "1x2.9e9x968"]) == 2, "it exists already"


def test_a_gpu_or_a_run_that_is_not_known_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["profile", "lab/pi05", "--profiles", str(tmp_path)]
    assert run([*words, "--hardware", "NVIDIA RTX 4080", "--roofline", "1x1e9x1"]) == 2
    assert "no data sheet of 'NVIDIA RTX 4080' (did you mean 'rtx-4090'?)" in capsys.readouterr().err
    assert run([*words, "--hardware", "NVIDIA H100", "--roofline", "1x1e9"]) == 2
    assert (
        "expected TIMESxPARAMETERSxTOKENS[xBYTES], such as 10x0.3e9x51, got '1x1e9'"
        in capsys.readouterr().err
    )
