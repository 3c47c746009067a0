"""Endpoints are checked before a socket sees them."""

from __future__ import annotations

import pytest

from rosa_contract.config.factory import load_factory, parse_factory
from rosa_contract.endpoint import endpoint_problem
from rosa_contract.errors import ConfigError
from tests.unit.contract.config.test_config import CONFIGS


@pytest.mark.parametrize(
    "endpoint",
    [
        "tcp://127.0.0.1:5570",
        "tcp://*:0",
        "tcp://*:*",
        "tcp://127.0.0.1:65535",
        "tcp://eth0:1",
        "ipc:///tmp/x",
    ],
)
def test_what_a_server_may_listen_on(endpoint: str) -> None:
    assert endpoint_problem(endpoint, binds=True) == ""


@pytest.mark.parametrize(
    ("endpoint", "says"),
    [
        ("tcp://127.0.0.1:80000", "port from 0 to 65535, got '80000'"),
        ("tcp://127.0.0.1:-1", "port from 0 to 65535"),
        ("tcp://127.0.0.1:", "port from 0 to 65535"),
        ("tcp://127.0.0.1:٥", "port from 0 to 65535"),
        ("tcp://127.0.0.1", "tcp://HOST:PORT"),
        ("tcp://:5570", "tcp://HOST:PORT"),
        ("127.0.0.1:5570", "tcp://HOST:PORT"),
        ("tcp://gpu box:5570", "tcp://HOST:PORT"),
        ("udp://127.0.0.1:5570", "tcp://HOST:PORT"),
        ("ipc://", "ipc://PATH"),
        ("", "tcp://HOST:PORT"),
        ("tcp://[::1]:5570", "an IPv4 address or a name, got '[::1]'"),
        ("tcp://::1:5570", "IPv6 is not supported"),
    ],
)
def test_what_no_server_can_listen_on(endpoint: str, says: str) -> None:
    assert says in endpoint_problem(endpoint, binds=True)


def test_a_robot_connects_to_a_machine_and_a_port() -> None:
    assert endpoint_problem("tcp://gpu-box:5570", binds=False) == ""
    assert "only for listening" in endpoint_problem("tcp://*:5570", binds=False)
    for host in ("größe", "-box", "gpu,box", "a?b", "@"):  # of which libzmq raises an error
        assert "the address of a machine" in endpoint_problem(f"tcp://{host}:5570", binds=False)
    for host in ("10.0.0.1", "gpu_box.local", "192.168.1.2:0;10.0.0.1"):
        assert endpoint_problem(f"tcp://{host}:5570", binds=False) == ""
    assert "IPv6 is not supported" in endpoint_problem("tcp://[fe80::1%eth0]:5570", binds=False)
    assert "port from 1" in endpoint_problem("tcp://gpu-box:0", binds=False)


def test_a_factory_names_the_endpoint_that_cannot_be() -> None:
    text = (CONFIGS / "factory.yaml").read_text() + "\ngateway: {bind: 'tcp://127.0.0.1:80000'}\n"
    with pytest.raises(ConfigError, match=r"gateway\.bind: expected a port from 0 to 65535, got '80000'"):
        parse_factory(text)
    assert load_factory(CONFIGS / "factory.yaml").gateway.bind == "tcp://127.0.0.1:5570"
