"""Whose keys and values may lie in memory: a budget in bytes, and what leaves when it is full. Pure, no tensors.

A prefix belongs to an observation and may have many users; what a sequence adds (its prompt and its words) is its own.
A prefix in use never leaves. One that nobody uses stays for whoever asks about its observation next, until its room is
needed: then the least recently used goes first, and it is computed again should anybody still want it.
"""

from __future__ import annotations


class PrefixMemory:
    """The bytes of all prefixes and of all sequences under one budget."""

    def __init__(self, budget: int, prefix_bytes: int) -> None:
        """`budget`: bytes of everything together; `prefix_bytes`: of one prefix."""
        if prefix_bytes < 1 or budget < prefix_bytes:
            raise ValueError(f"Memory: a budget of {budget} bytes holds no prefix of {prefix_bytes}")
        self.budget, self.prefix_bytes = budget, prefix_bytes
        self.evictions = 0
        self.peak = 0  # the most bytes that were in use at a time
        self._users: dict[str, int] = {}  # by observation, the least recently used first
        self._own = 0

    def __contains__(self, observation: str) -> bool:
        """Whether the observation's prefix has a place, computed or about to be."""
        return observation in self._users

    @property
    def held(self) -> int:
        """Bytes that are taken."""
        return len(self._users) * self.prefix_bytes + self._own

    @property
    def in_use(self) -> int:
        """Bytes that cannot be freed now."""
        return sum(users > 0 for users in self._users.values()) * self.prefix_bytes + self._own

    def fits(self, observation: str, own: int, spare: int = 0) -> bool:
        """Whether one more user of this observation with `own` bytes fits, with `spare` bytes left after it."""
        new = 0 if self._users.get(observation, 0) else self.prefix_bytes
        return self.in_use + new + own + spare <= self.budget

    def take(self, observation: str, own: int) -> list[str]:
        """One more user. Returns whose prefixes leave for it. Raises `MemoryError` where it does not fit."""
        if not self.fits(observation, own):
            raise MemoryError(
                f"Memory: {own} bytes more do not fit: {self.in_use} of {self.budget} are in use"
            )
        self._users[observation] = self._users.pop(observation, 0) + 1
        self._own += own
        leave = []
        for other in list(self._users):
            if self.held <= self.budget:
                break
            if self._users[other] == 0:
                del self._users[other]
                leave.append(other)
        self.evictions += len(leave)
        self.peak = max(self.peak, self.in_use)
        return leave

    def give_back(self, observation: str, own: int, keep: bool = True) -> None:
        """A user has ended. `keep`: the prefix stays for others; false: nobody else can use it, or it is not there."""
        self._own -= own
        users = self._users.pop(observation) - 1
        if users or keep:
            self._users[observation] = users
