"""Where the streams are in the middle of a migration, and which of them can move without breaking an SLO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.catalog import Catalog, Load


class Move(NamedTuple):
    """One stream on its way: a route of a robot's component to another server."""

    robot: str
    component: str
    server: str  # where to


class Traffic:
    """Routes at given action rates, and the servers that cannot keep every SLO under them.

    `hosted`: server -> models that it runs now; the caller keeps it up to date. A stream whose component gets another
    model is judged by the one that still answers it; where the new factory file no longer names that, it counts as no
    load: there is nothing to judge it by.
    """

    def __init__(
        self,
        problem: Problem,
        catalog: Catalog,
        routing: Mapping[str, Mapping[str, str]],
        rates_hz: Mapping[str, float],
        hosted: Mapping[str, tuple[str, ...]],
    ) -> None:
        self._needs = {(cls.name, need.component): need for cls in problem.classes for need in cls.needs}
        self._models = {need.model for need in self._needs.values()}
        self._catalog, self._rates_hz, self._hosted = catalog, rates_hz, hosted
        self.routing = {robot: dict(routes) for robot, routes in routing.items()}
        self._streams: dict[str, dict[tuple[str, str], int]] = {}
        for robot, routes in self.routing.items():
            for component, server in routes.items():
                self._count(self._streams, server, robot, component, 1)
        self.overloaded = {server for server in self._streams if not self._fits(server, self._streams)}

    def on(self, server: str) -> list[Move]:
        """The streams of a server."""
        return [
            Move(r, c, server) for r, routes in self.routing.items() for c, t in routes.items() if t == server
        ]

    def used(self) -> set[str]:
        """Servers with streams."""
        return {server for server, streams in self._streams.items() if any(streams.values())}

    def movable(self, moves: Sequence[Move]) -> list[Move]:
        """Of `moves`, the most urgent first, those that can be made together while no server is overloaded.

        All at once if that fits. Else every server that is too full leaves the least urgent of its new streams where
        they are, which may make another too full. What is there now fits, so this ends.
        """
        streams = {server: dict(counts) for server, counts in self._streams.items()}
        coming: dict[str, list[Move]] = {}
        for move in moves:
            self._shift(streams, move, 1)
            coming.setdefault(move.server, []).append(move)
        doubtful = list(coming)
        while doubtful:
            server = doubtful.pop()
            while coming.get(server) and not self._fits(server, streams):
                move = coming[server].pop()
                self._shift(streams, move, -1)
                left = self.routing.get(move.robot, {}).get(move.component)
                if left is not None and left not in doubtful:
                    doubtful.append(left)
        stay = {move for kept in coming.values() for move in kept}
        return [move for move in moves if move in stay]

    def make(self, moves: Iterable[Move]) -> None:
        """Change these routes, all at the same time."""
        touched = set()
        for move in moves:
            touched |= {move.server, self.routing.get(move.robot, {}).get(move.component, move.server)}
            self._shift(self._streams, move, 1)
            self.routing.setdefault(move.robot, {})[move.component] = move.server
        self._judge(touched)

    def drop(self, moves: Iterable[Move]) -> None:
        """Take these streams from their servers."""
        for move in moves:
            self._count(self._streams, move.server, move.robot, move.component, -1)
            del self.routing[move.robot][move.component]
            self._judge({move.server})

    def _judge(self, servers: Iterable[str]) -> None:
        for server in servers:
            fits = self._fits(server, self._streams)
            (self.overloaded.discard if fits else self.overloaded.add)(server)

    def _shift(self, streams: dict[str, dict[tuple[str, str], int]], move: Move, sign: int) -> None:
        """Count a move's stream on its new server instead of where it is now; -1: the other way round."""
        self._count(streams, move.server, move.robot, move.component, sign)
        left = self.routing.get(move.robot, {}).get(move.component)
        if left is not None:
            self._count(streams, left, move.robot, move.component, -sign)

    @staticmethod
    def _count(
        streams: dict[str, dict[tuple[str, str], int]], server: str, robot: str, component: str, by: int
    ) -> None:
        counts, key = streams.setdefault(server, {}), (robot.rsplit("/", 1)[0], component)
        counts[key] = counts.get(key, 0) + by

    def _fits(self, server: str, streams: Mapping[str, Mapping[tuple[str, str], int]]) -> bool:
        """Whether the server keeps the SLO of every stream that it would have."""
        known = [model for model in self._hosted.get(server, ()) if model in self._models]
        by_model: dict[str, list[Load]] = {}
        for key, count in streams.get(server, {}).items():
            need = self._needs.get(key)
            if need is not None and count > 0 and known:
                rate_hz = need.rate_hz(self._rates_hz[key[0]])
                load = Load(key[0], key[1], count, rate_hz, need.slo_ms)
                by_model.setdefault(need.model if need.model in known else known[0], []).append(load)
        return all(self._catalog.assess(model, loads) is not None for model, loads in by_model.items())
