"""What a backend's engine says that it has done, as far as it can be sent: it may be anybody's code."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from rosa_contract.wire.bounds import MAX_COUNTS, MAX_ID, MAX_NAME_CHARS
from rosa_server.serving.base import log
from rosa_server.serving.worker.answers import short


class Counts:
    """`counts()` of one backend; one that raises is not asked again."""

    def __init__(self, ask: Callable[[], Mapping[str, int]] | None, worker_id: str) -> None:
        """`ask`: see `Capabilities.counts`; a backend need not count anything."""
        self._ask = ask
        self._worker_id = worker_id

    def read(self) -> dict[str, int]:
        """Whole numbers by name, at most `MAX_COUNTS`; what is none is left out."""
        if self._ask is None:
            return {}
        try:
            told = {
                name: int(operator.index(count))
                for name, count in self._ask().items()
                if isinstance(name, str) and 0 < len(name) <= MAX_NAME_CHARS and hasattr(count, "__index__")
            }
        except Exception as error:
            log.warning("counts_failed", worker=self._worker_id, error=short(error))
            self._ask = None
            return {}
        return {name: count for name, count in list(told.items())[:MAX_COUNTS] if 0 <= count <= MAX_ID}
