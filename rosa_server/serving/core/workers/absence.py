"""Workers of other machines whose link has ended or is silent: for how long, and which of their answers count no more.

The link ends with the worker, with its node, and with the network between. Its calls run elsewhere at once. A worker
that comes back, the same process with its model still loaded, may work again, but what it was given before its link
ended was given to others meanwhile: batches are numbered in the order in which they are given, so a number says which.
"""

from __future__ import annotations

from collections.abc import Collection

# A link that is back by then was cut; a worker that is not is given up, and another one starts.
GIVE_UP_S = 10.0


class Absences:
    """Which workers are away. A worker that has never announced itself is not."""

    def __init__(self, give_up_s: float = GIVE_UP_S) -> None:
        self._give_up_s = give_up_s
        self._since_s: dict[str, float] = {}
        self._owes: dict[str, int] = {}  # stale batches that a slow worker still holds
        self._first_batch: dict[str, int] = {}  # that counts
        self._silent: set[str] = set()  # passed over; their link holds
        self._quiet_since_s: dict[str, float] = {}

    def link_ended(self, worker_id: str, now_s: float) -> None:
        """Its calls are given to others."""
        self._since_s.setdefault(worker_id, self._quiet_since_s.get(worker_id, now_s))
        self._silent.discard(worker_id)  # it has to announce itself again

    def quiet(self, silent: Collection[str], now_s: float) -> list[str]:
        """The links of these workers hold, and nothing comes over them. Returns which was passed over for that and is
        heard again: it may work."""
        self._quiet_since_s = {name: self._quiet_since_s.get(name, now_s) for name in silent}
        return sorted(self._silent.difference(silent))

    def passed_over(self, worker_id: str, now_s: float) -> None:
        """The calls of a silent worker are given to others until something is heard of it."""
        self._since_s.setdefault(worker_id, self._quiet_since_s.get(worker_id, now_s))
        self._silent.add(worker_id)

    def announced(self, worker_id: str, now_s: float, next_batch: int) -> float:
        """It is here, for the first time or again. `next_batch`: the number of the batch that is given next, to
        whatever worker. Returns for how long it was away, in seconds."""
        self._first_batch[worker_id] = next_batch
        self._owes.pop(worker_id, None)
        self._silent.discard(worker_id)
        return now_s - self._since_s.pop(worker_id, now_s)

    def slow(self, worker_id: str, now_s: float, batches: int) -> None:
        """It is alive and far too slow: the batches that it holds are given to others. It may come back when it has
        answered all of them."""
        self._since_s.setdefault(worker_id, now_s)
        self._owes[worker_id] = batches

    def answered_late(self, worker_id: str) -> bool:
        """A stale batch has come. Whether a slow worker has now answered all that it held."""
        left = self._owes.get(worker_id, 0) - 1
        if left > 0:
            self._owes[worker_id] = left
            return False
        return self._owes.pop(worker_id, None) is not None

    def away(self, worker_id: str) -> bool:
        return worker_id in self._since_s

    def stale(self, worker_id: str, batch_id: int) -> bool:
        """Whether a batch was given to this worker before it announced itself last: others have been given it since."""
        return batch_id < self._first_batch.get(worker_id, 0)

    def given_up(self, now_s: float) -> list[str]:
        """The workers that have been away for too long; they are forgotten."""
        gone = [name for name, since_s in self._since_s.items() if now_s - since_s >= self._give_up_s]
        for name in gone:
            self.forget(name)
        return gone

    def forget(self, worker_id: str) -> None:
        """This life of the worker is over."""
        self._since_s.pop(worker_id, None)
        self._owes.pop(worker_id, None)
        self._silent.discard(worker_id)
        self._first_batch.pop(worker_id, None)
