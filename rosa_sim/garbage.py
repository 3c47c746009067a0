"""Searching for garbage while a fleet is simulated: seldom, and never among what was there before the first one."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_frozen: list[bool] = []  # asking Python for the number of frozen objects would count them, one by one
OBJECTS = 100_000  # new ones between two searches; a simulation makes hardly any garbage that has to be searched for


@contextmanager
def searched_seldom() -> Iterator[None]:
    """Make the simulation and run it within this. The one before is freed first: its parts know each other.

    A full search takes half a second where many modules are loaded, so what is there at the first time is left out from
    then on.
    """
    gc.collect()
    if not _frozen:
        gc.freeze()
        _frozen.append(True)
    usual = gc.get_threshold()
    gc.set_threshold(OBJECTS, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
