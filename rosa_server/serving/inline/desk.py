"""Models that run in the gateway's own thread, and the workers that stand ready to take their places.

To the core such a model is one more worker, in life 0 of the worker that stands beside it: `policy/0.0` and
`policy/0.1`. While the first one serves, the second one has announced itself to the gateway but not to the core.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rosa_contract.wire import messages as m
from rosa_server.serving.base import log
from rosa_server.serving.inline.worker import InlineEnds

LIFE = ".0"  # of a worker; those of processes begin with 1


class Inline(Protocol):
    """A model in this thread; see `serving/inline/worker.py`."""

    def ready(self) -> m.WorkerReady:
        """What it takes, under its worker's id."""

    def answered(self, batch: m.Execute) -> m.Executed:
        """Raises `InlineEnds` where it has no answer."""

    def look_back(self) -> InlineEnds | None:
        """After the answers have left: why it is over, if it is."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Over:
    """A model runs here no more."""

    worker_id: str
    why: InlineEnds
    spare: m.WorkerReady | None  # what takes its place; None: none is ready


class InlineDesk:
    """Of one gateway."""

    def __init__(self, models: Sequence[Inline]) -> None:
        self._models = {one.ready().worker_id: one for one in models}
        self._spares: dict[str, m.WorkerReady] = {}  # by the id of the worker that serves in their place
        self._ran: list[str] = []  # since the last `look_back`
        self._stopped: dict[str, InlineEnds] = {}

    @property
    def ready(self) -> list[m.WorkerReady]:
        """The models that run here, as they announce themselves."""
        return [one.ready() for one in self._models.values()]

    @property
    def waits(self) -> bool:
        """Whether `look_back` has something to do."""
        return bool(self._ran or self._stopped)

    def has(self, worker_id: str) -> bool:
        """Whether this is a model that runs here."""
        return worker_id in self._models

    def run(self, worker_id: str, batch: m.Execute) -> m.Executed | None:
        """Have a model run a batch. None where there is no answer: `look_back` says why."""
        self._ran.append(worker_id)
        if worker_id in self._stopped:
            return None
        try:
            return self._models[worker_id].answered(batch)
        except InlineEnds as error:
            self._stopped[worker_id] = error
            return None

    def stop(self, worker_id: str, why: InlineEnds) -> None:
        """It shall run no more; `look_back` ends it."""
        if worker_id in self._models:
            self._stopped.setdefault(worker_id, why)

    def look_back(self) -> list[Over]:
        """Once the answers have left: which models run here no more."""
        for worker_id in self._ran:
            if worker_id not in self._stopped and (why := self._models[worker_id].look_back()) is not None:
                self._stopped[worker_id] = why
        over = []
        for worker_id, why in self._stopped.items():
            log.error("inline_ended", worker=worker_id, cause=why.cause, reason=str(why))
            over.append(Over(worker_id, why, self.end(worker_id)))
        self._ran.clear()
        self._stopped.clear()
        return over

    def keeps(self, ready: m.WorkerReady) -> bool:
        """Whether a worker whose model runs here stands ready from now on. Not where it is another life than the first:
        it may have another model, and the one that runs here ends."""
        name = ready.worker_id.rpartition(".")[0]
        worker_id = name + LIFE
        if worker_id not in self._models:
            return False
        if ready.worker_id != f"{name}.1":
            self.stop(worker_id, InlineEnds("replaced", f"{ready.worker_id} is ready"))
            return False
        self._spares[worker_id] = ready
        return True

    def lost(self, worker_id: str) -> None:
        """A process has ended."""
        self._spares = {name: one for name, one in self._spares.items() if one.worker_id != worker_id}

    def end(self, worker_id: str) -> m.WorkerReady | None:
        """A model runs here no more. Returns the worker that stands ready for it, if it does."""
        self._models.pop(worker_id).close()
        return self._spares.pop(worker_id, None)

    def close(self) -> None:
        for worker_id in list(self._models):
            self.end(worker_id)
