"""When to say that the server cannot be reached: soon, then seldom, with its address. Pure."""

from __future__ import annotations

SAY_AFTER_S = 2.0  # a server that is up welcomes a robot within a second
AGAIN_AFTER_S = 30.0


class LinkWatch:
    """`news` is called often; what it returns goes to the log."""

    def __init__(self) -> None:
        self._lost_s: float | None = None  # since when the link is not ready
        self._say_s = 0.0

    def news(self, now_s: float, endpoint: str, ready: bool, reason: str) -> str:
        """A warning, or an empty string. `reason`: why the link is not ready."""
        if ready:
            self._lost_s = None
            return ""
        if self._lost_s is None:
            self._lost_s, self._say_s = now_s, now_s + SAY_AFTER_S
        if now_s < self._say_s:
            return ""
        self._say_s = now_s + AGAIN_AFTER_S
        return f"no server at {endpoint} for {now_s - self._lost_s:.0f} s: {reason}"
