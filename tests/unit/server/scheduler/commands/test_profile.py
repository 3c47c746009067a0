"""`rosa profile`, as an engineer uses it who brings a model."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

from rosa_server.commands.parser import run
from rosa_server.scheduler.commands import profile as cli_profile
from rosa_server.scheduler.profiles import measure
from rosa_server.scheduler.profiles.measure import UnsteadyMachine
from rosa_server.scheduler.profiles.profile import load_profile
from tests.unit.server.scheduler.factories import CONFIGS

FIGURE_3 = str(CONFIGS / "factory.yaml")


def rosa(*words: str) -> int:
    return run(words)


@pytest.mark.slow
def test_profile_writes_a_file_that_plan_can_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "STEADY", inf)  # how busy this machine is, is not what is tested
    words = ["profile", "test/model", "--backend", "emulated", "--option", "latency_ms=0.2", "--batches", "2"]
    words += ["--requests", "50", "--profiles", str(tmp_path), "--plot"]
    assert rosa(*words) == 0
    path = tmp_path / "cpu" / "test--model.yaml"
    profile = load_profile(path)
    assert profile.origin == "emulated", "its latency is what it was told"
    assert {fact.kind for fact in profile.facts} <= {"assumed", "derived"}
    assert [c.label for c in profile.configurations] == ["b1", "b2", "b<=2"]
    latency = next(fact for fact in profile.facts if fact.name == "latency under load")
    assert "50 Poisson arrivals at each rate" in latency.source
    assert "practically their maximum" in latency.source
    assert path.with_suffix(".png").exists()
    assert not path.with_suffix(".partial.json").exists()
    assert rosa("profile", "test/model", "--profiles", str(tmp_path)) == 2
    assert "--again" in capsys.readouterr().err


def test_a_model_of_several_components_is_profiled_for_each_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "STEADY", inf)
    words = ["profile", "test/model", "--backend", "emulated", "--batches", "1", "--requests", "50", "--only"]
    words += ["--profiles", str(tmp_path)]
    for component, latency_ms in (("system1", 0.4), ("safety", 0.1), ("system1", 0.8)):
        own = ["--component", component, "--option", f"latency_ms={latency_ms}", "--again"]
        assert rosa(*words, *own) == 0
    profile = load_profile(next(tmp_path.glob("cpu/**/*.yaml")))
    assert profile.components == ("safety", "system1")
    (slow,), (quick,) = (profile.configurations_for(name) for name in ("system1", "safety"))
    assert slow.max_throughput_hz < quick.max_throughput_hz
    assert profile.configurations_for("monitor") == (), "nothing was measured for it"


def test_profile_on_a_busy_machine_says_so_and_keeps_what_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never_steady(*_: object) -> None:
        raise UnsteadyMachine("static batch 1: the machine was not steady")

    monkeypatch.setattr(cli_profile, "measure_batching", never_steady)
    words = ["profile", "test/model", "--backend", "null", "--profiles", str(tmp_path)]
    assert rosa(*words) == cli_profile.UNSTEADY
    assert "rosa profile test/model: static batch 1: the machine was not steady" in capsys.readouterr().err
    assert not list(tmp_path.glob("cpu/*.yaml")), "no profile of two different machines"


def test_profile_explains_wrong_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, expected in (
        (["--requests", "5", "--backend", "null"], "at least 50"),
        ([], "--factory FILE or --backend NAME"),
        (["--backend", "null", "--option", "oops"], "NAME=VALUE"),
        (["--backend", "null", "--batches", "two"], "numbers such as"),
        (["--hardware", "h100", "--roofline", "1x3e9x100", "--batches", "0"], "numbers such as"),
        (["--hardware", "h100", "--roofline", "1x3e9x100", "--batches=-2,4"], "numbers such as"),
        (["--backend", "null", "--picture", "²x4"], "a size such as"),
        (["--factory", FIGURE_3], "no entry for 'test/model'"),
    ):
        assert rosa("profile", "test/model", "--profiles", str(tmp_path), *words) == 2
        assert expected in capsys.readouterr().err


@pytest.mark.slow
def test_a_profile_that_could_not_be_read_is_not_written_over_one_that_can(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["profile", "m", "--hardware", "NVIDIA RTX 4090", "--profiles", str(tmp_path), "--batches", "1"]
    path = tmp_path / "rtx-4090" / "m.yaml"
    assert rosa(*words, "--roofline", "1x30e9x100") == 2
    printed = capsys.readouterr()
    assert "memory_mb: 78000 MB do not fit 24000 MB" in printed.err and not printed.out
    assert not path.exists()
    assert rosa(*words, "--roofline", "1x3e9x100") == 0
    good = path.read_text()
    assert rosa(*words, "--roofline", "1x30e9x100", "--again") == 2
    assert path.read_text() == good


@pytest.mark.parametrize("memory_mb", ["0", "-1", "nan", "0.5"])
def test_memory_that_cannot_be_meant_is_refused_before_anything_is_measured(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    memory_mb: str,
) -> None:
    monkeypatch.setattr(cli_profile, "measure_batching", None)
    words = ["profile", "m", "--backend", "null", "--profiles", str(tmp_path)]
    assert rosa(*words, f"--hardware-memory-mb={memory_mb}") == 2
    assert "--hardware-memory-mb" in capsys.readouterr().err
    assert not list(tmp_path.glob("cpu/*.yaml"))


@pytest.mark.parametrize("picture", ["curve.xyz", "no/such/folder/curve.png"])
def test_a_picture_that_cannot_be_drawn_is_refused_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], picture: str
) -> None:
    words = ["profile", "m", "--hardware", "NVIDIA RTX 4090", "--profiles", str(tmp_path), "--batches", "1"]
    assert rosa(*words, "--roofline", "1x3e9x100", "--plot", str(tmp_path / picture)) == 2
    assert "--plot" in capsys.readouterr().err
    assert not list(tmp_path.glob("*/*.yaml"))


def test_a_measurement_goes_on_only_with_what_was_measured_in_the_same_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise UnsteadyMachine("stopped")

    seen: list[measure.Progress] = []

    def looked_at(*given: object) -> None:
        seen.extend(one for one in given if isinstance(one, measure.Progress))
        stopped()

    monkeypatch.setattr(measure, "STEADY", inf)
    monkeypatch.setattr(cli_profile, "_progress", stopped)
    words = ["profile", "m", "--backend", "emulated", "--batches", "1", "--profiles", str(tmp_path)]
    first = ["--option", "latency_ms=0.2", "--requests", "50"]
    assert rosa(*words, *first) == cli_profile.UNSTEADY, "it has measured one rate"
    monkeypatch.setattr(cli_profile, "measure_batching", looked_at)
    assert rosa(*words, *first) == cli_profile.UNSTEADY
    assert seen.pop().service_ms, "it goes on"
    for other in (
        ["--option", "latency_ms=2", "--requests", "50"],
        ["--option", "latency_ms=0.2", "--requests", "60"],
        [*first, "--component", "monitor"],
        [*first, "--cpu-time"],
    ):
        assert rosa(*words, *other) == cli_profile.UNSTEADY
        assert not seen.pop().service_ms, other


@pytest.mark.slow
def test_what_was_derived_for_one_component_stays_and_stays_derived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["profile", "m", "--hardware", "h100", "--profiles", str(tmp_path), "--batches", "1", "--only"]
    path = tmp_path / "h100" / "m.yaml"
    for component, runs in (("system1", "1x3e9x100"), ("safety", "1x1e9x100")):
        assert rosa(*words, "--component", component, "--roofline", runs, "--again") == 0
    first = load_profile(path)
    slow, quick = (first.configurations_for(name)[0].max_throughput_hz for name in ("system1", "safety"))
    assert slow < quick
    monkeypatch.setattr(measure, "STEADY", inf)
    monkeypatch.setattr(cli_profile, "STAND_INS", ())  # as if it were a real model
    measuring = ["--backend", "emulated", "--option", "latency_ms=0.2", "--requests", "50", "--again"]
    assert rosa(*words, "--component", "safety", *measuring) == 0
    second = load_profile(path)
    assert second.configurations_for("system1") == first.configurations_for("system1")
    assert second.configurations_for("safety") != first.configurations_for("safety")
    assert second.origin == "derived", "a part of it is"
    assert rosa(*words, "--component", "system1", *measuring) == 0
    assert load_profile(path).origin == "derived", "nobody knows what of it is"
    path.unlink()
    assert rosa(*words, "--component", "safety", *measuring) == 0
    assert load_profile(path).origin == "measured"
