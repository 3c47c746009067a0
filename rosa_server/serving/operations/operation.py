"""An order that is being carried out, and the workers that it makes end without losing a call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rosa_contract.wire.watching import Order
from rosa_server.serving.operations.names import RETIRES_S
from rosa_server.serving.operations.order import Site


@dataclass(frozen=True)
class End:
    """An operation has ended. `cause`: why it was not carried out; empty: it was."""

    cause: str
    words: str


@dataclass
class _Retiring:
    """A worker that ends when it has finished."""

    worker_id: str
    until_s: float
    told: bool = False


class Retirement:
    """Workers that get nothing more, finish what they have, and end."""

    def __init__(self, site: Site, order: Order) -> None:
        self._site, self._order = site, order
        self._retiring: list[_Retiring] = []

    def __len__(self) -> int:
        return len(self._retiring)

    def add(self, now_s: float, worker_id: str) -> None:
        self._site.core.retire(now_s, worker_id, self._order.what)
        self._retiring.append(_Retiring(worker_id, now_s + RETIRES_S))
        words = f"{worker_id} gets no more calls"
        self._site.say(self._order, "retired", words, worker=worker_id)

    def step(self, now_s: float) -> None:
        for one in list(self._retiring):
            worker = self._site.core.pool.get(one.worker_id)
            if worker is None:
                self._retiring.remove(one)
                self._site.say(self._order, "ended", f"{one.worker_id} has ended", worker=one.worker_id)
            elif now_s > one.until_s:
                self._site.cluster.kill(one.worker_id, "it retired and did not end")
                one.until_s = now_s + RETIRES_S
            elif not worker.batches and not one.told:
                one.told = True
                self._site.send_drain(one.worker_id)


class Operation(ABC):
    """One order. `names`: the workers that nobody else may work on meanwhile."""

    exclusive = False  # nobody may work on any worker meanwhile

    def __init__(self, site: Site, order: Order, names: Iterable[str], now_s: float) -> None:
        self.site, self.order, self.names, self.since_s = site, order, frozenset(names), now_s
        self.retirement = Retirement(site, order)
        self.cancelled = False
        self.why = ""  # it is cancelled, where that is not a person's wish

    @abstractmethod
    def step(self, now_s: float, gone: Mapping[str, str]) -> End | None:
        """Go on. `gone`: workers that have ended since the last step, and why."""

    @abstractmethod
    def cancel(self, now_s: float) -> None:
        """Do no more than what is needed to end in order."""

    def let_go(self, now_s: float) -> None:  # noqa: B027 - most have nothing
        """A defect of ours has ended it midway: nothing that it kept others from stays so."""

    @property
    @abstractmethod
    def doing(self) -> str:
        """What it waits for, in a few words."""
