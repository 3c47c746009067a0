"""The numbers in docs/security.md are those of the code; docs/limits.md is generated."""

from __future__ import annotations

import re
from pathlib import Path

from rosa_client.connection import session_token
from rosa_contract.wire.pictures import jpeg
from rosa_server.cluster import local, output
from rosa_server.serving import gateway
from rosa_server.serving.base import log
from rosa_server.serving.core.guard.limits import OFFENCES, Limits, limits_for
from rosa_server.serving.core.rates import control
from rosa_server.serving.core.sessions import session

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


def test_every_test_that_the_threat_model_names_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`", PAGE)
    assert len(named) > 15
    root = Path(__file__).parents[2]
    assert [path for path in named if not (root / path).is_file()] == []


def test_what_it_says_of_pictures_and_decoding_is_what_the_code_does() -> None:
    assert f"{jpeg.MAX_SCANS} scans" in re.sub(r"\s+", " ", PAGE)
    assert f"at most {output.MAX_TEXT_BYTES // 1000} kB" in PAGE and output.EVERY_S == 1.0
    assert control.DECODING_SHARE == 0.25 and "a quarter of a core for decoding" in PAGE
    assert local.REPORT_START_S == 60.0 and "not ready after a minute" in PAGE
