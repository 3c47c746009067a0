"""Gateways that did not come up are ended, whatever their record says."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rosa_contract.config.factory import factory_from
from rosa_server.cluster.on_ray import gateways
from rosa_server.cluster.on_ray.gateways import bring_up
from rosa_server.cluster.on_ray.mapping import Node, RayError
from rosa_server.plan.nodes_file import GatewayNode, NodesFile
from rosa_server.plan.placement import Placement, Replica

FACTORY: dict[str, Any] = {
    "server_cluster": {"num_servers": 1, "gpu_type": "cpu"},
    "robot_fleet": [{"task": "pick", "num_robots": 1}],
    "pick": {
        "pipeline": {"action_period_ms": 400},
        "components": {"system1": {"model": "policy", "slo_ms": 300}},
    },
    "models": {"policy": {"backend": "emulated", "options": {"profile": "/w/p.yaml"}}},
}
PLACEMENT = Placement({"gpu0": Replica("gpu0", "policy", "gpu0")}, {"pick/0": {"system1": "gpu0"}})
NODES = {
    name: GatewayNode(f"tcp://127.0.0.{i}:1", f"tcp://127.0.0.{i}:2") for i, name in ((1, "a"), (2, "b"))
}


class NoAnswer(Exception):
    """What Ray raises where an actor does not answer."""


class TakenName(NoAnswer, ValueError):
    """What Ray raises where the actor itself has raised that."""


class Record:
    """Its gateways run, and `begin` fails as it is told."""

    def __init__(self, fails: Exception) -> None:
        self.did: list[str] = []
        self.fails = fails
        self.begin, self.stop = (SimpleNamespace(remote=lambda name=name: name) for name in ("begin", "stop"))

    def answer(self, name: str, timeout: float) -> None:
        self.did.append(name)
        if name == "begin":
            raise self.fails


@pytest.mark.parametrize("fails", [NoAnswer("no answer in time"), TakenName("its name is taken")])
def test_gateways_that_did_not_come_up_in_time_are_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fails: Exception
) -> None:
    record = Record(fails)

    @contextmanager
    def connected(address: str) -> Any:
        made = SimpleNamespace(options=lambda **how: SimpleNamespace(remote=lambda told: record))
        yield SimpleNamespace(
            remote=lambda what: made,
            get=record.answer,
            kill=lambda one, no_restart: record.did.append("kill"),
            exceptions=SimpleNamespace(RayError=NoAnswer),
        )

    def describe_into(known: dict[str, Node], *_: Any) -> list[str]:
        known |= {f"n{i}": Node(f"n{i}", f"127.0.0.{i}") for i in (1, 2)}
        return []

    monkeypatch.setattr(gateways, "_connected", connected)
    monkeypatch.setattr(gateways, "_record", lambda ray: None)
    monkeypatch.setattr(gateways, "alive", lambda ray: [])
    monkeypatch.setattr(gateways, "describe_into", describe_into)
    schedule = tmp_path / "schedule.json"
    schedule.write_text("{}")
    with pytest.raises(RayError, match=str(fails)) as error:
        bring_up(
            "127.0.0.1:1", factory_from(FACTORY, "test"), PLACEMENT, NodesFile(NODES), "n", schedule, (), ()
        )
    assert error.value.cause == "no_ray"
    assert record.did == ["begin", "stop", "kill"]
