"""The nodes file: the gateways that share one schedule, their addresses, and the servers on each node.

All nodes have the same file. `rosa serve --nodes FILE --node NAME` starts the gateway of one node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rosa_contract.config.strict import Reader, read_yaml
from rosa_contract.endpoint import endpoint_problem
from rosa_contract.setting import setting
from rosa_contract.wire.bounds import MAX_GATEWAYS
from rosa_contract.wording import nearest, shown

MAX_NODE_CHARS = 32  # of a node's name: it is a part of other names


@dataclass(frozen=True)
class GatewayNode:
    """One node: its gateway, and the servers whose workers run there."""

    robots: str = setting("endpoint for robots, on which the node's gateway listens: tcp://ADDRESS:PORT")
    gateways: str = setting(
        "endpoint for the other gateways, on which the node's gateway listens: tcp://ADDRESS:PORT"
    )
    servers: tuple[str, ...] = setting(
        "servers of the schedule that run on this node; each runs on exactly one node", ()
    )


@dataclass(frozen=True)
class NodesFile:
    """All gateways of one schedule."""

    nodes: Mapping[str, GatewayNode] = setting("nodes by name, at least two")
    keys: str = setting(
        "key folder with `gateways/` and slots.key_secret, made by `rosa keys FOLDER --node NAME`; empty:"
        " gateway.curve_keys",
        "",
    )
    state: str = setting(
        "folder, owned by this user, where a gateway records the slots it has assigned; it must survive a reboot;"
        " empty: $XDG_STATE_HOME/rosa or ~/.local/state/rosa",
        "",
    )


def load_nodes(path: str | Path) -> NodesFile:
    """Load a nodes file. Raises `ConfigError` with every mistake in it. Relative paths start at the file's folder."""
    found, folder = nodes_from(read_yaml(path), str(path)), Path(path).resolve().parent
    keys, state = (str(folder / value) if value else "" for value in (found.keys, found.state))
    return replace(found, keys=keys, state=state)


def nodes_from(content: object, source: str) -> NodesFile:
    """Like `load_nodes`, from parsed YAML; relative paths are left as written."""
    reader = Reader(source)
    found = reader.section(NodesFile, "", content)
    if isinstance(found, NodesFile):
        _check(reader, found)
    reader.finish()
    assert isinstance(found, NodesFile)
    return found


def check_servers(nodes: NodesFile, servers: Iterable[str], source: str) -> None:
    """Raise `ConfigError` unless the servers of the schedule and those of the nodes are the same."""
    reader, known = Reader(source), dict.fromkeys(servers)
    for name, node in nodes.nodes.items():
        for index, server in enumerate(node.servers):
            if server not in known:
                words = f"the schedule has no server {shown(server)}{nearest(server, known)}"
                reader.fail(f"nodes.{name}.servers[{index}]", words, "unknown_name")
    placed = {server for node in nodes.nodes.values() for server in node.servers}
    if homeless := [server for server in known if server not in placed]:
        reader.fail("nodes", f"no node lists {', '.join(homeless)} of the schedule", "missing")
    reader.finish()


def _check(reader: Reader, found: NodesFile) -> None:
    if not 2 <= len(found.nodes) <= MAX_GATEWAYS:
        words = f"expected 2 to {MAX_GATEWAYS} nodes, got {len(found.nodes)}"
        reader.fail("nodes", words, "out_of_range")
    said: dict[str, str] = {}  # endpoint or server -> where it stands
    for name, node in found.nodes.items():
        where = f"nodes.{name}"
        if name.startswith(".") or not all(c.isalnum() or c in "-_." for c in name):
            words = f"expected letters, digits, '-', '_' and '.', got {shown(name)}"
            reader.fail(where, words, "out_of_range")
        if len(name) > MAX_NODE_CHARS:
            reader.fail(where, f"expected at most {MAX_NODE_CHARS} characters", "too_large")
        for key, endpoint in (("robots", node.robots), ("gateways", node.gateways)):
            problem = endpoint_problem(endpoint, binds=False)
            if not problem and not endpoint.startswith("tcp://"):
                problem = f"expected tcp://ADDRESS:PORT, got {shown(endpoint)}"
            if problem:
                reader.fail(f"{where}.{key}", problem, "out_of_range")
            _once(reader, said, endpoint, f"{where}.{key}")
        for index, server in enumerate(node.servers):
            _once(reader, said, server, f"{where}.servers[{index}]")


def _once(reader: Reader, said: dict[str, str], what: str, where: str) -> None:
    other = said.setdefault(what, where)
    if other != where:
        reader.fail(where, f"{shown(what)} is already used by {other}", "duplicate_key")
