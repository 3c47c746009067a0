"""Why a server cannot be one of several gateways: said before anything is started."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rosa_contract.config.factory import Factory, parse_factory
from rosa_contract.errors import ConfigError
from rosa_contract.keyfile import KeyFileError
from rosa_contract.wire import messages as m
from rosa_server.cli import main
from rosa_server.plan.nodes_file import load_nodes
from rosa_server.serving.core.sessions.slots import Taken
from rosa_server.serving.edge.access import make_keys
from rosa_server.serving.joining import JoinError, SharedSchedule, join
from tests.unit.server.serving.core.planned import FACTORY, PLACEMENT

NODES = {
    "a": {"robots": "tcp://127.0.0.1:1", "gateways": "tcp://127.0.0.1:2", "servers": ["gpu0", "spare"]},
    "b": {"robots": "tcp://127.0.0.1:3", "gateways": "tcp://127.0.0.1:4", "servers": ["gpu1", "gpu2"]},
}


def factory(keys: str = "", cluster: str = "local") -> Factory:
    made = parse_factory(FACTORY.replace("QUEUE", "100"))
    gateway, servers = replace(made.gateway, curve_keys=keys), replace(made.server_cluster, cluster=cluster)
    return replace(made, gateway=gateway, server_cluster=servers)


def joined(folder: Path, here: str = "a", **nodes: Any) -> SharedSchedule:
    path = folder / "nodes.yaml"
    path.write_text(json.dumps({"keys": "keys", "state": "state", "nodes": {**NODES, **nodes}}))
    return join(factory(), PLACEMENT, load_nodes(path), str(path), here)


def test_each_gateway_starts_its_own_workers_and_all_of_them_have_one_fingerprint(tmp_path: Path) -> None:
    make_keys(tmp_path / "keys", nodes=("a", "b"))
    found = {name: joined(tmp_path, name) for name in "ab"}
    cores = {name: one.core(factory()) for name, one in found.items()}
    own = {name: set(found[name].own_workers(core).replicas) for name, core in cores.items()}
    assert own == {"a": {"gpu0", "spare/policy", "spare/guard"}, "b": {"gpu1", "gpu2"}}
    assert found["a"].schedule == found["b"].schedule
    assert cores["a"].sessions.gateways == ("tcp://127.0.0.1:1", "tcp://127.0.0.1:3")
    assert cores["b"].sessions.gateways == ("tcp://127.0.0.1:3", "tcp://127.0.0.1:1")
    assert cores["a"].life != cores["b"].life


def test_a_proof_counts_at_every_gateway_of_the_schedule_and_at_none_of_another(tmp_path: Path) -> None:
    make_keys(tmp_path / "keys", nodes=("a", "b"))

    def warm(one: SharedSchedule) -> Any:
        core = one.core(factory())
        for name, replica in core.router.placement.replicas.items():
            core.router.warm(name, m.WorkerReady(f"{name}/0.1", replica.model, 1, epoch=1))
        return core.slots

    a, b = (warm(joined(tmp_path, name)) for name in "ab")
    slot = next(slot for slot, home in joined(tmp_path).nodes.home.items() if home == "a")
    given = a.take(slot.partition("/")[0], "r1")
    assert isinstance(given, Taken) and given.slot == slot
    task = slot.partition("/")[0]
    again = b.take(task, "r1", given.token)
    assert isinstance(again, Taken) and again.slot == slot and again.token == given.token
    other = b.take(task, "r2", given.token)
    assert isinstance(other, m.Refused) or other.slot != slot
    elsewhere = {"b": {**NODES["b"], "gateways": "tcp://127.0.0.1:5"}}
    changed = warm(joined(tmp_path, "b", **elsewhere)).take(task, "r1", given.token)
    assert isinstance(changed, m.Refused) or changed.slot != slot
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    make_keys(foreign / "keys", nodes=("a", "b"))
    found = warm(joined(foreign, "b")).take(task, "r1", given.token)
    assert isinstance(found, m.Refused) or found.slot != slot, "their secret is another one"


def test_what_stands_in_the_way_has_a_cause(tmp_path: Path) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(json.dumps({"nodes": NODES}))
    nodes = load_nodes(path)
    for cause, arguments in (
        ("unknown_node", (factory(), PLACEMENT, nodes, "nodes.yaml", "c")),
        ("no_schedule", (factory(), None, nodes, "nodes.yaml", "a")),
        ("not_here", (factory(cluster="ray"), PLACEMENT, nodes, "nodes.yaml", "a")),
        ("no_keys", (factory(), PLACEMENT, nodes, "nodes.yaml", "a")),
    ):
        with pytest.raises(JoinError) as error:
            join(*arguments)
        assert error.value.cause == cause
    with pytest.raises(KeyFileError, match="rosa keys"):
        join(factory(keys=str(tmp_path)), PLACEMENT, nodes, "nodes.yaml", "a")
    make_keys(tmp_path / "keys", nodes=("a", "b"))
    with pytest.raises(ConfigError, match="gpu2"):
        joined(tmp_path, b={**NODES["b"], "servers": ["gpu1"]})


def test_the_command_wants_both_the_file_and_the_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "factory.yaml").write_text(FACTORY.replace("QUEUE", "100"))
    (tmp_path / "nodes.yaml").write_text(json.dumps({"nodes": NODES}))
    config, nodes = str(tmp_path / "factory.yaml"), str(tmp_path / "nodes.yaml")
    for more, words in (
        (["--nodes", nodes], "--node"),
        (["--node", "a"], "--nodes"),
        (["--nodes", nodes, "--node", "a"], "--schedule"),
        (["--nodes", nodes, "--node", "x"], "no node 'x'"),
        (["--nodes", config, "--node", "a"], "nodes"),
    ):
        assert main(["serve", config, "--fresh", *more]) == 2
        assert words in capsys.readouterr().err
