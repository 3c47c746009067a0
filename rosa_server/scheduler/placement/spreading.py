"""Uses every server (ours): packing may leave servers empty while others are shared, as streams cannot be divided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil

from rosa_server.scheduler.problem import StreamClass
from rosa_server.scheduler.profiles.catalog import Load

ServerLoads = list[Load]  # the streams of one server


class _Dedicated:
    """The servers that one stream class has to itself: its streams there, and how many servers."""

    def __init__(self, load: Load) -> None:
        self.load, self.streams, self.servers = load, 0, 0

    def add(self, load: Load) -> None:
        self.streams, self.servers = self.streams + load.streams, self.servers + 1

    @property
    def fullest(self) -> ServerLoads:
        return [replace(self.load, streams=ceil(self.streams / self.servers))]


def spread(
    packed: Sequence[ServerLoads], servers: int, fullness: Callable[[ServerLoads], float]
) -> list[ServerLoads]:
    """The same streams on all `servers`, of which there are at least as many as in `packed`.

    A stream class with servers to itself has its streams divided evenly among them. Each further server relieves the
    fullest one: a dedicated class gets one more server, or the first class of a shared server moves to its own.
    """
    shared = [loads for loads in packed if len(loads) > 1]
    dedicated: dict[StreamClass, _Dedicated] = {}

    def dedicate(load: Load) -> None:
        dedicated.setdefault(load.stream_class, _Dedicated(load)).add(load)

    for loads in packed:
        if len(loads) == 1:
            dedicate(loads[0])
    for _ in range(servers - len(packed)):
        divisible = [group for group in dedicated.values() if group.servers < group.streams]
        group = max(divisible, key=lambda g: fullness(g.fullest), default=None)
        mixed = max(shared, key=fullness, default=None)
        if mixed is not None and (group is None or fullness(mixed) >= fullness(group.fullest)):
            shared.remove(mixed)
            dedicate(mixed[0])
            if len(mixed) > 2:
                shared.append(mixed[1:])
            else:
                dedicate(mixed[1])
        elif group is not None:
            group.servers += 1
        else:
            break  # every stream has a server to itself
    return shared + [
        [replace(group.load, streams=streams)]
        for group in dedicated.values()
        for streams in balanced(group.streams, group.servers)
    ]


def balanced(streams: int, servers: int) -> list[int]:
    """`streams` on `servers` as evenly as whole numbers allow."""
    share, rest = divmod(streams, servers)
    return [share + 1] * rest + [share] * (servers - rest)
