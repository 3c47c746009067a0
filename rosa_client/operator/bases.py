"""Where robots stand in the panel's frame: as the parameter says, and the others in a row beside them."""

from __future__ import annotations

import math

from rosa_client.operator.layout import SPACING_M, Base
from rosa_contract.errors import ConfigError, ConfigProblem


def parse_bases(text: str) -> dict[str, Base]:
    """'panda0: x y z yaw; panda1: x y z yaw' (m, rad) by namespace. Raises `ConfigError` for anything else."""
    places = {}
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        name, colon, rest = entry.partition(":")
        try:
            values = [float(word) for word in rest.split()]
        except ValueError:
            values = []
        if not colon or not name.strip("/ ") or len(values) != 4 or not all(map(math.isfinite, values)):
            words = f"expected 'namespace: x y z yaw; ...' in m and rad, got {entry!r}"
            raise ConfigError("bases", [ConfigProblem("", "wrong_type", words)])
        places["/" + name.strip("/ ")] = Base(*values)
    return places


def format_bases(places: dict[str, Base]) -> str:
    """The text that `parse_bases` reads."""
    return "; ".join(
        f"{name.strip('/')}: {base.x_m:g} {base.y_m:g} {base.z_m:g} {base.yaw_rad:g}"
        for name, base in places.items()
    )


class Bases:
    """A place for every robot. A place that was given to a robot stays its own."""

    def __init__(self, known: dict[str, Base]) -> None:
        self._places = dict(known)

    def of(self, namespace: str) -> Base:
        """The place of a robot. A robot without a configured place stands beside the last one."""
        if namespace not in self._places:
            taken = [base.y_m for base in self._places.values()]
            self._places[namespace] = Base(y_m=max(taken) + SPACING_M if taken else 0.0)
        return self._places[namespace]
