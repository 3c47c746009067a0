"""Every accepted request has a ticket, and every ticket ends exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Call:
    """One accepted request on its way through the server. Times are this machine's monotonic seconds."""

    ticket: int
    connection: bytes  # ZeroMQ identity of the robot's connection
    robot_id: str
    component: str
    model: str
    request_id: int
    arrived_s: float
    deadline_s: float
    frames: Sequence[Any]  # as the robot sent them; opaque here
    rank_s: float  # order in the queue: its own deadline, or the earlier one that it inherited by replacing
    queue: str | None = None  # where it belongs now; None: nowhere, its robot has left
    since_s: float = 0.0  # since when its stream waits; set by the queue
    dispatched_s: float = 0.0
    attempts: int = 0  # how many workers have taken it
    worker_id: str = ""  # the last of them
    over_rate: bool = False  # its robot sends faster than it may: it runs when nothing else waits
    slo_s: float = (
        0.0  # of its component, by which a batch that hangs is known; the budget is the robot's own word
    )
    network_s: float = (
        0.0  # what the way there and back may take beyond what its robot has taken off the budget
    )
    pace: float = 0.0  # what its robot is told with the answer; 0: nothing
    observation: str = (
        ""  # what it is about, named so that no other session can name it; empty: nothing is said
    )
    key: tuple[str, str] = field(init=False)  # robot and component

    @property
    def due_s(self) -> float:
        """When its answer has to leave: its robot counts its deadline from sending, and until the answer is there."""
        return self.deadline_s - self.network_s

    def __post_init__(self) -> None:
        self.key = self.robot_id, self.component


class Ledger:
    """The open tickets."""

    def __init__(self) -> None:
        self._open: dict[int, Call] = {}
        self._of: dict[bytes, dict[int, Call]] = {}  # by connection
        self._next = 0

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Call]:
        return iter(list(self._open.values()))

    def of(self, connection: bytes) -> list[Call]:
        """The open calls of one connection."""
        return list(self._of.get(connection, {}).values())

    def open(
        self,
        connection: bytes,
        robot_id: str,
        component: str,
        model: str,
        request_id: int,
        now_s: float,
        budget_ms: float,
        frames: Sequence[Any],
        queue: str | None = None,
    ) -> Call:
        """Accept a request whose deadline is `budget_ms` from now, and which belongs to `queue`."""
        deadline_s = now_s + budget_ms / 1000
        ticket = self.new_ticket()
        times = (now_s, deadline_s)
        call = Call(
            ticket, connection, robot_id, component, model, request_id, *times, frames, deadline_s, queue
        )
        self._open[ticket] = call
        self._of.setdefault(connection, {})[ticket] = call
        return call

    def new_ticket(self) -> int:
        """A number that no other call has; of a copy, which never is open."""
        self._next += 1
        return self._next - 1

    def is_open(self, ticket: int) -> bool:
        return ticket in self._open

    def close(self, call: Call) -> bool:
        """End a ticket. False when it has ended before: a call must not be answered twice."""
        if self._open.pop(call.ticket, None) is None:
            return False
        own = self._of[call.connection]
        del own[call.ticket]
        if not own:
            del self._of[call.connection]
        return True
