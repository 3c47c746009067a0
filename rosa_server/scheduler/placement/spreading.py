"""No worker is left over while others are shared (ours): whole streams fill workers unevenly, and at times fewer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil

from rosa_server.scheduler.profiles.catalog import Load

Bin = list[Load]


class _Own:
    """The bins that one class has to itself: its streams there, on how many workers."""

    def __init__(self, load: Load) -> None:
        self.load, self.streams, self.workers = load, 0, 0

    def add(self, load: Load) -> None:
        self.streams, self.workers = self.streams + load.streams, self.workers + 1

    @property
    def fullest(self) -> Bin:
        return [replace(self.load, streams=ceil(self.streams / self.workers))]


def spread(bins: Sequence[Bin], workers: int, fullness: Callable[[Bin], float]) -> list[Bin]:
    """The same streams on all `workers`, of which there are at least as many as bins.

    The bins that a class has to itself share its streams evenly. Each further worker relieves the fullest bin: a class
    gets one more for itself, or of the classes in one bin the first gets it.
    """
    shared = [content for content in bins if len(content) > 1]
    own: dict[tuple[str, str], _Own] = {}

    def alone(load: Load) -> None:
        own.setdefault((load.task, load.component), _Own(load)).add(load)

    for content in bins:
        if len(content) == 1:
            alone(content[0])
    for _ in range(workers - len(bins)):
        divisible = [group for group in own.values() if group.workers < group.streams]
        group = max(divisible, key=lambda g: fullness(g.fullest), default=None)
        mixed = max(shared, key=fullness, default=None)
        if mixed is not None and (group is None or fullness(mixed) >= fullness(group.fullest)):
            shared.remove(mixed)
            alone(mixed[0])
            if len(mixed) > 2:
                shared.append(mixed[1:])
            else:
                alone(mixed[1])
        elif group is not None:
            group.workers += 1
        else:
            break  # every stream has a worker to itself
    return shared + [
        [replace(group.load, streams=streams)]
        for group in own.values()
        for streams in balanced(group.streams, group.workers)
    ]


def balanced(streams: int, workers: int) -> list[int]:
    """`streams` on `workers` as evenly as whole numbers allow."""
    share, rest = divmod(streams, workers)
    return [share + 1] * rest + [share] * (workers - rest)
