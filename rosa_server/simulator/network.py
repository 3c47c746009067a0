"""The way between a robot and its gateway: how long a message takes, whether it arrives. Order is kept, as by TCP."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from rosa_contract.setting import setting


@dataclass(frozen=True)
class Network:
    """One way, of every robot."""

    latency_ms: float = setting("one way, at least", 0.5, at_least=0, at_most=10_000)
    jitter_ms: float = setting("on top of it, uniform from 0 to this", 0.0, at_least=0, at_most=10_000)
    loss: float = setting("share of messages that never arrive", 0.0, at_least=0, at_most=1)


IDEAL = Network(latency_ms=0.0)


class Way:
    """One direction of one robot's connection."""

    def __init__(self, network: Network, rng: Random) -> None:
        self._random = rng
        self._last_s = 0.0
        self.becomes(network)

    def becomes(self, network: Network) -> None:
        """From now on it is as this network."""
        self._loss = network.loss
        self._latency_s, self._jitter_s = network.latency_ms / 1000, network.jitter_ms / 1000

    def arrives_s(self, now_s: float) -> float | None:
        """When a message that leaves now arrives; None: it is lost."""
        at_s = now_s + self._latency_s
        if self._loss and self._random.random() < self._loss:
            return None
        if self._jitter_s:
            at_s += self._jitter_s * self._random.random()
        at_s = self._last_s = max(at_s, self._last_s)
        return at_s
