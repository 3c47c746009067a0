"""A public class has a name that no other class of the four packages has, so that a reader meets each name once."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("rosa_contract", "rosa_client", "rosa_server", "rosa_sim")
# Names that several classes still have. The list only gets shorter.
STILL_SHARED = """
    ActionPart Answer Arm Asked Block Body Call Cancel Choice Chunk Counts Episode Estimate Event
    Executed Fault Gateway Greeting Hold Look Meter MoveTo Order Outcome Output Permit Play Progress
    Refusal Robot Row Run Running Sample Scene Seen ServerError StatePart Task
"""


@cache
def public_classes() -> Counter[str]:
    return Counter(
        node.name
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


@pytest.mark.slow
def test_no_class_gets_the_name_of_another() -> None:
    assert len(public_classes()) > 500
    shared = {name for name, classes in public_classes().items() if classes > 1}
    still = set(STILL_SHARED.split())
    assert shared - still == set(), "name the new class for what it is"
    assert still - shared == set(), "take it off STILL_SHARED"


@pytest.mark.slow
def test_the_diagram_of_a_request_names_classes_that_there_are() -> None:
    named = re.findall(r"^ +class (\w+)\[", (ROOT / "docs" / "lifecycle.md").read_text(), re.MULTILINE)
    assert len(named) > 15
    assert set(named) - set(public_classes()) == set()


@pytest.mark.slow
def test_in_the_diagram_of_a_request_whoever_has_or_uses_a_class_names_it() -> None:
    page = (ROOT / "docs" / "lifecycle.md").read_text()
    lines = re.findall(r"^    (\w+) (?:\*--|-->) (\w+)$", page, re.MULTILINE)
    assert len(lines) > 15
    bodies: dict[str, set[str]] = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and any(node.name == owner for owner, _ in lines):
                    bodies.setdefault(node.name, set()).update(re.findall(r"\w+", ast.unparse(node)))
    wrong = [f"{owner} knows no {part}" for owner, part in lines if part not in bodies.get(owner, set())]
    assert not wrong, wrong
