"""The bond between a managed node and nav2's lifecycle manager: heartbeats that tell whether the other still lives.

Pure. The protocol is that of the ROS package `bond`: both sides publish `bond/msg/Status` on one topic with the same
`id`, each under an `instance_id` of its own; `active: false` ends it, and the other side answers with the same. The
manager shuts its nodes down when a node is silent for its `bond_timeout`. As with nav2's own nodes, silence of the
manager ends nothing on this side: a robot does not stop because its manager was ended.

The manager speaks from the moment it has activated a node, so this side only answers: without a manager nothing is
sent. rclpy holds the GIL while it sends, for up to 2 ms on a busy machine, which delays the arm's control thread.
"""

from __future__ import annotations

from collections.abc import Mapping

from rosa_client.runtime.machines.machine import Symbol, advance

CONNECT_WITHIN_S = 10.0  # defaults of the package `bond`
DISCONNECT_WITHIN_S = 2.0
LAST_WORDS_EVERY_S = 0.05
HEARTBEAT_TIMEOUT_S = 4.0  # only told: what nav2's nodes tell


class BondState(Symbol):
    """How far the bond is."""

    WAITING = "waiting"  # this side listens, nobody has spoken
    ALIVE = "alive"
    ENDING = "ending"  # this side has ended it, and tells so until the other side knows
    DEAD = "dead"


class BondEvent(Symbol):
    """What changes it."""

    OTHER_SPEAKS = "other_speaks"
    OTHER_ENDS = "other_ends"
    END = "end"
    TIMEOUT = "timeout"  # of connecting, or of waiting for the other side's end


_S, _E = BondState, BondEvent

BOND: Mapping[tuple[BondState, BondEvent], BondState] = {
    (_S.WAITING, _E.OTHER_SPEAKS): _S.ALIVE,
    (_S.WAITING, _E.OTHER_ENDS): _S.DEAD,
    (_S.WAITING, _E.END): _S.DEAD,
    (_S.WAITING, _E.TIMEOUT): _S.DEAD,
    (_S.ALIVE, _E.OTHER_SPEAKS): _S.ALIVE,
    (_S.ALIVE, _E.OTHER_ENDS): _S.DEAD,
    (_S.ALIVE, _E.END): _S.ENDING,
    (_S.ENDING, _E.OTHER_SPEAKS): _S.ENDING,
    (_S.ENDING, _E.OTHER_ENDS): _S.DEAD,
    (_S.ENDING, _E.END): _S.ENDING,
    (_S.ENDING, _E.TIMEOUT): _S.DEAD,
    (_S.DEAD, _E.OTHER_SPEAKS): _S.DEAD,
    (_S.DEAD, _E.OTHER_ENDS): _S.DEAD,
    (_S.DEAD, _E.END): _S.DEAD,
}

SAYS: Mapping[BondState, bool | None] = {
    _S.WAITING: None,
    _S.ALIVE: True,
    _S.ENDING: False,
    _S.DEAD: None,
}


class Bond:
    """One side of one bond. Each method returns what to publish as `active`, or None for nothing."""

    def __init__(self, now_s: float, name: str, instance: str, period_s: float) -> None:
        """`name`: the bond's id, the same on both sides. `instance`: this side's own. `period_s`: of beats."""
        self.state = BondState.WAITING
        self._period_s = period_s
        self._name = name
        self._instance = instance
        self._give_up_s = now_s + CONNECT_WITHIN_S

    def beat(self, now_s: float) -> bool | None:
        """Called after `every_s`, again and again."""
        if self.state in (BondState.WAITING, BondState.ENDING) and now_s >= self._give_up_s:
            self._go(BondEvent.TIMEOUT)
        return SAYS[self.state]

    @property
    def every_s(self) -> float:
        """When `beat` is due, after the state was entered and after each beat."""
        return {BondState.WAITING: CONNECT_WITHIN_S, BondState.ENDING: LAST_WORDS_EVERY_S}.get(
            self.state, self._period_s
        )

    def hear(self, name: str, instance: str, active: bool) -> bool | None:
        """A message on the bond's topic, also those of other bonds and this side's own."""
        if name != self._name or instance == self._instance:
            return None
        before = self.state
        self._go(BondEvent.OTHER_SPEAKS if active else BondEvent.OTHER_ENDS)
        if self.state is BondState.ALIVE:
            return True if before is BondState.WAITING else None
        ended_first = self.state is BondState.DEAD and before in (BondState.WAITING, BondState.ALIVE)
        return False if ended_first else None

    def end(self, now_s: float) -> bool | None:
        """This side ends it."""
        before = self.state
        self._go(BondEvent.END)
        self._give_up_s = now_s + DISCONNECT_WITHIN_S
        return None if before is BondState.DEAD else False

    def _go(self, event: BondEvent) -> None:
        self.state = advance(BOND, self.state, event)
