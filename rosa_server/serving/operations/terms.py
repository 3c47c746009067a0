"""What a rollout is told; for its command too, which needs nothing else of the server."""

from __future__ import annotations

from dataclasses import dataclass

from rosa_server.serving.core.workers.comparing import DEFAULT, TrialLimits
from rosa_server.serving.operations.names import ROLLOUT

PATIENCE = 9  # times as long as was asked for a comparison waits for answers
OPTIONS = ("share", "slower", "distance")


@dataclass(frozen=True)
class Terms:
    """New weights, and how they are tried first. `kind`: `ROLLOUT` for no trial."""

    weights: str
    kind: str = ROLLOUT
    seconds: float = 0.0
    share: float = 1.0  # of the robots whose calls are copied
    limits: TrialLimits = DEFAULT

    @property
    def value(self) -> str:
        """Of the order: `trial.terms_of` reads it."""
        if self.kind == ROLLOUT:
            return self.weights
        of = {"share": self.share, "slower": self.limits.slower, "distance": self.limits.distance}
        return f"{self.seconds:g} {' '.join(f'{name}={of[name]:g}' for name in OPTIONS)} {self.weights}"
