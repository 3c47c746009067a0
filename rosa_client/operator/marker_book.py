"""The bookkeeping of an interactive marker server: what changed, update numbers, and the meaning of menu entries.

Protocol, as RViz 2's client has it (ros-visualization/interactive_markers, branch rolling): an update's number is one
more than the one before it, or the client starts anew; the service answers with the number of the last update and all
markers; the keep-alive messages of ROS 1 are ignored with a warning, so none is sent: the client watches the service.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Content = TypeVar("Content", bound=Hashable)
KEPT_ENTRIES = 1000  # menu entries that are remembered


@dataclass(frozen=True)
class Update(Generic[Content]):
    """An update for clients: markers to add or replace, and names of those to remove."""

    number: int
    changed: dict[str, Content]
    erased: list[str]


@dataclass
class MarkerBook(Generic[Content]):
    """Markers by name, and the number of the last update.

    A marker is sent again only when its content changed: RViz closes an open menu and rebuilds every button of a marker
    that is replaced, so what changes all the time does not belong in an interactive marker.
    """

    number: int = 0
    markers: dict[str, Content] = field(default_factory=dict)

    def change(self, now: Mapping[str, Content]) -> Update[Content] | None:
        """Make `now` the present markers; returns the update for clients, or None when nothing changed."""
        changed = {name: content for name, content in now.items() if self.markers.get(name) != content}
        erased = [name for name in self.markers if name not in now]
        if not changed and not erased:
            return None
        self.number += 1
        self.markers = dict(now)
        return Update(self.number, changed, erased)


@dataclass
class MenuEntries:
    """Numbers for menu entries, each given once and for one meaning, so that a late click means what the operator read.

    `fixed` entries mean the same in every menu and are never forgotten: an emergency stop must not be.
    """

    fixed: tuple[str, ...] = ()
    _next: int = 0
    _numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    _meanings: dict[int, tuple[str, str]] = field(default_factory=dict)

    def number(self, marker: str, key: str) -> int:
        """The number, from 1, of the entry `key` in the menu of `marker`."""
        if key in self.fixed:
            return 1 + self.fixed.index(key)
        meaning = (marker, key)
        if meaning not in self._numbers:
            self._next += 1
            number = len(self.fixed) + self._next
            self._numbers[meaning] = number
            self._meanings[number] = meaning
            if len(self._meanings) > KEPT_ENTRIES:
                del self._numbers[self._meanings.pop(min(self._meanings))]
        return self._numbers[meaning]

    def meaning(self, marker: str, number: int) -> str:
        """The key behind a number. Raises `ValueError` when the entry is unknown or too old."""
        if 1 <= number <= len(self.fixed):
            return self.fixed[number - 1]
        owner, key = self._meanings.get(number, ("", ""))
        if owner != marker or not key:
            raise ValueError(f"menu entry {number} of {marker!r} is not known; open the menu again")
        return key
