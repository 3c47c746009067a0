"""The engine: calls come from any thread, one loop does the turns, each caller gets its answer."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import torch

from rosa_server.engines.kv_sharing import passes
from rosa_server.engines.kv_sharing.cache import Cache
from rosa_server.engines.kv_sharing.manager import KvManager, PrefixState
from rosa_server.engines.kv_sharing.memory import PrefixMemory
from rosa_server.engines.kv_sharing.network import PrefixNetwork
from rosa_server.engines.kv_sharing.passes import Flow, PassCall, Words
from rosa_server.engines.kv_sharing.turns import (
    Act,
    Cause,
    Costs,
    PassTurns,
    Prefill,
    Speak,
    Turn,
    TurnAsk,
    TurnCounts,
    TurnLimits,
)
from rosa_server.engines.looped import LoopedEngine, smoothed

WHY = {
    "expired": "its deadline came before its answer",
    "cancelled": "it was cancelled",
    "failed": "the engine ended",
}


class CallLeft(TimeoutError):
    """A call ended without an answer; `cause` is one of `expired`, `cancelled` and `failed`."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(f"{cause}: {WHY[cause]}")
        self.cause = cause


@dataclass(slots=True)
class _Open:
    call: PassCall
    answer: Future[object]
    state: int | None = None  # its number in the manager, once it has said a word


@dataclass(frozen=True, slots=True)
class _Given:
    """What a turn reads of one call."""

    call: PassCall
    prefix: Cache | None
    state: PrefixState | None


class KvSharingEngine(LoopedEngine[Turn, _Open]):
    """Answers calls about observations with one network, sharing prefixes and batching words."""

    def __init__(
        self,
        network: PrefixNetwork,
        stop: int,
        memory_mb: float = 256.0,
        limits: TurnLimits | None = None,
        longest_prompt: int = 128,
        longest_answer: int = 32,
        flow: Flow = passes.acted,
    ) -> None:
        """`stop`: the token that ends an answer. `memory_mb`: for keys and values that stay from turn to turn.

        `longest_prompt`, `longest_answer`: tokens. Raises `ValueError` where the network has no positions for them, or
        the memory does not hold an action and a sequence at a time.
        """
        super().__init__("kv-sharing")
        self.network, self._stop, self._flow = network, stop, flow
        self._longest_prompt, self._longest_answer = longest_prompt, longest_answer
        tokens = network.config.observation
        # Twice the answer: a row may be padded by as many words as another one adds in a pass.
        positions = tokens + longest_prompt + max(2 * longest_answer, network.config.horizon)
        if positions > network.config.longest:
            raise ValueError(f"the network has {network.config.longest} positions, {positions} may be needed")
        prefix, prompted = network.cache_bytes(tokens), network.cache_bytes(tokens + longest_prompt)
        lowest, budget = 2 * (prefix + prompted), int(memory_mb * 1e6)
        if budget < lowest:
            words = f"at least {lowest / 1e6:.3g}, for two calls at a time"
            raise ValueError(f"memory_mb: expected {words}; got {memory_mb}")
        self.manager = KvManager()
        self._turns = PassTurns(PrefixMemory(budget, prefix), limits or TurnLimits(), prompted)
        self._costs = Costs()

    # -- asking ----------------------------------------------------------------------------------------------------

    def submit(self, call: PassCall) -> tuple[int, Future[object]]:
        """A call's number, and its answer when it is there: `Words`, or what the flow makes of an action.

        Its future raises `CallLeft` where it ends without one. Raises `ValueError` for a call that never fits.
        """
        tokens = self.network.config.observation + len(call.prompt)
        if len(call.prompt) > self._longest_prompt or call.longest > self._longest_answer:
            highest = f"{self._longest_prompt} of prompt and {self._longest_answer} of answer"
            got = f"{len(call.prompt)} and {call.longest}"
            raise ValueError(f"tokens: expected at most {highest}, got {got}")
        own = self.network.cache_bytes(tokens + (0 if call.kind == "action" else call.longest))
        answer: Future[object] = Future()
        with self._changed:
            number = self._next
            name = call.observation or f"alone {number}"
            self._turns.offer(TurnAsk(number, name, call.kind, call.deadline_s, own, not call.observation))
            self._add(_Open(call, answer))
        return number, answer

    def cancel(self, number: int) -> bool:
        """Nobody waits for this call any more. False when it has ended."""
        with self._changed:
            known = self._turns.cancel(number)
            left = self._left()
        _tell(left)
        return known

    def counts(self) -> dict[str, int]:
        """Totals since the start, the bytes held now, and the most that were in use."""
        with self._changed:
            counts, memory = self._turns.counts, self._turns.memory
            return {
                "prefills": counts.prefills,
                "prefills_saved": counts.shared,
                "slices": counts.slices,
                "sequences_in_slices": counts.slots,
                "evictions": memory.evictions,
                "held_bytes": memory.held,
                "peak_in_use_bytes": memory.peak,
            }

    def restart_counts(self) -> None:
        """Count from here on, so that a warm-up is left out."""
        with self._changed:
            self._turns.counts = TurnCounts()
            self._turns.memory.evictions = self._turns.memory.peak = 0

    # -- running ---------------------------------------------------------------------------------------------------

    def step(self, now_s: float) -> Turn | None:
        """Do one turn and return it; None when there is nothing to do."""
        with self._changed:
            turn = self._turns.next_turn(now_s, self._costs)
            left = self._left()
            # All that the turn reads is taken here: a call that is cancelled meanwhile takes its tensors with it.
            given = [self._given(ask) for ask in turn.asks] if turn is not None else []
        _tell(left)
        if turn is None:
            return None
        try:
            with torch.inference_mode():
                if isinstance(turn, Prefill):
                    self._prefilled(turn, passes.prefill(self.network, [one.call for one in given]))
                elif isinstance(turn, Act):
                    self._acted(turn, self._act(given))
                else:
                    self._spoken(turn, self._speak(turn.tokens, given))
        except Exception as error:  # whatever the model raises belongs to those that wait for it
            self._fail(turn, error)
        return turn

    def learn(self, turn: Turn, took_s: float) -> None:
        """A turn took so long: what the next ones are expected to take."""
        costs = self._costs
        prefill_s, act_s, token_s = costs.prefill_s, costs.act_s, costs.token_s
        if isinstance(turn, Prefill):
            prefill_s = smoothed(prefill_s, took_s / len(turn.asks))
        elif isinstance(turn, Act):
            act_s = smoothed(act_s, took_s / len(turn.asks))
        else:
            token_s = smoothed(token_s, took_s / turn.tokens)
        self._costs = Costs(prefill_s, act_s, token_s)

    def _given(self, ask: TurnAsk) -> _Given:
        one = self._open[ask.number]
        state = self.manager.retrieve(one.state) if one.state is not None else None
        ready = self._turns.is_ready(ask.observation)
        return _Given(one.call, self.manager.prefix(ask.observation) if ready else None, state)

    def _act(self, given: Sequence[_Given]) -> Sequence[object]:
        calls = [one.call for one in given]
        _, cache = passes.prompted(self.network, _prefixes(given), [call.prompt for call in calls])
        return self._flow(self.network, cache, calls)

    def _speak(self, tokens: int, given: Sequence[_Given]) -> list[PrefixState]:
        """Lines 6 to 9 of Algorithm 1; sequences that have just begun read their prompts first."""
        states = {row: one.state for row, one in enumerate(given) if one.state is not None}
        fresh = [row for row in range(len(given)) if row not in states]
        if fresh:
            begin = [given[row] for row in fresh]
            calls = [one.call for one in begin]
            begun = passes.first_words(self.network, _prefixes(begin), calls, self._stop)
            states.update(zip(fresh, begun, strict=True))
        going = [row for row in range(len(given)) if not states[row].done]
        if going:
            calls = [given[row].call for row in going]
            batched = self.manager.batch([states[row] for row in going], passes.slice_room(calls))
            batched = passes.speak(self.network, batched, calls, tokens, self._stop)
            states.update(zip(going, self.manager.unbatch(batched), strict=True))
        return [states[row] for row in range(len(given))]

    # -- after a turn ----------------------------------------------------------------------------------------------

    def _prefilled(self, turn: Prefill, prefixes: Sequence[Cache]) -> None:
        with self._changed:
            left = self._left()  # also what was evicted meanwhile: an older prefix of the same name
            self._turns.passed(turn)
            for ask, prefix in zip(turn.asks, prefixes, strict=True):
                if self._turns.is_ready(ask.observation):
                    self.manager.keep(ask.observation, prefix)
        _tell(left)

    def _acted(self, turn: Act, chunks: Sequence[object]) -> None:
        with self._changed:
            finished = {ask.number for ask in self._turns.passed(turn)}
            answers = [
                (self._open.pop(ask.number).answer, chunk)
                for ask, chunk in zip(turn.asks, chunks, strict=True)
                if ask.number in finished
            ]
            left = self._left()
        for answer, chunk in answers:
            answer.set_result(chunk)
        _tell(left)

    def _spoken(self, turn: Speak, states: Sequence[PrefixState]) -> None:
        """Lines 10 to 13 of Algorithm 1."""
        with self._changed:
            ended = {ask.number for ask, state in zip(turn.asks, states, strict=True) if state.done}
            finished = {ask.number for ask in self._turns.passed(turn, ended)}
            answers = []
            for ask, state in zip(turn.asks, states, strict=True):
                one = self._open.get(ask.number)
                if ask.number in finished:
                    answers.append((self._close(ask.number), Words.of(state, self._stop)))
                elif one is not None and one.state is None:
                    one.state = self.manager.store(state)
                elif one is not None and one.state is not None:
                    self.manager.update(one.state, state)
            left = self._left()
        for answer, words in answers:
            answer.set_result(words)
        _tell(left)

    def _fail(self, turn: Turn, error: Exception) -> None:
        with self._changed:
            failed = [self._open[ask.number].answer for ask in turn.asks if ask.number in self._open]
            self._turns.fail(ask.number for ask in turn.asks)
            self._left()
        for answer in failed:
            answer.set_exception(error)

    def _left(self) -> list[tuple[Future[object], Cause]]:
        """Forget what has left, tensors included. Whom to tell, outside the lock."""
        for observation in self._turns.evicted():
            self.manager.forget(observation)
        return [(self._close(ask.number), cause) for ask, cause in self._turns.left()]

    def _close(self, number: int) -> Future[object]:
        one = self._open.pop(number)
        if one.state is not None:
            self.manager.remove(one.state)
        return one.answer


def run_all(engine: KvSharingEngine, calls: Sequence[PassCall]) -> list[object]:
    """Answers of an engine without a thread, all calls there at once."""
    answers = [engine.submit(call)[1] for call in calls]
    while engine.step(0.0) is not None:
        pass
    return [answer.result(0) for answer in answers]


def _prefixes(given: Sequence[_Given]) -> list[Cache]:
    return [one.prefix for one in given if one.prefix is not None]


def _tell(left: Sequence[tuple[Future[object], Cause]]) -> None:
    for answer, cause in left:
        answer.set_exception(CallLeft(cause))
