"""What is known of a connection, and of the address that it comes from."""

from __future__ import annotations

from dataclasses import dataclass, field

from rosa_server.serving.core.guard.bucket import Bucket


@dataclass(frozen=True, slots=True)
class Close:
    """Cut a connection off. `cause` is a key of CAUSES."""

    key: int
    address: str
    port: int
    robot: str  # empty for a stranger
    cause: str
    reason: str


@dataclass(slots=True)
class Connection:
    """One accepted connection."""

    key: int
    address: str
    port: int
    since_s: float
    time: Bucket
    bad: Bucket
    seen_s: float  # when it last said something understandable; at first, when it was accepted
    silent: bool = True
    robot: str = ""  # which one was welcomed on it
    limit_bytes: int = 0
    largest_request: int = 0
    delivered: int = 0  # bytes that came out of it as whole messages
    held: int = 0
    answered: int = 0  # bytes of answers that were given to the socket
    taken: int = 0  # bytes that its machine has acknowledged
    progress_s: float = 0.0  # when it last took some, or had nothing to take
    spent_s: float = 0.0  # as a stranger
    cut: bool = False

    @property
    def unread(self) -> int:
        """Bytes of answers that it has not taken."""
        return self.answered - self.taken


@dataclass
class Address:
    """What is known of a peer's address."""

    time: Bucket
    connections: int = 0
    strangers: dict[int, None] = field(default_factory=dict)  # keys, the longest here first
    silent: dict[int, None] = field(default_factory=dict)  # those of them that have said nothing
    offended_s: float = float("-inf")
    wait_s: float = 0.0
    waits_until_s: float = float("-inf")
