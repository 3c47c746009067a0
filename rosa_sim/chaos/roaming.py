"""The link of a robot that knows several gateways, as `rosa_client/connection/link.py` has it, without a socket."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from rosa_client.connection.gateways import KnownGateways
from rosa_client.connection.greeting import Greeting
from rosa_contract.wire.messages import Hello, Message, Response


class RoamingLink(Greeting):
    """Its endpoints are the names of the nodes."""

    def __init__(self, endpoints: Sequence[str], hello: Hello) -> None:
        super().__init__(endpoints[0], hello)
        self.known = KnownGateways(endpoints)
        self.lost_s = inf  # when it hears that its connection has ended
        self._learned: Sequence[str] = ()

    def take(self, message: Message) -> Response | None:
        answer = super().take(message)
        if self.gateways is not self._learned:
            self._learned = self.gateways
            self.known.learn(self.gateways)
        return answer

    def moves(self, now_s: float) -> str:
        """The gateway that it leaves now for another one; empty: it stays."""
        if self.ready and now_s >= self.lost_s:
            self.lost("disconnected", f"the connection to {self.endpoint} has ended")
        if not self.known.turns(now_s, self.ready, self.cause):
            return ""
        before, self.endpoint = self.endpoint, self.known.current
        self.begin_anew(self.known.token(before, self.hello.token))
        self.lost_s = inf
        return before

    def next_due_s(self) -> float:
        return min(super().next_due_s(), self.known.next_turn_s(), self.lost_s if self.ready else inf)
