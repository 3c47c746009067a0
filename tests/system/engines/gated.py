"""The token policy, whose engine stands still in the middle of a pass as long as a file exists."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from rosa_server.models.token_policy.backend import Seen, TokenPolicyBackend


def reached(gate: Path) -> Path:
    """The file that exists once a frame stands before the gate."""
    return gate.with_suffix(".reached")


class GatedTokenPolicy(TokenPolicyBackend):
    """`gate`: the file. Only a pass that takes a new frame in looks for it; a file `GATE.reached` says that one has."""

    def __init__(self, gate: str, slots: int) -> None:
        super().__init__(engine="pipelined", slots=slots)
        self._gate = Path(gate)

    def _embed(self, frames: Sequence[Seen]) -> Tensor:
        while self._gate.exists():
            reached(self._gate).touch()
            time.sleep(0.005)
        return super()._embed(frames)
