"""How many examples a property test tries: few in `make test`, many in `make prove` (`HYPOTHESIS_PROFILE=long`).

A test whose number differs is marked `prove`, by which `make prove` finds it.
"""

from __future__ import annotations

import os

_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"


def examples(few: int, many: int) -> int:
    """`few` in `make test`, `many` in `make prove`."""
    return many if _LONG else few
