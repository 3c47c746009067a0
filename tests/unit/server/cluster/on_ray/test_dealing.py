"""Which node each server of a schedule gets, and what is refused before anything is started."""

from __future__ import annotations

import pytest

from rosa_contract.errors import ConfigError
from rosa_server.cluster.on_ray.dealing import content, dealt, found, host_of, place_from, places
from rosa_server.cluster.on_ray.mapping import Node, Part, RayError
from rosa_server.plan.nodes_file import GatewayNode, NodesFile, nodes_from

HALVES: dict[str, tuple[str, ...]] = {"a": ("gpu0",), "b": ("gpu1", "standby0")}
PARTS = [
    Part("gpu0", 1, ("/w/policy",)),
    Part("gpu1", 1, ("/w/policy",)),
    Part("standby0", 1, ("/w/policy",), frozenset({"gpu1"})),
]


def node(address: str, gpus: int, *missing: str) -> Node:
    return Node(f"id of {address}", address, gpus, frozenset(missing))


def nodes(**servers: tuple[str, ...]) -> NodesFile:
    """One node per name, on a machine of its own."""
    made = {
        name: GatewayNode(f"tcp://10.0.0.{i}:5570", f"tcp://10.0.0.{i}:5580", own)
        for i, (name, own) in enumerate(servers.items(), 1)
    }
    return NodesFile(made, "/keys", "")


def test_servers_that_nobody_has_named_are_placed_and_a_standby_keeps_away_from_what_it_stands_in_for() -> (
    None
):
    known = [node("10.0.0.1", 2), node("10.0.0.2", 1), node("10.0.0.9", 8)]
    file = nodes(a=(), b=())
    at = found(file, known)
    made = dealt(file, "nodes.yaml", PARTS, at)
    servers = {name: one.servers for name, one in made.nodes.items()}
    assert servers == {"a": ("gpu0", "standby0"), "b": ("gpu1",)}, "the third machine has no gateway"


def test_servers_stay_on_the_nodes_that_a_person_has_given_them() -> None:
    file = nodes(a=("gpu1",), b=("gpu0", "standby0"))
    at = found(file, [node("10.0.0.1", 1), node("10.0.0.2", 2)])
    assert dealt(file, "nodes.yaml", PARTS, at) is file
    first, second = places(file, PARTS, at, ["/factory.yaml"], ["serve", "/factory.yaml"])
    assert (first.name, first.address, first.gpus, second.gpus) == ("a", "10.0.0.1", 1, 2)
    assert first.words == ("serve", "/factory.yaml", "--node", "a")
    assert first.needs == ("/factory.yaml", "/w/policy")
    assert place_from({**vars(first), "needs": list(first.needs), "words": list(first.words)}) == first


@pytest.mark.parametrize(
    ("known", "servers", "cause"),
    [
        ([node("10.0.0.1", 2)], {"a": (), "b": ()}, "node_unreachable"),
        ([node("10.0.0.1", 1), node("10.0.0.2", 1)], {"a": (), "b": ()}, "too_few_gpus"),
        ([node("10.0.0.1", 1), node("10.0.0.2", 3)], {"a": ("gpu0", "gpu1"), "b": ("standby0",)}, "too_few_gpus"),
        ([node("10.0.0.1", 3), node("10.0.0.2", 3, "/w/policy")], HALVES, "weights_missing"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(
    known: list[Node], servers: dict[str, tuple[str, ...]], cause: str
) -> None:
    file = nodes(**servers)
    with pytest.raises(RayError) as error:
        dealt(file, "nodes.yaml", PARTS, found(file, known))
    assert error.value.cause == cause


def test_a_server_that_the_schedule_does_not_have_is_refused() -> None:
    file = nodes(a=("gpu0", "gpu1"), b=("gpu7",))
    with pytest.raises(ConfigError, match="gpu7"):
        dealt(file, "nodes.yaml", PARTS, found(file, [node("10.0.0.1", 8), node("10.0.0.2", 8)]))


def test_the_nodes_file_that_travels_is_read_as_the_same_one() -> None:
    file = nodes(a=("gpu1",), b=("gpu0", "standby0"))
    assert nodes_from(content(file), "travels") == file
    assert host_of("tcp://[::1]:5580") == "::1"
