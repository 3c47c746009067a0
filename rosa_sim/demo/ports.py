"""A demo beside another server: where a port of its factory file is taken, a copy of the file names free ones."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from rosa_contract.config.factory import Factory
from rosa_contract.config.strict import read_yaml
from rosa_sim.ports import free_ports

LOOPBACK = "tcp://127.0.0.1:"


def port_is_free(port: int) -> bool:
    """Whether a server could listen on it now, on loopback."""
    with socket.socket() as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # as servers do: ports of ended ones are free
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def on_free_ports(
    config: Path, factory: Factory, folder: Path, is_free: Callable[[int], bool] = port_is_free
) -> Path:
    """`config`, or a copy of it in `folder` where a port that it does not name itself is taken.

    A file with a `gateway` of its own is left as it is: it means those ports, and the server says what is wrong.
    """
    text = config.read_text()
    if any(line.startswith("gateway") for line in text.splitlines()) or not factory.gateway.bind.startswith(
        LOOPBACK
    ):
        return config
    ports = [int(factory.gateway.bind.removeprefix(LOOPBACK)), factory.gateway.metrics_port]
    if all(is_free(port) for port in ports if port):
        return config
    bind, metrics = free_ports(2)
    document = {**from_here(read_yaml(config), config.parent), "gateway": gateway_on(bind, metrics)}
    copy = folder / config.name
    copy.write_text(yaml.safe_dump(document, sort_keys=False))
    return copy


def gateway_on(port: int, metrics_port: int) -> dict[str, str | int]:
    return {"bind": f"{LOOPBACK}{port}", "metrics_port": metrics_port}


def from_here(value: Any, folder: Path) -> Any:
    """A file's content with its paths, which begin at `folder`, from the root: a copy of the file lies elsewhere."""
    if isinstance(value, dict):
        return {key: from_here(one, folder) for key, one in value.items()}
    if isinstance(value, list):
        return [from_here(one, folder) for one in value]
    if isinstance(value, str) and (
        value.startswith(("./", "../")) or ("/" in value and (folder / value).exists())
    ):
        return str(folder / value)
    return value
