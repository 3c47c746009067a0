"""Where the streams are in the middle of a migration, and which of them can move without breaking an SLO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rosa_server.scheduler.placement.schedule import task_of
from rosa_server.scheduler.problem import Problem, StreamClass
from rosa_server.scheduler.profiles.catalog import Catalog, Load

Streams = dict[str, dict[StreamClass, int]]  # by server


class StreamMove(NamedTuple):
    """A stream that moves: a robot's component gets a route to another server."""

    slot: str
    component: str
    server: str  # where to


class Traffic:
    """Routes at given action rates, and the servers that cannot keep every SLO under them.

    `hosted`: server -> models that it runs now; the caller keeps it up to date. A stream whose component gets another
    model is judged by the model that still answers it; where the new factory file no longer names that model, it counts
    as no load, because nothing is known about it.
    """

    def __init__(
        self,
        problem: Problem,
        catalog: Catalog,
        routing: Mapping[str, Mapping[str, str]],
        rates_hz: Mapping[str, float],
        hosted: Mapping[str, tuple[str, ...]],
    ) -> None:
        self._needs = problem.needs
        self._models = {need.model for need in self._needs.values()}
        self._catalog, self._rates_hz, self._hosted = catalog, rates_hz, hosted
        self.routing = {slot: dict(routes) for slot, routes in routing.items()}
        self._streams: Streams = {}
        for slot, routes in self.routing.items():
            for component, server in routes.items():
                self._count(self._streams, server, slot, component, 1)
        self.overloaded = {server for server in self._streams if not self._fits(server, self._streams)}

    def on(self, server: str) -> list[StreamMove]:
        """The streams of a server."""
        return [
            StreamMove(slot, component, server)
            for slot, routes in self.routing.items()
            for component, target in routes.items()
            if target == server
        ]

    def used(self) -> set[str]:
        """Servers with streams."""
        return {server for server, streams in self._streams.items() if any(streams.values())}

    def movable(self, moves: Sequence[StreamMove]) -> list[StreamMove]:
        """Of `moves`, the most urgent first, those that can be made together while no server is overloaded.

        All at once if that fits. Else every server that is too full leaves the least urgent of its new streams where
        they are now, which may overload those servers in turn. The current routes fit, so this ends.
        """
        streams = {server: dict(counts) for server, counts in self._streams.items()}
        coming: dict[str, list[StreamMove]] = {}
        for move in moves:
            self._shift(streams, move, 1)
            coming.setdefault(move.server, []).append(move)
        doubtful = list(coming)
        while doubtful:
            server = doubtful.pop()
            while coming.get(server) and not self._fits(server, streams):
                move = coming[server].pop()
                self._shift(streams, move, -1)
                left = self.routing.get(move.slot, {}).get(move.component)
                if left is not None and left not in doubtful:
                    doubtful.append(left)
        stay = {move for kept in coming.values() for move in kept}
        return [move for move in moves if move in stay]

    def make(self, moves: Iterable[StreamMove]) -> None:
        """Change these routes, all at the same time."""
        touched = set()
        for move in moves:
            touched |= {move.server, self.routing.get(move.slot, {}).get(move.component, move.server)}
            self._shift(self._streams, move, 1)
            self.routing.setdefault(move.slot, {})[move.component] = move.server
        self._judge(touched)

    def drop(self, moves: Iterable[StreamMove]) -> None:
        """Take these streams from their servers."""
        for move in moves:
            self._count(self._streams, move.server, move.slot, move.component, -1)
            del self.routing[move.slot][move.component]
            self._judge({move.server})

    def _judge(self, servers: Iterable[str]) -> None:
        for server in servers:
            fits = self._fits(server, self._streams)
            (self.overloaded.discard if fits else self.overloaded.add)(server)

    def _shift(self, streams: Streams, move: StreamMove, sign: int) -> None:
        """Count a move's stream on its new server instead of where it is now; -1: the other way round."""
        self._count(streams, move.server, move.slot, move.component, sign)
        left = self.routing.get(move.slot, {}).get(move.component)
        if left is not None:
            self._count(streams, left, move.slot, move.component, -sign)

    @staticmethod
    def _count(streams: Streams, server: str, slot: str, component: str, by: int) -> None:
        counts, key = streams.setdefault(server, {}), StreamClass(task_of(slot), component)
        counts[key] = counts.get(key, 0) + by

    def _fits(self, server: str, streams: Streams) -> bool:
        """Whether the server keeps the SLO of every stream that it would have."""
        known = [model for model in self._hosted.get(server, ()) if model in self._models]
        by_model: dict[str, list[Load]] = {}
        for key, count in streams.get(server, {}).items():
            need = self._needs.get(key)
            if need is not None and count > 0 and known:
                load = Load(*key, count, need.rate_hz(self._rates_hz[key.task]), need.slo_ms)
                by_model.setdefault(need.model if need.model in known else known[0], []).append(load)
        return all(self._catalog.assess(model, loads) is not None for model, loads in by_model.items())
