"""To ask a thread that serves calls once a period, without waiting for ever."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TypeVar

Answer = TypeVar("Answer")


def answer_within(asked: Future[Answer], seconds: float) -> Answer:
    """The answer, or what the call raised. Raises `TimeoutError` when nobody has begun to serve it within `seconds`.

    It is withdrawn then: what is told as not done is not done later. A call that is being served just then is waited
    for, as nobody can say yet what becomes of it.
    """
    try:
        return asked.result(timeout=seconds)
    except TimeoutError:
        if asked.cancel():
            raise
        return asked.result()
