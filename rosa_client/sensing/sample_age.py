"""When was a sample taken, on this machine's monotonic clock? Its header says so on a clock that may jump.

A sample that was long under way shows the past; its arrival alone would hide that.
"""

from __future__ import annotations


class SampleTimes:
    """The time of the newest sample of every sensor. It never goes back, and is never later than the arrival."""

    def __init__(self) -> None:
        self._taken_s: dict[str, float] = {}

    def arrived(self, name: str, now_s: float, header_age_s: float | None) -> None:
        """A sample arrives now; its header is `header_age_s` old on the wall clock, None when it says nothing.

        A header of the future counts as arrival. When the wall clock jumps ahead, samples that were under way seem
        ancient: they change nothing, and the next one, stamped after the jump, counts again.
        """
        age_s = max(0.0, header_age_s) if header_age_s is not None else 0.0
        self._taken_s[name] = max(now_s - age_s, self._taken_s.get(name, now_s - age_s))

    def taken_s(self) -> dict[str, float]:
        """Sensor -> time of its newest sample, s; a sensor without any is absent."""
        return dict(self._taken_s)
