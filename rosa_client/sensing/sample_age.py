"""When a sample was taken, on this machine's monotonic clock. Its header uses the wall clock, which may jump.

A sample that was long under way is old; its arrival time alone would hide that.
"""

from __future__ import annotations


class SampleTimes:
    """The time of the newest sample of every sensor. It never goes back, and is never later than the arrival."""

    def __init__(self) -> None:
        self._taken_s: dict[str, float] = {}

    def arrived(self, name: str, now_s: float, header_age_s: float | None) -> bool:
        """A sample arrives now; its header is `header_age_s` old on the wall clock, None when it says nothing.

        Returns whether none was taken later: an older one must not take the place of the newest.

        A header from the future counts as arrival. When the wall clock jumps ahead, samples that are under way look
        very old: they change nothing, and the next sample, stamped after the jump, counts again.
        """
        age_s = max(0.0, header_age_s) if header_age_s is not None else 0.0
        taken_s = now_s - age_s
        newest_s = self._taken_s.get(name, taken_s)
        self._taken_s[name] = max(taken_s, newest_s)
        return taken_s >= newest_s

    def taken_s(self) -> dict[str, float]:
        """Sensor -> time of its newest sample, s; a sensor without any is absent."""
        return dict(self._taken_s)
