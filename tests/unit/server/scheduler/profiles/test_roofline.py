"""Profiles of what nobody has measured: how far the roofline is off where somebody has, and what is written down."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosa_server.commands.parser import run
from rosa_server.scheduler.profiles.profile import load_profile
from rosa_server.scheduler.profiles.roofline import GPUS, Run, gpu_of, roofline_profile, run_from, service_ms

OPENVLA = [
    Run(1, 0.73e9, 256),
    Run(1, 6.74e9, 280),
    Run(6, 6.74e9, 1),
]  # eyes, prompt, six tokens after the first
# A frame of the baseline: action and language each see for themselves, ten flow steps, five tokens.
PI05 = [Run(2, 0.41e9, 768), Run(2, 2.0e9, 968), Run(10, 0.3e9, 11), Run(5, 2.5e9, 1)]
GR00T = [Run(1, 2.0e9, 300), Run(4, 1.1e9, 51)]

PUBLISHED = [  # what, runs, GPU, published ms, share by which the roofline is off
    ("ActionFlow Table 1: OpenVLA-7B", OPENVLA, "NVIDIA Jetson AGX Orin", 803.0, 0.02),
    ("ActionFlow Table 1: OpenVLA-7B", OPENVLA, "NVIDIA RTX 5090", 131.2, -0.08),
    ("OxyGen 4.3: pi0.5, 10 actions at 49.9 Hz", PI05, "NVIDIA RTX 4090", 10_000 / 49.9, -0.01),
    ("ROSA 4.3: GR00T-N1.6, saturated", GR00T, "NVIDIA H200", 46.9, -0.77),
    ("GR00T's own table: N1.6, TensorRT", GR00T, "NVIDIA RTX 5090", 31.0, -0.15),
    ("GR00T's own table: N1.6, TensorRT", GR00T, "NVIDIA RTX 4090", 43.0, -0.17),
    ("GR00T's own table: N1.6, TensorRT", GR00T, "NVIDIA Jetson AGX Thor", 92.0, -0.22),
    ("GR00T's own table: N1.6, TensorRT", GR00T, "NVIDIA Jetson AGX Orin", 173.0, -0.21),
    ("GR00T's own table: N1.6, TensorRT", GR00T, "NVIDIA H100", 36.0, -0.67),
]


@pytest.mark.parametrize(("what", "runs", "gpu", "published_ms", "off"), PUBLISHED)
def test_how_far_it_is_from_what_was_published(
    what: str, runs: list[Run], gpu: str, published_ms: float, off: float
) -> None:
    got = service_ms(runs, gpu_of(gpu)) / published_ms - 1
    print(
        f"{what} on {gpu}: {service_ms(runs, gpu_of(gpu)):.0f} ms, published {published_ms:.0f}, {got:+.0%}"
    )
    assert got == pytest.approx(off, abs=0.01)


@given(
    st.integers(1, 64),
    st.floats(1e6, 1e11),
    st.integers(1, 4096),
    st.sampled_from(sorted(GPUS)),
    st.integers(1, 16),
)
def test_a_larger_batch_takes_longer_but_no_longer_than_its_requests_apart(
    times: int, parameters: float, tokens: int, gpu: str, batch: int
) -> None:
    runs = [Run(times, parameters, tokens)]
    one, together = service_ms(runs, GPUS[gpu]), service_ms(runs, GPUS[gpu], batch)
    assert one <= together <= batch * one * (1 + 1e-9)


@pytest.mark.parametrize("text", ["", "1x2", "1x2x", "0x1e9x1", "1x1e9x0", "1x-1e9x1", "axbxc", "1x1e9x1 "])
def test_what_is_no_run_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="TIMESxPARAMETERSxTOKENS"):
        run_from(text)


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
    assert "expected TIMESxPARAMETERSxTOKENS, such as 10x0.3e9x51, got '1x1e9'" in capsys.readouterr().err
