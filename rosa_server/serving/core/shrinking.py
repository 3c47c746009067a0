"""By how much batches are smaller than planned, because calls were late: a small share of late calls is allowed for.

A batch is late as a whole, so one slow batch says little. What exceeds the allowed share adds up over windows (a
one-sided CUSUM test) until it is too much to be chance.
"""

from __future__ import annotations

from dataclasses import dataclass

ALLOWED = 0.007  # share of late calls: 1 % is promised
TOO_MUCH = 0.1  # summed over windows, of the calls of one window
CALM_WINDOWS, MOST_CALM_WINDOWS = 10, 160  # before batches grow again


@dataclass(slots=True)
class Shrinking:
    """Of one queue. Pure: `settle` is called once per window."""

    less: int = 0  # requests
    _excess: float = 0.0
    _calm: int = 0  # windows
    _calm_windows: int = CALM_WINDOWS
    _grew: bool = False  # the last change was to larger batches

    def settle(self, late: float, most: int) -> None:
        """`late`: share of the last window's calls that were late, or will be on their way. `most`: greatest `less`."""
        self._excess = max(0.0, self._excess + late - ALLOWED)
        if self._excess > TOO_MUCH:
            if self._grew:  # it was too much before, so it takes longer until that is tried again
                self._calm_windows = min(2 * self._calm_windows, MOST_CALM_WINDOWS)
            self.less, self._grew = min(self.less + 1, max(0, most)), False
            self._excess, self._calm = 0.0, 0
        elif late <= ALLOWED and self.less:
            self._calm += 1
            if self._calm >= self._calm_windows:
                self.less, self._calm, self._grew = self.less - 1, 0, True
