"""The record goes on healing, whatever Ray raises while its head is away."""

from __future__ import annotations

import sys
import threading
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest

from rosa_server.cluster.on_ray import record
from rosa_server.cluster.on_ray.dealing import GatewayPlace
from rosa_server.cluster.on_ray.mapping import RayError


class HeadIsAway(Exception):
    """As Ray raises while nothing answers at its head."""


@pytest.mark.parametrize("fails", [HeadIsAway("no head"), RayError("node_unreachable", "no node")])
def test_a_lost_gateway_is_started_when_ray_answers_again(
    monkeypatch: pytest.MonkeyPatch, fails: Exception
) -> None:
    tries: list[str] = []
    healed = threading.Event()

    def get_actor(name: str, namespace: str) -> Any:
        if len(tries) == 0 and isinstance(fails, HeadIsAway):
            tries.append("looked")
            raise fails
        raise ValueError(name)  # there is no such actor

    def start_again(self: record.GatewayRecord, one: GatewayPlace) -> None:
        tries.append("started")
        if tries.count("started") < 2:
            raise fails
        healed.set()

    context = SimpleNamespace(was_current_actor_reconstructed=True)
    ray = SimpleNamespace(get_runtime_context=lambda: context, get_actor=get_actor)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(record.log, "to_stderr", lambda: None)  # for all tests of this process
    monkeypatch.setattr(record, "HEAL_EVERY_S", 0.001)
    monkeypatch.setattr(record, "AGAIN_S", 0.0)
    monkeypatch.setattr(record.GatewayRecord, "_start_again", start_again)
    place = GatewayPlace("a", "10.0.0.1", 0, (), ())
    made = record.GatewayRecord({"places": [asdict(place)], "files": {}, "folder": ""})
    assert healed.wait(10)
    monkeypatch.setattr(record.GatewayRecord, "_forget", lambda self, one: None)
    made._ray.wait = lambda *given, **named: None
    made.stop()
    made._healing.join(10)
    assert not made._healing.is_alive()
