"""The pages for whoever serves a model, describes a robot or reads on."""

from __future__ import annotations

import re

import cv2
import numpy as np

from tests.reader import ROOT, Reader, blocks

FLEET = "config:=configs/two_robots.yaml fleet:=true panel:=true start_server:=true"
TWO_ROBOTS = f"python -m rosa_client.bringup {FLEET}\n"
ANSWERS = r"actions \((\d+), (\d+)\) in"


def files_of(reader: Reader, page: str, *names: str) -> None:
    """Write these files of a page."""
    for comment, _, text in blocks(ROOT / "docs" / f"{page}.md"):
        if comment.removeprefix("file: ") in names:
            (reader.folder / comment.removeprefix("file: ")).write_text(text)


def test_the_readme(reader: Reader) -> None:
    printed = reader.do("../README")
    assert re.findall(ANSWERS, printed) == [("50", "7")] * 5
    assert "What limits the rates" in printed and "gateway" in printed
    assert "done: the monitor says done" in printed and "panda0: idle" in printed


def test_start_here(reader: Reader) -> None:
    printed = reader.do("index")
    assert re.findall(ANSWERS, printed) == [("50", "7")] * 5 and "#token=" in printed


def test_watching_a_fleet(reader: Reader) -> None:
    assert "#token=" in reader.do("dashboard")


def test_a_robot_of_ones_own_does_a_task_and_gets_keys(reader: Reader) -> None:
    reader.do("tutorials/own_model")
    printed = reader.do("tutorials/own_robot")
    assert "my_robot.yaml: a valid robot file" in printed
    assert "my_arm fits wave" in printed
    assert "running my_arm" in printed and "timed_out" in printed
    reader.end()
    printed = reader.do("tutorials/two_machines")
    assert "my_cell.yaml: a valid factory file" in printed
    assert "keys" in printed
    named = {path.name for path in (reader.folder / "keys").rglob("*") if path.is_file()}
    robots = {"my_arm", "other_arm"}
    assert {robot for robot in robots if any(robot in name for name in named)} == robots


def test_add_a_model(reader: Reader) -> None:
    printed = reader.do("add_a_model")
    assert "my_factory.yaml: a valid factory file" in printed and "ROSA is ready" in printed


def test_add_a_robot(reader: Reader) -> None:
    (reader.folder / "my_factory.yaml").write_text((ROOT / "configs" / "pick_place.yaml").read_text())
    reader.type("rosa serve my_factory.yaml\n")
    printed = reader.do("add_a_robot")
    assert "panda fits pick_and_place" in printed and "running panda0" in printed


def test_bring_your_own(reader: Reader) -> None:
    files_of(reader, "tutorials/checkpoint_to_factory", "lab.yaml", "my_robot.yaml")
    pictures = np.random.default_rng(0).integers(0, 255, (4, 480, 640, 3), np.uint8)
    for name, picture in zip(("front", "wrist", "a", "b"), pictures, strict=True):
        cv2.imwrite(str(reader.folder / f"{name}.jpg"), picture)
    reader.type("make demo ARGS='--episodes 1 --no-video --out runs'\n")
    reader.end_of_demo()
    [recording] = reader.folder.glob("runs/*/run.mcap")
    reader.names["runs/X/run.mcap"] = str(recording)
    printed = reader.do("bring_your_own")
    assert "fits pick" in printed and "ROSA is ready" in printed
    assert printed.count("made   actions: float32 (16, 8)") == 3
    assert "lab--policy.yaml: derived" in printed and "What limits the rates" in printed


def test_what_a_mistake_looks_like(reader: Reader) -> None:
    (reader.folder / "factory.yaml").write_text(
        (ROOT / "configs" / "pick_place.yaml").read_text().replace("slo_ms", "slo", 1)
    )
    printed = reader.do("configuration")
    assert "2 problems" in printed and "slo_ms: is missing; expected a number" in printed
    assert "unknown key (did you mean 'slo_ms'?); known: model, slo_ms, " in printed


def test_the_file_of_a_franka(reader: Reader) -> None:
    printed = reader.do("franka")
    assert "my_panda.yaml: a valid robot file" in printed and "speed scale 0.1" in printed
    assert "Print it at 100 %" in printed and (reader.folder / "board.pdf").stat().st_size > 0


def test_completion(reader: Reader) -> None:
    reader.do("uninstall")
    for shell, file in (("bash", ".local/share/bash-completion/completions/rosa"), ("zsh", ".zshrc")):
        assert "doctor" in (reader.folder / file).read_text(), shell


def test_two_robots_of_one_file(reader: Reader) -> None:
    assert TWO_ROBOTS in (ROOT / "docs" / "operator.md").read_text()
    reader.type(TWO_ROBOTS)
    printed = reader.type("rosa operator list\n")
    assert "panda0: idle" in printed and "panda1: idle" in printed
