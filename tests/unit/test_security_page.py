"""docs/security.md names every bound with its value, and every cause."""

from __future__ import annotations

import re
from pathlib import Path

from rosa_client import session_token
from rosa_contract import codec
from rosa_contract.gateway import Gateway
from rosa_server.serving import gateway, intake
from rosa_server.serving.core import check, session
from rosa_server.serving.core.limits import CAUSES, OFFENCES, Limits, limits_for

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
LIMITS, KB, MB = Limits(), 1 << 10, 1 << 20
BOUNDS = (
    ("connections", f"{LIMITS.connections}", "all"),
    ("connections", f"{LIMITS.connections_per_address}", "one address"),
    ("silent connections", f"{LIMITS.silent}", "all; the longest silent makes room"),
    (
        "silent connections",
        f"{LIMITS.silent_per_address}",
        "one address; the longest silent makes room",
    ),
    ("time for ZMTP's and CURVE's handshake", f"{gateway.HANDSHAKE_MS / 1000:g} s", "a stranger"),
    ("time without an understandable message", f"{LIMITS.hello_within_s:g} s", "a stranger"),
    ("bytes of a message that has not ended", f"{LIMITS.stranger_bytes // KB} KB", "a stranger"),
    ("bytes of messages that have not ended", f"{LIMITS.strangers_bytes // MB} MB", "all strangers"),
    (
        "bytes of messages that nobody has read",
        f"{LIMITS.welcomed_bytes // KB} KB and two of its largest requests",
        "a robot",
    ),
    (
        "bytes of messages that nobody has read",
        f"{LIMITS.all_bytes // MB} MB and one largest request per robot",
        "all",
    ),
    ("whole messages that wait to be read", f"{gateway.ROBOT_BACKLOG}", "a connection; then TCP pushes back"),
    ("answers that nobody fetches", f"{gateway.UNREAD_ANSWERS}", "a connection; the next ones are lost"),
    ("handling time", f"{LIMITS.robot_time:g} s per second, {LIMITS.robot_burst_s:g} s at once", "a robot"),
    (
        "handling time",
        f"{LIMITS.address_time:g} s per second, {LIMITS.address_burst_s:g} s at once",
        "all strangers of an address",
    ),
    (
        "handling time",
        f"{LIMITS.strangers_time:g} s per second, {LIMITS.strangers_burst_s:g} s at once",
        "all strangers",
    ),
    ("unreadable messages", f"{LIMITS.bad_per_s:g} per second, {LIMITS.bad_burst:g} at once", "a connection"),
    ("message", f"{Gateway.max_message_mb:g} MB (`gateway.max_message_mb`)", "a robot"),
    (
        "frames",
        f"{intake.MOST_FRAMES - 1}; with more than {intake.FLOOD_FRAMES} the connection ends",
        "a message",
    ),
    ("header", f"{codec.MAX_ROBOT_HEADER_BYTES // KB} KB", "a message"),
    ("entries", f"{codec.MAX_ROBOT_ENTRIES}", "a list or map in a header"),
    ("image", f"its raw pixels, a tenth and {check.SPARE_BYTES // KB} KB", "a camera that the model takes"),
    (
        "a name without its robot",
        f"{session.RESERVED_FOR_S:g} s, {session.MOST_RESERVED} names",
        "robots that left",
    ),
)


def test_the_table_of_bounds_is_that_of_the_code() -> None:
    table = PAGE[PAGE.index("| bound | value | of |") :].split("\n\n")[0].splitlines()[2:]
    assert table == [f"| {what} | {value} | {whose} |" for what, value, whose in BOUNDS]


def test_every_cause_is_explained() -> None:
    table = PAGE[PAGE.index("| cause | meaning |") :].split("\n\n")[0].splitlines()[2:]
    assert table == [f"| `{cause}` | {meaning} |" for cause, meaning in CAUSES.items()]
    assert f"({', '.join(f'`{cause}`' for cause in OFFENCES)})" in PAGE


def test_the_numbers_in_the_text_are_those_of_the_code() -> None:
    assert f"within the last {session.TAKEN_FOR_S:g} s" in PAGE
    assert f"{session.RESERVED_FOR_S:g} s after its last word" in PAGE
    assert "`rosa-UID` in the folder" in PAGE
    assert session_token.default_folder().name.startswith("rosa")
    assert f"{LIMITS.strangers_time:g} s of the gateway's time" in PAGE
    assert re.search(rf"not after the first, {LIMITS.first_wait_s:g} s after the second", PAGE)
    assert (LIMITS.longest_wait_s, LIMITS.calm_after_s, gateway.KEYS_EVERY_S) == (60.0, 60.0, 0.5)
    assert limits_for(8500) == LIMITS and limits_for(8400) != LIMITS
    assert limits_for(2300).connections >= 1000 and limits_for(3000).connections_per_address >= 1000
