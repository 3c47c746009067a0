"""The numbers in docs/security.md are those of the code; docs/limits.md is generated."""

from __future__ import annotations

import re
from pathlib import Path

from rosa_client import session_token
from rosa_server.serving import gateway, log
from rosa_server.serving.core import session
from rosa_server.serving.core.limits import OFFENCES, Limits, limits_for

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
LIMITS = Limits()


def test_every_offence_is_named() -> None:
    assert f"({', '.join(f'`{cause}`' for cause in OFFENCES)})" in PAGE


def test_the_numbers_in_the_text_are_those_of_the_code() -> None:
    assert f"within the last {session.TAKEN_FOR_S:g} s" in PAGE
    assert f"{session.RESERVED_FOR_S:g} s after its last word" in PAGE
    assert "`rosa-UID` in the folder" in PAGE
    assert session_token.default_folder().name.startswith("rosa")
    assert f"at most {log.LINES_PER_S:g} per second" in PAGE
    assert f"{LIMITS.strangers_time:g} s of the gateway's time" in PAGE
    assert re.search(rf"not after the first, {LIMITS.first_wait_s:g} s after the second", PAGE)
    assert (LIMITS.longest_wait_s, LIMITS.calm_after_s, gateway.KEYS_EVERY_S) == (60.0, 60.0, 0.5)
    assert limits_for(8500) == LIMITS and limits_for(8400) != LIMITS
    assert limits_for(2300).connections >= 1000 and limits_for(3000).connections_per_address >= 1000
