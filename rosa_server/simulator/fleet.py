"""Robots under the simulated clock of their servers (`servers.py`). Deterministic by seed.

Messages are the contract's, as the gateway sees them before and after the codec; nothing is encoded. What a robot does
is a subclass's: scripted (`scripted.py`), or production's core (`rosa_sim/fleet`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from math import inf
from random import Random
from typing import Any, Generic, TypeVar

from rosa_contract.wire.messages import ToRobot
from rosa_server.simulator.network import IDEAL, Network, Way
from rosa_server.simulator.servers import TO_GATEWAY, TO_ROBOT, WAKE, Serving, SimulatedServers

NO_FRAMES = (b"",)


class Seat:
    """A robot's place in a simulation: its connection with its two ways, and its next wake-up in the heap."""

    def __init__(self, connection: bytes, network: Network, rng: Random) -> None:
        self.connection = connection
        self.up, self.down = Way(network, rng), Way(network, rng)
        self.wake_s = inf


SeatT = TypeVar("SeatT", bound=Seat)


class SimulatedFleet(SimulatedServers, Generic[SeatT]):
    """A subclass says what robots do with messages (`_to_robot`) and when their time has come (`_wake`)."""

    def __init__(
        self,
        serving: Serving,
        network: Network = IDEAL,
        seed: int = 0,
        window: tuple[float, float] = (0.0, inf),
        watch: Callable[[float, Any], None] | None = None,
    ) -> None:
        """`window`: when GPU time counts. `watch` sees every action of the serving core, with its time."""
        super().__init__(serving, seed, window, watch)
        self._network = network
        self._seats: dict[bytes, SeatT] = {}

    def network_becomes(self, network: Network) -> None:
        """The way between every robot and the gateway is another one from now on."""
        self._network = network
        for seat in self._seats.values():
            seat.up.becomes(network)
            seat.down.becomes(network)

    def _happens(self, now_s: float, kind: int, subject: Any, what: Any) -> bool:
        if kind == WAKE:
            if now_s == subject.wake_s:  # else another one counts
                subject.wake_s = inf
                self._wake(now_s, subject)
        elif kind == TO_ROBOT:
            self._to_robot(now_s, subject, what)
        else:
            self._to_gateway(now_s, subject, what)
            return True
        return False

    # -- robots --------------------------------------------------------------------------------------------------------

    @abstractmethod
    def _wake(self, now_s: float, seat: SeatT) -> None:
        """A robot's time has come."""

    @abstractmethod
    def _to_robot(self, now_s: float, seat: SeatT, message: ToRobot) -> None:
        """A message has arrived at a robot."""

    def _wake_at(self, now_s: float, seat: SeatT, due_s: float) -> None:
        """A robot has something to do then; the former time is passed over when it comes."""
        wake_s = max(now_s, due_s)
        if wake_s != seat.wake_s:
            seat.wake_s = wake_s
            if wake_s < inf:
                self._at(wake_s, WAKE, seat, None)

    # -- messages ------------------------------------------------------------------------------------------------------

    def _send(self, now_s: float, seat: SeatT, message: Any) -> None:
        arrives_s = seat.up.arrives_s(now_s)
        if arrives_s is not None:
            self._at(arrives_s, TO_GATEWAY, seat, message)

    def _to_gateway(self, now_s: float, seat: SeatT, message: Any) -> None:
        if type(message) is dict:
            self.core.on_request(now_s, seat.connection, message, NO_FRAMES)
        else:
            self.core.on_robot(now_s, seat.connection, message)

    def _say(self, now_s: float, connection: bytes, message: ToRobot) -> None:
        seat = self._seats[connection]
        arrives_s = seat.down.arrives_s(now_s)
        if arrives_s is not None:
            self._at(arrives_s, TO_ROBOT, seat, message)
