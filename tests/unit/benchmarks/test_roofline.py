"""The limits of the roofline are those of VLA-Perf, and what is said of measured times is so."""

from __future__ import annotations

import json

import pytest

from benchmarks.scheduling.roofline import (
    ACTION,
    LANGUAGE,
    LIMIT,
    RESULT,
    TABLE_3,
    VISION,
    aims_of,
    page_lines,
    pi0,
    published,
    row_of,
    rows,
)
from rosa_server.scheduler.profiles.roofline import PEAKS, gpu_of, memory_mb, service_ms


@pytest.mark.parametrize("hardware", TABLE_3)
def test_limits_of_pi0_agree_with_those_of_somebody_elses_roofline(hardware: str) -> None:
    """VLA-Perf (arXiv 2602.18397), Table 3: what takes longest on each GPU does so here, and the sum is near."""
    parts, whole = TABLE_3[hardware]
    ours = [service_ms([run], gpu_of(hardware), reached=PEAKS) for run in pi0(3, 32, 50)]
    assert sum(ours) == pytest.approx(whole, rel=0.10)
    assert sorted(range(3), key=ours.__getitem__) == sorted(range(3), key=parts.__getitem__)


def test_on_thor_it_is_the_memory_that_limits_and_activations_count() -> None:
    """VLA-Perf, Table 4: every part is bound by memory there, vision too, of which most is not weights."""
    thor = gpu_of("NVIDIA Jetson AGX Thor")
    for network, tokens in ((VISION, 768), (LANGUAGE, 800), (ACTION, 50)):
        run = network.run(1, tokens)
        moved_s = (2 * run.parameters + run.token_bytes * run.tokens) / (thor.gb_s * 1e9)
        assert service_ms([run], thor, reached=PEAKS) == pytest.approx(1e3 * moved_s)
    assert VISION.token_bytes() * 768 > 0.8 * 2 * VISION.parameters


def test_what_does_not_fit_there_does_not_fit_here() -> None:
    """VLA-Perf, Table 5: pi0-XL has no figure on an RTX 4090, pi0-XXL none on Thor."""
    sizes = {one.what.split()[0]: one.runs for one in published() if one.source == "VLA-Perf, Table 5"}
    assert memory_mb(sizes["pi0-L"]) < gpu_of("NVIDIA RTX 4090").memory_mb < memory_mb(sizes["pi0-XL"])
    assert (
        memory_mb(sizes["pi0-XL"]) < gpu_of("NVIDIA Jetson AGX Thor").memory_mb < memory_mb(sizes["pi0-XXL"])
    )


def test_what_is_far_off_is_told() -> None:
    limits, measured = aims_of(rows())
    assert limits["holds"] and not measured["holds"]
    assert "GR00T-N1.6, TensorRT on NVIDIA H100" in measured["value"]


def test_a_limit_is_below_what_was_measured_of_the_same() -> None:
    by_what: dict[tuple[str, str], dict[str, float]] = {}
    for one in published():
        if one.source == "VLA-Perf, Table 1":
            by_what.setdefault((one.what, one.hardware), {})[one.kind] = row_of(one)["predicted_ms"]
    assert len(by_what) == 3
    for told in by_what.values():
        assert told[LIMIT] < told["measured"]


def test_the_result_file_is_what_the_code_says_now() -> None:
    """It is arithmetic: a file that differs was not written again after a change."""
    result = json.loads(RESULT.read_text())
    assert result["rows"] == rows()
    assert result["aims"] == aims_of(rows())
    assert result["command"] == "python -m benchmarks.scheduling.roofline"


def test_the_page_says_the_ratios_of_the_rows() -> None:
    lines = page_lines([{**one, "ratio": 7.0} if "Triton" in one["what"] else one for one in rows()])
    assert any("7.00 to 7.00 for hand-tuned Triton kernels" in one for one in lines)
