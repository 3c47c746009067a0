"""What `rosa rollout` orders, and what goes together."""

from __future__ import annotations

from pathlib import Path

import pytest

from rosa_contract.errors import ConfigError
from rosa_contract.wire.watching import Order, decode_ask, encode_ask
from rosa_server.commands.live.rollout import terms_from
from rosa_server.commands.parser import parser_for
from rosa_server.serving.core.workers.comparing import TrialLimits
from rosa_server.serving.operations.names import CANARY, ROLLOUT, SHADOW
from rosa_server.serving.operations.terms import Terms
from rosa_server.serving.operations.trial import terms_of


def told(*words: str) -> Terms:
    return terms_from(parser_for("rollout").parse_args(["rollout", "policy", "/new weights", *words]))


@pytest.mark.parametrize(
    ("words", "terms"),
    [
        ((), Terms("/new weights", ROLLOUT)),
        (("--canary", "60"), Terms("/new weights", CANARY, 60.0)),
        (("--shadow", "2.5", "--share", "0.1"), Terms("/new weights", SHADOW, 2.5, 0.1)),
        (
            ("--shadow", "5", "--slower", "3", "--distance", "0.2"),
            Terms("/new weights", SHADOW, 5.0, 1.0, TrialLimits(slower=3.0, distance=0.2)),
        ),
    ],
)
def test_the_server_reads_what_the_command_has_written(words: tuple[str, ...], terms: Terms) -> None:
    said = told(*words)
    assert said == terms
    order = Order(b"", 1, said.kind, "policy", said.value, "ann")
    heard = decode_ask(b"", encode_ask(order))
    assert isinstance(heard, Order) and terms_of(heard) == terms


@pytest.mark.parametrize(
    "words",
    [
        ("--share", "0.5"),
        ("--canary", "5", "--share", "0.5"),
        ("--canary", "5", "--distance", "1"),
        ("--slower", "2"),
    ],
)
def test_options_that_do_not_go_together_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="is only for"):
        told(*words)


def test_a_relative_path_is_that_of_the_command() -> None:
    arguments = parser_for("rollout").parse_args(["rollout", "policy", "new"])
    assert terms_from(arguments).weights == str(Path("new").absolute())
