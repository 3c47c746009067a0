"""How much of a call's deadline its way takes, to the server and back, as the robot finds out from its answers. Pure.

A robot counts its deadline from sending until the answer is there. The server counts a budget from the call's arrival
until the answer leaves, so the budget is the deadline without the way. With the whole deadline as its budget a server
that is behind ends every call just in time for itself, which is too late for every robot.

An answer tells how long its call was at the server; the rest of its round trip was its way. The shortest way of the
newest answers counts, so that no call is given up that could be in time.
"""

from __future__ import annotations

from collections import deque

ANSWERS = 16  # that are remembered
MAX_SHARE = 0.5  # of a deadline: what an answer says is not believed beyond that
MAX_SENT = 64  # calls that are remembered until their answers come


class ShortestWay:
    """Of one robot to its server."""

    def __init__(self) -> None:
        self._sent_s: dict[int, float] = {}  # by request
        self._ways_s: deque[float] = deque(maxlen=ANSWERS)
        self._shortest_s = 0.0

    def sent(self, now_s: float, request_id: int, left_ms: float) -> float:
        """A call leaves with so much of its deadline left, ms. Returns its budget, ms: what is left of it there."""
        self._sent_s[request_id] = now_s
        if len(self._sent_s) > MAX_SENT:
            del self._sent_s[next(iter(self._sent_s))]
        return left_ms - min(1000 * self._shortest_s, MAX_SHARE * left_ms)

    def answered(self, now_s: float, request_id: int, at_server_ms: float) -> None:
        """An answer has come, in time or not, to a call that was at the server for so long, as that says."""
        sent_s = self._sent_s.pop(request_id, None)
        if sent_s is not None:
            self._ways_s.append(max(0.0, now_s - sent_s - at_server_ms / 1000))
            self._shortest_s = min(self._ways_s)

    def forget(self) -> None:
        """It has another server now."""
        self._sent_s.clear()
        self._ways_s.clear()
        self._shortest_s = 0.0
