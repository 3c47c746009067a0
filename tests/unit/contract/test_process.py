"""How a process ended, in words: no status and no signal is too odd."""

from __future__ import annotations

import pytest

from rosa_contract.process import ending


@pytest.mark.parametrize(
    ("status", "words"),
    [(0, "ended with status 0"), (-11, "ended by SIGSEGV"), (-40, "ended by signal 40")],
)
def test_an_exit_status_in_words(status: int, words: str) -> None:
    assert ending(status) == words
