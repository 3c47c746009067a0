"""What may be taken of something per second, and at once."""

from __future__ import annotations


class Bucket:
    """Fills with `rate` per second up to `burst`; overdrawn when more was taken."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._level, self._at_s = burst, 0.0

    def take(self, amount: float, now_s: float) -> bool:
        """Take it whatever is left. False when that is more than there was."""
        filled = self._level + max(0.0, now_s - self._at_s) * self._rate
        self._level = min(self._burst, filled) - amount
        self._at_s = now_s
        return self._level >= 0.0

    def take_if_left(self, amount: float, now_s: float) -> bool:
        """Take it where there is as much, else nothing: what is refused costs nothing, and ends with its cause."""
        if self.take(amount, now_s):
            return True
        self.give_back(amount)
        return False

    def give_back(self, amount: float) -> None:
        self._level = min(self._burst, self._level + amount)
