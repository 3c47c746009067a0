"""A plan counts what decoding costs where cores do not suffice, and says so; elsewhere nothing changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rosa_contract.config.policies import Policies
from rosa_server.commands.parser import run
from rosa_server.scheduler.choosing.choice import Choice, choose
from rosa_server.scheduler.commands.notes import notes
from rosa_server.scheduler.commands.picture_cost import camera_like, decoding_of
from rosa_server.scheduler.problem import Need, Problem, TaskClass
from rosa_server.scheduler.profiles.decoding import bound_by_decoding, with_decoding
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.profiles.profile import (
    CONTINUOUS,
    STATIC,
    CameraDecoding,
    Decoding,
    Profile,
    load_profile,
    save_profile,
)
from rosa_server.scheduler.search.solve import solve
from tests.unit.server.scheduler.engines import configuration

BATCH, MODEL_MS = 8, 20.0
CAMERA = CameraDecoding("front", 480, 640, 3.4)
TWO_CORES, MANY = Decoding((CAMERA, CAMERA), 2.0), Decoding((CAMERA, CAMERA), 16.0)
TAKES_MS = BATCH * 2 * 3.4 / 2


def profile(decoding: Decoding, batching: str = STATIC) -> Profile:
    one = configuration("", batching, BATCH, 1000 * BATCH / MODEL_MS, MODEL_MS)
    one = replace(one, service=(replace(one.service[0], size=BATCH),))
    return Profile(1, "slow", "cpu", "measured", 100.0, 16_000.0, (one,), decoding=decoding)


def problem(robots: int = 32) -> Problem:
    need = Need("system1", "slow", 500.0, calls_per_action=1.0)
    return Problem(1, "cpu", (TaskClass("pick", robots, 0.01, (need,)),))


def chosen(decoding: Decoding) -> Choice:
    return choose(problem(), ProfileLibrary(profiles=[profile(decoding)]), Options(), Policies())


def test_batches_take_as_long_as_their_pictures_where_cores_are_few() -> None:
    [slow] = with_decoding(profile(TWO_CORES)).configurations
    [plain] = profile(TWO_CORES).configurations
    assert slow.service[0].ms == pytest.approx(TAKES_MS)
    assert slow.max_throughput_hz == pytest.approx(1000 * BATCH / TAKES_MS)
    assert slow.latency[-1].rate_hz == pytest.approx(slow.max_throughput_hz)
    factor = TAKES_MS / MODEL_MS
    assert slow.latency[-1].p99_ms == pytest.approx(plain.latency[-1].p99_ms * factor + TAKES_MS)
    assert slow.latency[0].p99_ms == pytest.approx(plain.latency[0].p99_ms * factor + 6.8), "alone"


def test_with_cores_enough_only_the_call_itself_waits_for_its_pictures() -> None:
    [slow] = with_decoding(profile(MANY)).configurations
    [plain] = profile(MANY).configurations
    assert slow.service == plain.service and slow.max_throughput_hz == plain.max_throughput_hz
    assert slow.latency[0].mean_ms == pytest.approx(plain.latency[0].mean_ms + 6.8)


def test_calls_that_run_beside_each_other_share_the_cores() -> None:
    [slow] = with_decoding(profile(TWO_CORES, CONTINUOUS)).configurations
    assert slow.service[0].ms == pytest.approx(TAKES_MS)


def test_nothing_changes_where_nothing_is_known_and_nothing_is_counted_twice() -> None:
    blind = profile(Decoding())
    assert with_decoding(blind) is blind
    once = with_decoding(profile(TWO_CORES))
    assert with_decoding(once) is once


def test_a_schedule_promises_what_pictures_allow_and_says_that_they_bind() -> None:
    library = ProfileLibrary(profiles=[profile(TWO_CORES)])
    blind = ProfileLibrary(profiles=[profile(Decoding())])
    bound, free = (solve(problem(), each, Options()) for each in (library, blind))
    assert bound.action_throughput_hz < free.action_throughput_hz
    [line] = [line for line in notes(bound, problem(), library, 0.0) if "Decoding binds" in line]
    assert "slow runs 8 requests in 20 ms" in line and "2 cores busy for 27 ms" in line
    assert not any("Decoding binds" in line for line in notes(free, problem(), blind, 0.0))
    many = ProfileLibrary(profiles=[profile(MANY)])
    assert not any(
        "Decoding" in line for line in notes(solve(problem(), many, Options()), problem(), many, 0.0)
    )
    assert bound_by_decoding(profile(MANY), STATIC, BATCH) is None


@pytest.mark.slow
def test_what_is_played_through_has_the_same_limit() -> None:
    """The prediction carries the schedule out with the real serving core: full, it is as fast as pictures are."""
    bound, enough, free = (chosen(one).prediction.throughput_hz for one in (TWO_CORES, MANY, Decoding()))
    assert bound == pytest.approx(1000 * BATCH / TAKES_MS, rel=0.06)
    assert enough == pytest.approx(free, rel=0.03), "what is decoded meanwhile costs no throughput"
    assert bound < 0.8 * free


def test_it_stays_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "slow.yaml"
    save_profile(profile(TWO_CORES), path)
    assert load_profile(path).decoding == TWO_CORES


def test_each_size_is_measured_once_on_every_thread_that_decodes() -> None:
    now = iter(range(10**6))

    def clock() -> float:
        return next(now) / 1000

    sizes = {"front": (48, 64), "wrist": (48, 64), "top": (24, 32)}
    found = decoding_of(sizes, model_cores=0.5, cores=1, clock=clock)
    assert [(one.camera, one.height, one.width, round(one.ms, 6)) for one in found.cameras] == [
        ("front", 48, 64, 1.0),
        ("wrist", 48, 64, 1.0),
        ("top", 24, 32, 1.0),
    ]
    assert next(now) == 2 * 9 * 2, "two sizes, nine times each"
    assert (found.cores, found.model_cores) == (1, 0.5)
    assert all(one.ms > 0 for one in decoding_of({"front": (48, 64)}, 0.0, 2).cameras)


def test_a_picture_of_a_usual_size_makes_a_jpeg_of_a_usual_size() -> None:
    from rosa_contract.wire.images import encode_image

    assert 40_000 < len(encode_image(camera_like(480, 640)).data) < 90_000


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    return [
        *("profile", "test/model", "--backend", "emulated", "--option", "latency_ms=0.2"),
        *("--option", "images={front: [24, 32]}", "--batches", "1", "--requests", "50"),
        *("--profiles", str(tmp_path), "--again"),
    ]


def test_rosa_profile_measures_it_and_can_be_told_the_machine(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rosa_server.scheduler.profiles.measure.STEADY", float("inf"))
    assert run([*words, "--decode-cores", "3", "--picture", "64x48"]) == 0
    found = load_profile(tmp_path / "cpu" / "test--model.yaml").decoding
    [camera] = found.cameras
    assert (camera.camera, camera.height, camera.width, found.cores) == ("front", 48, 64, 3.0)
    assert camera.ms > 0
    assert run([*words, "--decode-cores", "0"]) == 0
    assert load_profile(tmp_path / "cpu" / "test--model.yaml").decoding == Decoding()


@pytest.mark.parametrize("wrong", [["--picture", "640"], ["--picture", "0x480"], ["--decode-cores", "-1"]])
def test_wrong_sizes_are_refused(
    words: list[str], wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, *wrong]) == 2
    assert wrong[0] in capsys.readouterr().err
