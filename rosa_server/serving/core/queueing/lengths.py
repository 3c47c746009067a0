"""How long tasks of each kind are, learned from those that ended: what is left of one that is under way."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

MIN_KNOWN = 5  # ended tasks, of whatever kind, before anything is expected of another one
OTHERS = (
    2  # tasks of a kind that all others together count as: one task of the kind says more than all others
)
MAX_OF_KIND = 200  # of each kind the latest are kept
MAX_KINDS = 500  # the kind that was not heard of for longest is forgotten
MAX_ACTED_S = 1e6

Ended = tuple[float, int]  # seconds that the robot acted, rounds


class Sample:
    """The latest ended tasks of one kind."""

    def __init__(self) -> None:
        self.ended: deque[Ended] = deque()
        self._acted_s: list[float] = []  # sorted
        self._above_s: list[float] = []  # the sum of what follows each of them and of itself
        self._sum_s, self._rounds = 0.0, 0

    def __len__(self) -> int:
        return len(self.ended)

    def add(self, acted_s: float, rounds: int) -> None:
        """One more task has ended."""
        if len(self.ended) == MAX_OF_KIND:
            old_s, old_rounds = self.ended.popleft()
            del self._acted_s[bisect_right(self._acted_s, old_s) - 1]
            self._rounds -= old_rounds
        self.ended.append((acted_s, rounds))
        insort(self._acted_s, acted_s)
        self._rounds += rounds
        self._above_s, sum_s = [], 0.0
        for one_s in reversed(self._acted_s):
            sum_s += one_s
            self._above_s.append(sum_s)
        self._above_s.reverse()
        self._sum_s = sum_s

    @property
    def round_s(self) -> float:
        """The mean execution."""
        return self._sum_s / max(1, self._rounds)

    def longer(self, acted_s: float) -> tuple[int, float]:
        """How many of these tasks were longer than `acted_s`, and what was left of them together, in seconds."""
        first = bisect_right(self._acted_s, acted_s)
        count = len(self._acted_s) - first
        return count, self._above_s[first] - count * acted_s if count else 0.0


class TaskLengths:
    """Ended tasks by kind, and all of them together for kinds of which too few are known."""

    def __init__(self) -> None:
        self._kinds: dict[str, Sample] = {}
        self._all = Sample()
        self.changed = False  # since it was saved; whoever saves it says so

    def __len__(self) -> int:
        return len(self._all)

    def ended(self, kind: str, acted_s: float, rounds: int) -> None:
        """A task was carried out."""
        if not (0.0 < acted_s <= MAX_ACTED_S) or rounds <= 0:
            return
        sample = self._kinds.pop(kind, None) or Sample()
        self._kinds[kind] = sample  # the latest comes last
        if len(self._kinds) > MAX_KINDS:
            del self._kinds[next(iter(self._kinds))]
        sample.add(acted_s, rounds)
        self._all.add(acted_s, rounds)
        self.changed = True

    def round_s(self, kind: str) -> float:
        """The mean execution of tasks of this kind, or of all; 0 while too little is known."""
        if len(self._all) < MIN_KNOWN:
            return 0.0
        return self._kinds.get(kind, self._all).round_s

    def left_s(self, kind: str, acted_s: float) -> float:
        """How long a task of this kind that has acted for `acted_s` is expected to act yet.

        The mean of what was left of the tasks of its kind that were longer, with some of all others: a kind may be new.
        Of a task that is longer than every other one nothing is known: as much is left as it has acted.
        """
        count, sum_s = self._all.longer(acted_s)
        all_s = sum_s / count if count else max(acted_s, self._all.round_s)
        sample = self._kinds.get(kind)
        if sample is None:
            return all_s
        count, sum_s = sample.longer(acted_s)
        return (sum_s + OTHERS * all_s) / (count + OTHERS)

    def to_data(self) -> dict[str, Any]:
        """What outlives the server, as JSON can hold it."""
        return {kind: [list(ended) for ended in sample.ended] for kind, sample in self._kinds.items()}

    def learn_from(self, data: object) -> bool:
        """Take over what `to_data` gave. False, and nothing is taken, when it is anything else."""
        read = _read(data)
        for kind, ended in (read or {}).items():
            for acted_s, rounds in ended:
                self.ended(kind, acted_s, rounds)
        self.changed = False
        return read is not None


def _read(data: object) -> Mapping[str, Sequence[Ended]] | None:
    if not isinstance(data, dict) or len(data) > MAX_KINDS:
        return None
    read: dict[str, list[Ended]] = {}
    for kind, entries in data.items():
        if not isinstance(kind, str) or not isinstance(entries, list) or len(entries) > MAX_OF_KIND:
            return None
        for entry in entries:
            if not isinstance(entry, list) or len(entry) != 2:
                return None
            acted_s, rounds = entry
            if type(rounds) is not int or type(acted_s) not in (int, float) or not math.isfinite(acted_s):
                return None
        read[kind] = [(float(acted_s), rounds) for acted_s, rounds in entries]
    return read
