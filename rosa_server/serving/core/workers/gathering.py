"""Which worker knows an observation: calls about the same one go to the same worker, which then looks at it once.

OxyGen 3.3: the prefix of an observation is computed once and read by all who ask about it. A worker can only share what
it has, so where several workers serve a model that shares, the one that was given an observation first gets the rest.
"""

from __future__ import annotations

from rosa_server.serving.core.queueing.ledger import Call

MOST = 4096  # observations that are remembered; the oldest is forgotten first


class Gathering:
    """The workers by the observations that they were given lately."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._worker_of: dict[str, str] = {}

    def given(self, worker_id: str, calls: list[Call]) -> None:
        """A worker that shares was given these calls."""
        for call in calls:
            if call.observation:
                self._worker_of.pop(call.observation, None)
                self._worker_of[call.observation] = worker_id
        while len(self._worker_of) > self._most:
            del self._worker_of[next(iter(self._worker_of))]

    def worker_of(self, calls: list[Call]) -> str | None:
        """Who was given the observation of the first of these calls that has one; None: nobody that is still here."""
        observation = next((call.observation for call in calls if call.observation), "")
        return self._worker_of.get(observation)

    def forget(self, worker_id: str) -> None:
        """A worker is gone, and with it what it knew."""
        self._worker_of = {name: worker for name, worker in self._worker_of.items() if worker != worker_id}
