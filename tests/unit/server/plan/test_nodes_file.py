"""A nodes file says which gateways share a schedule; a wrong one is refused before anything starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rosa_contract.config.factory import parse_factory
from rosa_contract.errors import ConfigError
from rosa_server.plan.nodes import NodePlan, fingerprint
from rosa_server.plan.nodes_file import check_servers, load_nodes, nodes_from
from tests.unit.server.serving.core.planned import FACTORY, PLACEMENT

TEXT = """
keys: keys
nodes:
  a: {robots: "tcp://10.0.0.1:5570", gateways: "tcp://10.0.0.1:5580", servers: [gpu0]}
  b: {robots: "tcp://10.0.0.2:5570", gateways: "tcp://10.0.0.2:5580", servers: [gpu1, gpu2]}
"""
A = {"robots": "tcp://10.0.0.1:5570", "gateways": "tcp://10.0.0.1:5580", "servers": ["gpu0"]}
B = {"robots": "tcp://10.0.0.2:5570", "gateways": "tcp://10.0.0.2:5580"}


def problems(content: Any) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as error:
        nodes_from(content, "nodes.yaml")
    return [(one.path, one.cause) for one in error.value.problems]


def test_a_nodes_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(TEXT)
    found = load_nodes(path)
    assert found.keys == str(tmp_path / "keys") and found.state == ""
    assert found.nodes["b"].servers == ("gpu1", "gpu2")
    assert found.nodes["a"].robots == "tcp://10.0.0.1:5570"


@pytest.mark.parametrize(
    ("nodes", "path", "cause"),
    [
        ({"a": A}, "nodes", "out_of_range"),
        ({"a": A, "b": {**B, "servers": ["gpu0"]}}, "nodes.b.servers[0]", "duplicate_key"),
        ({"a": A, "b": {**B, "robots": A["robots"]}}, "nodes.b.robots", "duplicate_key"),
        ({"a": A, "b": {**B, "gateways": B["robots"]}}, "nodes.b.gateways", "duplicate_key"),
        ({"a": A, "b": {**B, "gateways": "tcp://*:5580"}}, "nodes.b.gateways", "out_of_range"),
        ({"a": A, "b": {**B, "gateways": "tcp://10.0.0.2:0"}}, "nodes.b.gateways", "out_of_range"),
        ({"a": A, "b": {**B, "gateways": "ipc:///tmp/b"}}, "nodes.b.gateways", "out_of_range"),
        ({"a": A, "b" * 33: B}, f"nodes.{'b' * 33}", "too_large"),
        ({"a": A, "../b": B}, "nodes.../b", "out_of_range"),
        ({"a": A, "b": {**B, "server": []}}, "nodes.b.server", "unknown_key"),
        ({"a": A, "b": {"robots": B["robots"]}}, "nodes.b.gateways", "missing"),
        ({"a": A, "b": []}, "nodes.b", "wrong_type"),
    ],
)
def test_a_mistake_is_named_by_its_place(nodes: Any, path: str, cause: str) -> None:
    assert (path, cause) in problems({"nodes": nodes})


def test_every_server_of_the_schedule_is_on_one_node_and_no_other_server_is() -> None:
    found = nodes_from({"nodes": {"a": A, "b": {**B, "servers": ["gpu1"]}}}, "nodes.yaml")
    check_servers(found, ["gpu0", "gpu1"], "nodes.yaml")
    for servers, path in ((["gpu0", "gpu1", "gpu2"], "nodes"), (["gpu0", "gpu2"], "nodes.b.servers[0]")):
        with pytest.raises(ConfigError) as error:
            check_servers(found, servers, "nodes.yaml")
        assert path in [one.path for one in error.value.problems]


def test_gateways_of_one_schedule_have_one_fingerprint_and_others_have_another() -> None:
    tasks = parse_factory(FACTORY.replace("QUEUE", "100")).tasks
    other_tasks = parse_factory(FACTORY.replace("QUEUE", "100").replace("slo_ms: 300", "slo_ms: 301")).tasks
    server_on = {"gpu0": "a", "gpu1": "b", "gpu2": "b", "spare": "a"}
    home = {"pick/0": "a", "pick/1": "b", "sort/0": "a"}
    robots, peers = {"a": "tcp://1:1", "b": "tcp://1:2"}, {"a": "tcp://1:3", "b": "tcp://1:4"}
    a, b = (NodePlan(name, server_on, home, robots) for name in "ab")
    one = fingerprint(PLACEMENT, a, tasks, peers, 32.0)
    assert one == fingerprint(PLACEMENT, b, tasks, dict(reversed(peers.items())), 32.0)
    moved = replace(a, server_on={**server_on, "gpu2": "a"})
    slower = replace(PLACEMENT, rates_hz={**PLACEMENT.rates_hz, "sort": {"system1": 1.0}})
    others = {
        fingerprint(slower, a, tasks, peers, 32.0),
        fingerprint(PLACEMENT, moved, tasks, peers, 32.0),
        fingerprint(PLACEMENT, a, other_tasks, peers, 32.0),
        fingerprint(PLACEMENT, a, tasks, {**peers, "b": "tcp://1:5"}, 32.0),
        fingerprint(PLACEMENT, a, tasks, peers, 16.0),
        fingerprint(replace(PLACEMENT, epoch=1), a, tasks, peers, 32.0),
    }
    assert one not in others and len(others) == 6
