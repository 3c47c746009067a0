"""A connection of a browser to the dashboard: what is not shown to a person gives way to whoever comes next.

A connection that says nothing, half a request, or does not read its answer, costs a stranger nothing. uvicorn keeps it
for as long as its peer does, and refuses everybody once there are `limit_concurrency` of them. The stream of a person
stays: it needs a token, and there are at most `MAX_VIEWERS`.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

STREAM = "/api/stream"
MAX_OTHERS = 64  # a browser opens six at a time, for some milliseconds


class PageConnection(H11Protocol):
    """Ends the longest one that is no stream, where there are too many of them."""

    made_s = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.made_s = self.loop.time()
        others = [one for one in self.connections if isinstance(one, PageConnection) and one.gives_way]
        if len(others) > MAX_OTHERS:
            min(others, key=lambda one: one.made_s).transport.abort()

    @property
    def gives_way(self) -> bool:
        """Whether nobody is shown anything through it. A stream without a token is answered, and over, at once."""
        if self.transport.is_closing():
            return False
        shows = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        return not (shows and self.scope["path"] == STREAM)
