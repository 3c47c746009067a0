"""What the engine runs next: OxyGen's Algorithm 1 (3.3) as decisions, across robots. Pure, no tensors.

The engine does one turn after another: the prefill of observations, the whole flow of some action chunks, or a slice of
at most k tokens of all language sequences together. Actions have hard deadlines, so they come first (3.1); language has
soft ones and goes on across frames. One slice may come between two turns of actions where the slack of every action
that waits allows it, so that language is never shut out by a fleet that always wants actions.

An ask waits, then begins (its memory is booked and its prefix pinned), then ends. What has begun can always go on: a
budget delays the beginning of others, and language leaves room for one action, so that none waits for language to end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Literal

from rosa_server.engines.kv_sharing.memory import PrefixMemory

Kind = Literal["action", "language"]
Cause = Literal["expired", "cancelled", "failed"]


@dataclass(frozen=True, slots=True)
class TurnAsk:
    """One call. `number` is its name and grows with every call; asks with one `observation` share its prefix."""

    number: int
    observation: str
    kind: Kind
    deadline_s: float = inf
    own: int = 0  # bytes of its own keys and values: its prompt, and the longest answer
    alone: bool = False  # nobody else can ask about this observation: its prefix goes when this ends


@dataclass(frozen=True, slots=True)
class Costs:
    """Expected times; 0: nothing is known yet."""

    prefill_s: float = 0.0
    act_s: float = 0.0
    token_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Prefill:
    """Compute the prefixes of these observations; each of `asks` is the one whose pictures are used."""

    asks: tuple[TurnAsk, ...]


@dataclass(frozen=True, slots=True)
class Act:
    """The flow of these action chunks, from noise to the end."""

    asks: tuple[TurnAsk, ...]


@dataclass(frozen=True, slots=True)
class Speak:
    """At most `tokens` more of each of these sequences, in one batch."""

    asks: tuple[TurnAsk, ...]
    tokens: int


Turn = Prefill | Act | Speak


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """How much runs together. `slice_tokens` is the paper's k, the decoding steps per frame."""

    slice_tokens: int = 5
    prefills: int = 1
    actions: int = 1
    sequences: int = 8


@dataclass(slots=True)
class TurnCounts:
    """What sharing did."""

    prefills: int = 0
    shared: int = 0  # asks whose prefix was there, or on its way
    slices: int = 0
    slots: int = 0  # sequences of all slices: over `slices`, the mean batch B of the paper


@dataclass
class PassTurns:
    """The asks that wait and those that have begun. Every offered ask ends once: in `finished`, or in `left`."""

    memory: PrefixMemory
    limits: TurnLimits = field(default_factory=TurnLimits)
    action_own: int = 0  # bytes that language leaves free beside a prefix: those of an action
    counts: TurnCounts = field(default_factory=TurnCounts)
    _waiting: dict[int, TurnAsk] = field(default_factory=dict)
    _begun: dict[int, TurnAsk] = field(default_factory=dict)
    _ready: set[str] = field(default_factory=set)  # observations whose prefix has been computed
    _left: list[tuple[TurnAsk, Cause]] = field(default_factory=list)
    _evicted: list[str] = field(default_factory=list)
    _acted: bool = False  # the last turn was one of actions

    def __len__(self) -> int:
        """Asks that have not ended."""
        return len(self._waiting) + len(self._begun)

    def offer(self, ask: TurnAsk) -> None:
        """An ask waits from now on. Raises `ValueError` for a number in use, or for more than the budget ever holds."""
        if ask.number in self._waiting or ask.number in self._begun:
            raise ValueError(f"ask {ask.number} is here already")
        spare = self._spare(ask)
        if self.memory.prefix_bytes + ask.own + spare > self.memory.budget:
            words = (
                f"{self.memory.prefix_bytes} for its prefix, {ask.own} for itself, {spare} left for actions"
            )
            raise ValueError(f"ask {ask.number} needs more than {self.memory.budget} bytes: {words}")
        self._waiting[ask.number] = ask

    def cancel(self, number: int) -> bool:
        """Nobody waits for this any more; its memory is free at once. False when it has ended."""
        return self._end(number, "cancelled")

    def fail(self, numbers: Iterable[int]) -> None:
        """These cannot go on."""
        for number in numbers:
            self._end(number, "failed")

    # -- deciding --------------------------------------------------------------------------------------------------

    def next_turn(self, now_s: float, costs: Costs | None = None) -> Turn | None:
        """What to run now; None when nothing is to be done. Asks whose deadline has come leave first."""
        for ask in [*self._waiting.values(), *self._begun.values()]:
            if ask.deadline_s <= now_s:
                self._end(ask.number, "expired")
        costs = costs or Costs()
        self._begin("action", self.limits.actions)
        self._begin("language", self.limits.sequences)
        actions, sequences = self._of("action"), self._of("language")
        tokens = self.limits.slice_tokens
        if actions:
            tokens = self._affordable(now_s, costs)
            if not self._acted or tokens < 1 or not sequences:
                return self._towards(actions, self._act)
        if sequences:
            self._acted = False
            return self._towards(sequences, lambda asks: self._speak(asks, tokens))
        return None

    def _begin(self, kind: Kind, limit: int) -> None:
        """In order, as many as fit; one that does not fit is not overtaken by a smaller one of its kind."""
        begun = len(self._of(kind))
        waiting = [ask for ask in self._waiting.values() if ask.kind == kind]
        for ask in sorted(waiting, key=_first_due)[: max(0, limit - begun)]:
            if not self.memory.fits(ask.observation, ask.own, self._spare(ask)):
                return
            self.counts.shared += ask.observation in self.memory
            evicted = self.memory.take(ask.observation, ask.own)
            self._ready.difference_update(evicted)
            self._evicted += evicted
            self._begun[ask.number] = self._waiting.pop(ask.number)

    def _spare(self, ask: TurnAsk) -> int:
        return self.memory.prefix_bytes + self.action_own if ask.kind == "language" else 0

    def _of(self, kind: Kind) -> list[TurnAsk]:
        return sorted((ask for ask in self._begun.values() if ask.kind == kind), key=_first_due)

    def _affordable(self, now_s: float, costs: Costs) -> int:
        """Tokens of a slice after which every action, waiting or begun, is still in time, if it can be at all."""
        ahead_s, slack_s = 0.0, inf
        pending = [ask for ask in (*self._begun.values(), *self._waiting.values()) if ask.kind == "action"]
        seen = set(self._ready)
        for ask in sorted(pending, key=_first_due):
            needs_s = costs.act_s + (0.0 if ask.observation in seen else costs.prefill_s)
            if ask.deadline_s < now_s + needs_s:
                continue  # late even if it runs now: no reason to keep language waiting
            ahead_s += needs_s
            seen.add(ask.observation)
            slack_s = min(slack_s, max(0.0, ask.deadline_s - now_s - ahead_s))
        limit = self.limits.slice_tokens
        return limit if slack_s >= limit * costs.token_s else int(slack_s / costs.token_s)

    def _towards(self, asks: list[TurnAsk], turn: Callable[[list[TurnAsk]], Turn]) -> Turn:
        """The prefixes that these need and that are not there, or else the turn itself."""
        missing = {ask.observation: ask for ask in reversed(asks) if ask.observation not in self._ready}
        first = [ask for ask in asks if missing.get(ask.observation) is ask]
        if first:
            return Prefill(tuple(first[: self.limits.prefills]))
        return turn(asks)

    def _act(self, asks: list[TurnAsk]) -> Act:
        return Act(tuple(asks))

    def _speak(self, asks: list[TurnAsk], tokens: int) -> Speak:
        self.counts.slices += 1
        self.counts.slots += len(asks)
        return Speak(tuple(asks), tokens)

    # -- ending ----------------------------------------------------------------------------------------------------

    def is_ready(self, observation: str) -> bool:
        """Whether this observation's prefix has been computed and is still there."""
        return observation in self._ready

    def passed(self, done: Turn, ended: Collection[int] = ()) -> list[TurnAsk]:
        """A turn has run. `ended`: the sequences of a slice that have said all. Returns the asks that are finished.

        Those that were cancelled meanwhile are no longer here, and are not returned.
        """
        if isinstance(done, Prefill):
            self.counts.prefills += len(done.asks)
            self._ready.update(ask.observation for ask in done.asks if ask.observation in self.memory)
            return []
        self._acted = isinstance(done, Act)
        finished = [
            ask
            for ask in done.asks
            if ask.number in self._begun and (isinstance(done, Act) or ask.number in ended)
        ]
        for ask in finished:
            self._drop(ask)
        return finished

    def left(self) -> list[tuple[TurnAsk, Cause]]:
        """The asks that ended without an answer since the last call, and why."""
        left, self._left = self._left, []
        return left

    def evicted(self) -> list[str]:
        """The observations whose prefixes have left memory since the last call."""
        evicted, self._evicted = self._evicted, []
        return evicted

    def _end(self, number: int, cause: Cause) -> bool:
        ask = self._waiting.pop(number, None)
        if ask is None:
            ask = self._begun.get(number)
            if ask is None:
                return False
            self._drop(ask)
        self._left.append((ask, cause))
        return True

    def _drop(self, ask: TurnAsk) -> None:
        del self._begun[ask.number]
        keep = ask.observation in self._ready and not ask.alone
        self.memory.give_back(ask.observation, ask.own, keep)
        if ask.observation not in self.memory:
            self._ready.discard(ask.observation)
            self._evicted.append(ask.observation)


def _first_due(ask: TurnAsk) -> tuple[float, int]:
    return ask.deadline_s, ask.number
