"""Every command that a page tells a reader to type exists, with these options."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import page_commands


@pytest.mark.parametrize(
    "page", page_commands.pages(), ids=lambda page: str(page.relative_to(page_commands.ROOT))
)
def test_every_command_of_a_page_would_be_taken(page: Path) -> None:
    assert page_commands.mistakes(page) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rosa serv configs/lab.yaml", "invalid choice"),
        ("rosa serve", "required"),
        ("rosa serve configs/factory.yaml", "backend"),
        ("rosa plan configs/lab.yaml --min-server 3", "3"),
        ("rosa operator decide panda0 resume --because x", "--because"),
        ("sudo rosa keys", "required"),
        ("sudo -u rosa rosa keys", "required"),
        ("A=1 rosa robots --jsn", "--jsn"),
        ("make dem", "no target dem"),
        ("make demo EPISODES=3", "no variable EPISODES"),
        ('make demo ARGS="--episode 3"', "--episode"),
        ("ros2 launch rosa_client pick_place.py", "no such launch file"),
        ("ros2 launch rosa_client pick_place.launch.py robt:=x.yaml", "robt"),
        ("python -m rosa_client.bringup gatway:=tcp://x:1", "gatway"),
        ("python -m rosa_sim.nothing", "no such module"),
        ("python scripts/nothing.py", "no such file"),
        ("cd x && rosa chek x.yaml | head", "invalid choice"),
    ],
)
def test_a_command_that_does_not_exist_is_found(tmp_path: Path, text: str, words: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n```sh\n{text}   # and why\n```\n")
    [mistake] = page_commands.mistakes(page)
    assert words in mistake


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("`rosa oprator list`", "oprator"),
        ("`rosa serve --shedule FILE`", "--shedule"),
        ("`make tset`", "no target tset"),
    ],
)
def test_a_mention_in_a_sentence_is_looked_at_too(tmp_path: Path, text: str, words: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"Then {text} does it.\n")
    [mistake] = page_commands.mistakes(page)
    assert words in mistake


def test_what_a_command_printed_is_no_command(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\n$ rosa check x.yaml\nrosa check: x.yaml: 1 problem\n```\n")
    assert page_commands.mistakes(page) == []
