"""One gateway of several: what `rosa serve --nodes FILE --node NAME` makes of the nodes file and the schedule."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any, ClassVar

import zmq

from rosa_contract.config.factory import Factory
from rosa_contract.endpoint import is_loopback
from rosa_contract.errors import CausedError
from rosa_contract.wording import nearest
from rosa_server.plan.admission import AdmissionControl, NoAdmission
from rosa_server.plan.fleet_plan import FleetPlan
from rosa_server.plan.nodes import NodePlan, fingerprint, homes
from rosa_server.plan.nodes_file import NodesFile, check_servers
from rosa_server.plan.peering import PeerHello
from rosa_server.plan.placement import Placement
from rosa_server.serving.base.peer_keys import PeerKeys
from rosa_server.serving.core.forwarding.node import NO_MORE, NodeCore
from rosa_server.serving.core.sessions.homes import SlotTokens
from rosa_server.serving.edge.peer_desk import PeerDesk
from rosa_server.serving.edge.peer_links import PeerLinks
from rosa_server.serving.edge.slots_file import SlotsFile, state_folder

FIRST_EPOCH = 1  # of the schedule that a gateway starts with


class JoinError(CausedError):
    """This cannot be one of several gateways."""

    CAUSES: ClassVar = {
        "no_schedule": "several gateways must share a schedule, but none was given",
        "unknown_node": "the nodes file has no node with this name",
        "no_keys": "gateways must authenticate to each other, but no key folder was given",
        "not_here": "`server_cluster.cluster` is not `local`, so a node cannot start its own workers",
    }


@dataclass(frozen=True)
class SharedSchedule:
    """What this gateway and the others have to agree about, and what it alone has."""

    nodes: NodePlan
    placement: Placement
    schedule: str  # its fingerprint
    endpoints: dict[str, str]  # node -> where its gateway listens for the others
    keys: PeerKeys
    slots: SlotsFile
    written: Mapping[str, Any] = field(default_factory=dict)  # the schedule, as its file has it
    file: str = ""

    def core(self, factory: Factory, clients: Iterable[str] = ()) -> NodeCore:
        """`clients`: how the names of robots behind this gateway's frontends begin. Raises `SlotsFileError` where it is
        not known which slots robots have."""
        # A proof of a slot of another schedule is none.
        seal = hmac.new(self.keys.seal, self.schedule.encode(), sha256).digest()
        kept = self.slots.load()
        tokens = SlotTokens(seal)
        # With keys clients of frontends have names of their own, under which they come back. On loopback they may go
        # to another gateway.
        stay = not factory.gateway.curve_keys and not is_loopback(self.nodes.gateways[self.nodes.here])
        passing = tuple(clients) if stay else ()
        begun = (self.placement, self.nodes.server_on, self.nodes.home, (), self.written, self.file)
        about = (token_hex(8), tokens, kept, self.slots, passing, self.slots.plan or FleetPlan(*begun))
        return NodeCore(factory, self.placement, self.nodes, *about)

    def desk(
        self,
        core: NodeCore,
        context: zmq.Context[zmq.Socket[bytes]],
        max_message_bytes: int,
        count: Callable[[str], None],
    ) -> PeerDesk:
        """`count`: told the cause with which a connection is cut off."""
        hello = PeerHello(self.nodes.here, core.life, self.schedule)
        return PeerDesk(core, PeerLinks(context, hello, self.endpoints, self.keys, max_message_bytes, count))

    def own_workers(self, core: NodeCore) -> Placement:
        """What the cluster of this node starts."""
        seen = core.router.placement
        return replace(seen, replicas={name: one for name, one in seen.replicas.items() if not one.node})


def as_planned(joined: SharedSchedule) -> tuple[Placement, AdmissionControl]:
    """What such a gateway runs: its schedule, for the planned robots."""
    return joined.placement, NoAdmission(NO_MORE)


def join(
    factory: Factory,
    placement: Placement | None,
    nodes: NodesFile,
    source: str,
    here: str,
    written: Mapping[str, Any] | None = None,
    path: str = "",
) -> SharedSchedule:
    """`written`: the schedule as its file `path` has it, for whoever plans another one.

    Raises `JoinError`, `ConfigError` for a nodes file that does not fit the schedule, `KeyFileError`.
    """
    if here not in nodes.nodes:
        words = f"{source}: no node {here!r}{nearest(here, nodes.nodes)}; it has {', '.join(nodes.nodes)}"
        raise JoinError("unknown_node", words)
    if placement is None or placement.routes is None:
        raise JoinError("no_schedule", "--nodes needs --schedule, made by `rosa plan CONFIG --json`")
    if factory.server_cluster.cluster != "local":
        words = (
            f"--nodes: each node starts its own workers; cluster: {factory.server_cluster.cluster} does not."
            " `rosa up` has Ray start such a gateway on each node"
        )
        raise JoinError("not_here", words)
    folder = nodes.keys or factory.gateway.curve_keys
    if not folder:
        words = f"{source}: keys: name the folder that `rosa keys FOLDER --node NAME` makes"
        raise JoinError("no_keys", words)
    check_servers(nodes, (one.server for one in placement.replicas.values()), source)
    server_on = {server: name for name, node in nodes.nodes.items() for server in node.servers}
    # The same in every gateway, in whatever order the file names them: the one that listens first is this one.
    names = sorted(nodes.nodes)
    gateways = {name: nodes.nodes[name].robots for name in names}
    plan = NodePlan(here, server_on, homes(placement, server_on, names), gateways)
    placement = replace(placement, epoch=FIRST_EPOCH)
    endpoints = {name: nodes.nodes[name].gateways for name in names}
    schedule = fingerprint(placement, plan, factory.tasks, endpoints, factory.gateway.max_message_mb)
    port = nodes.nodes[here].robots.rpartition(":")[2]
    file = SlotsFile(Path(nodes.state) if nodes.state else state_folder(), f"{here}-{port}", schedule)
    keys = PeerKeys(folder, here, [name for name in names if name != here])
    return SharedSchedule(plan, placement, schedule, endpoints, keys, file, written or {}, path)
