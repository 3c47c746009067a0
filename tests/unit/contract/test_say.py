"""What cannot be written ends nobody, and leaves nothing that Python would try to write at its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rosa_contract.say import say

ROOT = Path(__file__).parents[3]
FULL = Path("/dev/full")  # every write to it fails as on a full disk


def test_a_line_is_written_at_once_and_after_what_was_printed_before(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as stream:
        stream.write("before ")
        assert say("now", stream)
        assert (tmp_path / "out").read_text() == "before now\n"


def test_where_there_is_no_file_the_stream_gets_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert say("hello")
    assert capsys.readouterr().out == "hello\n"


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_on_a_full_disk_the_program_goes_on_and_ends_with_its_own_status() -> None:
    code = (
        "import sys; from rosa_contract.say import say; sys.exit(7 if not say('x') and not say('y') else 8)"
    )
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, timeout=300
        )
    assert (done.returncode, done.stderr) == (7, b"")
