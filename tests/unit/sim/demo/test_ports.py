"""`make demo` beside another server takes other ports."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from rosa_contract.config.factory import load_factory
from rosa_sim.demo.arguments import TASKS
from rosa_sim.demo.ports import on_free_ports, port_is_free

CONFIGS = sorted({path for task in TASKS.values() for path in task.policies.values()})


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
@pytest.mark.parametrize("taken", [5570, 9570])
def test_where_a_port_is_taken_the_demos_file_gets_free_ones(
    tmp_path: Path, config: Path, taken: int
) -> None:
    factory = load_factory(config)
    copy = on_free_ports(config, factory, tmp_path, lambda port: port != taken)
    assert copy.parent == tmp_path
    other = load_factory(copy)
    assert other.gateway.bind != factory.gateway.bind
    assert other.gateway.metrics_port != factory.gateway.metrics_port
    assert (other.tasks, other.models) == (factory.tasks, factory.models), "nothing else is different"


def test_where_all_ports_are_free_the_file_is_used_as_it_is(tmp_path: Path) -> None:
    for config in CONFIGS:
        assert on_free_ports(config, load_factory(config), tmp_path, lambda port: True) == config
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_names_its_ports_means_them(tmp_path: Path) -> None:
    config = tmp_path / "own.yaml"
    config.write_text(CONFIGS[0].read_text() + "\ngateway:\n  bind: tcp://127.0.0.1:5571\n")
    assert on_free_ports(config, load_factory(config), tmp_path, lambda port: False) == config


def test_a_port_is_taken_while_somebody_listens() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        assert not port_is_free(server.getsockname()[1])
