"""Every parser keeps its promise on its corpus, and the search would notice one that does not."""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.images import encode_image
from rosa_sim.fuzz import coverage, hours, parsers
from rosa_sim.fuzz.parsers import PARSERS, corpus, framed, save_corpus, unframed

PICTURE = np.arange(17 * 9 * 3, dtype=np.uint32).reshape(17, 9, 3).astype(np.uint8)


@pytest.mark.parametrize("parser", PARSERS)
def test_each_promise_holds_for_all_that_was_ever_found(parser: str) -> None:
    inputs = corpus(parser)
    assert inputs
    for content in inputs:
        PARSERS[parser](content)


@pytest.mark.parametrize("parser", PARSERS)
def test_no_noise_breaks_a_promise(parser: str) -> None:
    for content in (b"", b"\0", b"\xff" * 100, b"\x00\x02ab", b"[" * 1000, b"&a [*a, *a]", bytes(range(256))):
        PARSERS[parser](content)


@pytest.mark.parametrize(
    ("parser", "part"),
    [
        ("message", "codec.decode"),
        ("robot_message", "codec.read_robot_header"),
        ("output", "codec.decode_output"),
        ("png", "decode_image"),
        ("png_rows", "decode_image"),
        ("jpeg", "decode_image"),
        ("factory_file", "factory_from"),
        ("robot_file", "robot_from"),
        ("profile_file", "profile_from"),
        ("schedule_file", "parse_schedule"),
        ("key_file", "read_keys"),
        ("openpi_client", "unpack"),
        ("gr00t_client", "gr00t_words.asked"),
        ("zmtp", "Peer.receive"),
    ],
)
def test_another_exception_than_the_promised_one_is_noticed(
    monkeypatch: pytest.MonkeyPatch, parser: str, part: str
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("an internal error")

    monkeypatch.setattr(f"rosa_sim.fuzz.parsers.{part}", broken)
    with pytest.raises(KeyError, match="an internal error"):
        PARSERS[parser](corpus(parser)[-1])


def test_a_library_that_writes_and_a_picture_that_differs_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import os

    real = parsers.decode_image

    def loud(image: parsers.EncodedImage) -> object:
        os.write(2, b"libpng warning: iCCP")
        return real(image)

    monkeypatch.setattr(parsers, "decode_image", loud)
    with pytest.raises(AssertionError, match="libpng warning"):
        PARSERS["png"](bytes(encode_image(PICTURE, "png").data))
    monkeypatch.setattr(parsers, "decode_image", lambda image: real(image)[::-1])
    with pytest.raises(AssertionError, match="another picture"):
        PARSERS["jpeg"](bytes(encode_image(PICTURE, "jpeg").data))


def test_frames_survive_the_way_into_a_corpus_and_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for message in (m.Bye(), m.Hello("r1", "pick", {}, {}), m.Cancel(7)):
        frames = [bytes(frame) for frame in codec.encode(message)]
        assert framed(unframed(frames)) == frames, "with the same checksum"
    monkeypatch.setattr(parsers, "CORPUS", tmp_path / "corpus")
    save_corpus("png", [b"longer", b"one", b"one"])
    assert corpus("png") == [b"one", b"longer"]


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None, reason="needs atheris (requirements/dev.txt)"
)
def test_the_search_runs_and_reaches_more_than_one_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coverage, "WORK", tmp_path)
    found = coverage.search("output", seconds=1)
    assert found.broken == "" and found.runs > 100 and found.features > 20


def test_without_atheris_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert coverage.main(["--seconds", "1"]) == 2
    assert "pip install atheris" in capsys.readouterr().err


def test_searches_add_up_until_each_parser_had_its_hour() -> None:
    def searched(parser: str, cpu_s: float, broken: str = "") -> hours.CoverageResult:
        return hours.CoverageResult(parser, 10, cpu_s, 7, broken, "")

    one = hours.added({}, searched("png", 3000.0), ["png", "jpeg"])
    two = hours.added(one, searched("png", 700.0), ["png", "jpeg"])
    assert [(row["parser"], row["inputs"], row["cpu_s"]) for row in two["rows"]] == [("png", 20, 3700.0)]
    assert [(aim["value"], aim["holds"]) for aim in two["aims"]] == [("1 of 2, not jpeg", False), (0, True)]
    three = hours.added(two, searched("jpeg", hours.AIM_S), ["png", "jpeg"])
    assert three["aims"][0]["holds"]
    broken = hours.added(three, searched("jpeg", 1.0, "crash"), ["png", "jpeg"])
    assert not broken["aims"][1]["holds"]
    assert [row["parser"] for row in hours.added(broken, searched("jpeg", 1.0), ["jpeg"])["rows"]] == [
        "jpeg"
    ], "a parser that is gone has no row"


def test_searches_side_by_side_are_all_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hours, "RESULT", tmp_path / "parsers.json")
    names = [f"parser{number}" for number in range(8)]

    def searched(name: str) -> None:
        for _ in range(20):
            hours.record(hours.CoverageResult(name, 1, 2.0, 7, "", ""), names)

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(searched, names))
    rows = json.loads(hours.RESULT.read_text())["rows"]
    assert {row["parser"]: (row["inputs"], row["cpu_s"]) for row in rows} == dict.fromkeys(names, (20, 40.0))


@pytest.mark.slow
def test_an_input_is_slow_by_its_own_processor_time_and_not_by_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(parser: Callable[[bytes], None]) -> int | None:
        monkeypatch.setitem(parsers.PARSERS, "output", parser)
        alone = multiprocessing.get_context("fork").Process(target=coverage.again, args=("output", path))
        alone.start()
        alone.join()
        return alone.exitcode

    def computes(_: bytes) -> None:
        while True:
            pass

    path = tmp_path / "input"
    path.write_bytes(b"slow")
    monkeypatch.setattr(coverage, "MAX_SECONDS", 0)  # and the rest of the second that the process is in
    assert ended(computes) == -signal.SIGKILL
    assert ended(lambda _: time.sleep(1.2)) == 0, "it only waits"
    assert ended(lambda _: 1 / 0) == 1, "it breaks the promise"


@pytest.mark.slow
def test_what_was_only_slow_by_the_clock_is_no_finding(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(parsers.corpus("output")[0])
    assert coverage.in_time("output", path)
    assert not coverage.in_time("output", tmp_path / "missing")


def test_an_input_that_takes_too_long_is_noticed_by_the_processor_time_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coverage, "MAX_SECONDS", 0.05)

    def computing(content: bytes) -> None:
        end_s = time.process_time() + 0.1 * len(content)
        while time.process_time() < end_s:
            pass

    coverage.in_bounded_time(computing)(b"")
    coverage.in_bounded_time(lambda content: time.sleep(0.1))(
        b"a"
    )  # it waits for others, and computes nothing
    with pytest.raises(AssertionError, match=r"an input of 1 bytes took 0\.1 s"):
        coverage.in_bounded_time(computing)(b"a")
