"""The unified KV cache manager of OxyGen (3.2): keys and values of prefixes and of sequences, by name.

The paper's operations are `store`, `retrieve`, `update`, `remove`, `batch` and `unbatch` on generation states, and
`keep`, `prefix` and `forget` on what a prefill made. It holds tensors and counts their bytes; which may stay is decided
in `turns.py` and `memory.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rosa_server.engines.kv_sharing.cache import Cache


@dataclass(frozen=True)
class PrefixState:
    """The generation state of one sequence, equation (7): all that resuming it needs.

    `words`: the tokens said so far (y). `done`: the termination flag (delta).
    """

    cache: Cache  # K: observation, prompt and words; one row with room for the longest answer
    words: tuple[int, ...] = ()
    unread: int = 0  # how many of the last words are not in the cache yet
    sureness: tuple[float, ...] = ()  # the probability of each word, among those that were allowed
    first: tuple[float, ...] = ()  # probabilities of the first word, one for each that was allowed
    done: bool = False


@dataclass
class Batched:
    """The batched state of equation (8): one cache with a row for each state, in their order."""

    cache: Cache
    states: list[PrefixState]  # their own caches are as they were before


class KvManager:
    """What is in memory. Raises `KeyError` for a name that it does not hold."""

    def __init__(self) -> None:
        self._prefixes: dict[str, Cache] = {}
        self._states: dict[int, PrefixState] = {}
        self._next = 0

    @property
    def bytes(self) -> int:
        """Of all keys and values held."""
        caches = [*self._prefixes.values(), *(state.cache for state in self._states.values())]
        return sum(cache.bytes for cache in caches)

    def keep(self, observation: str, prefix: Cache) -> None:
        """Hold the prefix of an observation, one row, for all requests about it."""
        self._prefixes[observation] = prefix

    def prefix(self, observation: str) -> Cache:
        """The prefix of an observation. Shared: nobody may write into it."""
        return self._prefixes[observation]

    def forget(self, observation: str) -> None:
        """Free the prefix of an observation, if it is here."""
        self._prefixes.pop(observation, None)

    def store(self, state: PrefixState) -> int:
        """Hold a state; returns its number, the count of states stored before (3.2)."""
        number = self._next
        self._next += 1
        self._states[number] = state
        return number

    def retrieve(self, number: int) -> PrefixState:
        """The state of this number."""
        return self._states[number]

    def update(self, number: int, state: PrefixState) -> None:
        """Replace a state by one that has got further."""
        if number not in self._states:
            raise KeyError(number)
        self._states[number] = state

    def remove(self, number: int) -> None:
        """Free a state, if it is here."""
        self._states.pop(number, None)

    @staticmethod
    def batch(states: Sequence[PrefixState], room: int = 0) -> Batched:
        """Stack states into one, with `room` more slots than the longest row has."""
        return Batched(Cache.batch([state.cache for state in states], room), list(states))

    @staticmethod
    def unbatch(batched: Batched) -> list[PrefixState]:
        """One state for each row, as far as it has got, each with as many slots as it came with."""
        apart = []
        for row, state in enumerate(batched.states):
            keys, values = (
                one[:, row : row + 1, :, : state.cache.capacity].clone()
                for one in (batched.cache.keys, batched.cache.values)
            )
            own = Cache(keys, values, batched.cache.length[row : row + 1].clone())
            apart.append(replace(state, cache=own))
        return apart
