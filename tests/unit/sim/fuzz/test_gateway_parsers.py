"""The parsers of what gateways of one schedule read: the search would notice one that breaks its promise."""

from __future__ import annotations

import pytest

from rosa_sim.fuzz.parsers import PARSERS, corpus


@pytest.mark.parametrize(("parser", "part"), [("peer_gateway", "decode_peer"), ("nodes_file", "nodes_from")])
def test_another_exception_than_the_promised_one_is_noticed(
    monkeypatch: pytest.MonkeyPatch, parser: str, part: str
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("an internal error")

    monkeypatch.setattr(f"rosa_sim.fuzz.parsers.{part}", broken)
    with pytest.raises(KeyError, match="an internal error"):
        PARSERS[parser](corpus(parser)[-1])
