"""What a gateway hears of the other gateways of its schedule, and what it tells them: between core and links."""

from __future__ import annotations

from collections import deque

from rosa_contract.errors import CodecError
from rosa_contract.wire import codec
from rosa_server.plan.peering import Beat, Forward, Forwarded, PeerOrder, PeerOrderTold, ToDesk, ToPeer
from rosa_server.serving.base.peer_keys import PeerKeys
from rosa_server.serving.base.readiness import Readiness
from rosa_server.serving.core.forwarding.node import NodeCore
from rosa_server.serving.core.forwarding.peer import HERE
from rosa_server.serving.core.queueing.actions import Tell
from rosa_server.serving.core.sessions.session import misfit, request_fields
from rosa_server.serving.edge.peer_links import PeerLinks

MAX_ORDERS = 256  # that were heard and are not taken yet


class PeerDesk:
    """Of one of several gateways. Not thread-safe."""

    def __init__(self, core: NodeCore, links: PeerLinks) -> None:
        self._core, self._links = core, links
        self._orders: deque[tuple[str, ToDesk]] = deque(maxlen=MAX_ORDERS)

    @property
    def keys(self) -> PeerKeys:
        """Those of the gateways that may connect."""
        return self._links.keys

    def open(self, readiness: Readiness) -> None:
        """Raises `zmq.ZMQError` where it cannot listen."""
        self._links.listen()
        self._links.register(readiness)

    def close(self) -> None:
        self._links.close()

    def step(self, now_s: float, at_once: bool = False) -> None:
        """Tell the core which links have ended, and which are silent. `at_once`: the poller has found something."""
        for node in self._links.look(now_s, at_once):
            self._core.peer_ended(now_s, node)
        for node in self._links.silent():
            self._core.peer_quiet(now_s, node)
        if at_once:
            for node, message in self._links.received(now_s):
                self._hear(now_s, node, message)

    def tell(self, now_s: float, tell: Tell) -> None:
        """What cannot be sent is lost, with the link: its calls run elsewhere."""
        if not self._links.send(tell.node, tell.message) and isinstance(tell.message, Forward):
            self._core.peer_ended(now_s, tell.node)

    def reaches(self, node: str) -> bool:
        """Whether the gateway of this node is there."""
        return self._core.peers[node].state == HERE and self._links.reaches(node)

    def heard_orders(self) -> list[tuple[str, ToDesk]]:
        """What other gateways have said about orders since this was asked last."""
        heard = list(self._orders)
        self._orders.clear()
        return heard

    def say(self, node: str, message: ToDesk) -> bool:
        """About an order of a person; false where it is lost."""
        return self._links.send(node, message)

    def _hear(self, now_s: float, node: str, message: ToPeer | ToDesk) -> None:
        if isinstance(message, PeerOrder | PeerOrderTold):
            self._orders.append((node, message))
            return
        if isinstance(message, Beat) and (message.node != node or not self._links.reaches(node)):
            return  # whoever cannot be told anything is not there
        if isinstance(message, Forward) and (wrong := self._misfit(message)) is not None:
            names = (message.number, message.life, self._core.epoch, message.session, message.request_id)
            self._links.send(node, Forwarded(*names, "", *wrong))
            return
        self._core.on_peer(now_s, node, message)

    def _misfit(self, asked: Forward) -> tuple[str, str] | None:
        """(cause, reason) why no worker here is given this request. The other gateway has looked as well, at what its
        own workers of the model take."""
        try:
            header = codec.read_robot_header(asked.frames)
            if header["type"] != "request" or request_fields(header)[:2] != (
                asked.request_id,
                asked.component,
            ):
                return "bad_field", "forward: the request is not the one that its header names"
        except CodecError as error:
            return error.cause, str(error)
        own = self._core.router.placement.replicas.get(asked.replica)
        return misfit(header, asked.frames, self._core.router.needs_of(own.model)) if own else None
