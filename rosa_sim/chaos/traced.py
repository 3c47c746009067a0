"""An output that can be traced. Not compiled, as what it extends is not."""

from __future__ import annotations

from dataclasses import dataclass

from rosa_contract.wire.messages import Output
from rosa_server.serving.core.forwarding.invariants import Asked


@dataclass(frozen=True)
class Traced(Output):
    """An output that says which worker has made it, when, and for which robot."""

    node: str = ""
    replica: str = ""
    started: int = 0
    epoch: int = 0
    asked: Asked = ("", "", 0)
