"""The calls that other gateways have forwarded to this one: each is taken once and answered once. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rosa_server.plan.peering import Forward

REMEMBERED_S = 10.0  # after its answer: a message that was doubled does not travel for so long


@dataclass(slots=True)
class Guest:
    """One forwarded call. Its connection here is a name that no robot's connection has."""

    node: str
    asked: Forward
    epoch: int  # in which it was taken
    done_s: float | None = None  # answered then

    @property
    def connection(self) -> bytes:
        return connection_of(self.node, self.asked.life, self.asked.number)

    def ends(self, now_s: float) -> None:
        """It is answered now. Its name is remembered, and its pictures are not."""
        self.done_s, self.asked = now_s, replace(self.asked, frames=())


def connection_of(node: str, life: str, number: int) -> bytes:
    """The name under which a forwarded call stands in the ledger."""
    return f"@{node}/{life}/{number}".encode()


class Guests:
    """By connection; those that were answered are remembered for a while."""

    def __init__(self) -> None:
        self._guests: dict[bytes, Guest] = {}

    def __len__(self) -> int:
        return len(self._guests)

    def get(self, connection: bytes) -> Guest | None:
        return self._guests.get(connection)

    def takes(self, guest: Guest) -> bool:
        """False where this very call was taken before."""
        if guest.connection in self._guests:
            return False
        self._guests[guest.connection] = guest
        return True

    def open(self, node: str = "") -> Iterator[Guest]:
        """Those of a gateway, or of all, that have no answer yet."""
        return (one for one in list(self._guests.values()) if one.done_s is None and node in ("", one.node))

    def sweep(self, now_s: float) -> None:
        """Forget those that were answered long ago."""
        for connection, one in list(self._guests.items()):
            if one.done_s is not None and now_s > one.done_s + REMEMBERED_S:
                del self._guests[connection]
