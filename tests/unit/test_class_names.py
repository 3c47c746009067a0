"""A public class has a name that no other class of the four packages has, so that a reader meets each name once."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("rosa_contract", "rosa_client", "rosa_server", "rosa_sim")
# Names that several classes still have. The list only gets shorter.
STILL_SHARED = """
    ActionPart Answer Arm Ask Asked Asker Block Body Call Calls Cancel Cell Chain Choice Chunk
    ClockWatch Counts Decided Decoder Disturbance Episode Estimate Event Events Executed Fault Found
    Frame Gateway Greeting Guard Hand Hold Limits Line Look Memory Meter MoveTo Network Options Order
    Outcome Output Part Peer Permit Piece Play Progress Question Recorder Refusal Refused Robot
    RobotState Row Run Running Sample Scale Scene Seat Seen Served ServerError Sizes State StatePart
    Step Story Tally Task Trial Turns Watch World
"""


@pytest.mark.slow
def test_no_class_gets_the_name_of_another() -> None:
    count = Counter(
        node.name
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert len(count) > 500
    shared = {name for name, classes in count.items() if classes > 1}
    assert shared - set(STILL_SHARED.split()) == set(), "name the new class for what it is"
