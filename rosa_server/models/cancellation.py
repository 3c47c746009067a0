"""Whether anybody still waits for an answer: the worker says when nobody does, the model or its engine listens."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock


class Cancellation:
    """Of one request. Any thread may ask, listen and cancel."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._cancelled = False
        self._listeners: list[Callable[[], object]] = []

    @property
    def cancelled(self) -> bool:
        """True once nobody waits any more."""
        return self._cancelled

    def cancel(self) -> None:
        """Nobody waits any more. Listeners are called once, in this thread."""
        with self._lock:
            self._cancelled = True
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

    def when(self, listener: Callable[[], object]) -> None:
        """Call `listener` when it is cancelled: at once, where it has been."""
        with self._lock:
            if not self._cancelled:
                self._listeners.append(listener)
                return
        listener()
