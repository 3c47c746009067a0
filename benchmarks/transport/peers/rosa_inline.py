"""ROSA with the null model in the gateway's own thread (`models.NAME.inline`); clients send raw images."""

from __future__ import annotations

from benchmarks.transport.peers import rosa
from benchmarks.transport.peers.rosa import Client

__all__ = ["Client", "serve"]


def serve(address: str) -> None:
    rosa.serve(address, inline=True)
