"""Waits, but not for ever, for a thread that serves calls once a period."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


def answer_within(asked: Future[Result], seconds: float) -> Result:
    """The result, or what the call raised. Raises `TimeoutError` when nobody has begun to serve it within `seconds`.

    The call is then withdrawn: what was reported as not done must not be done later. A call that is being served at
    that moment is waited for, because nobody can say yet how it ends.
    """
    try:
        return asked.result(timeout=seconds)
    except TimeoutError:
        if asked.cancel():
            raise
        return asked.result()
