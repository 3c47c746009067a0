"""The passes over the weights: prefill, prompts, the flow of action chunks, and slices of words.

Each works on one call or on many, so the isolated execution of a call is these passes on it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from rosa_server.engines.kv_sharing.cache import Cache
from rosa_server.engines.kv_sharing.manager import Batched, KvManager, PrefixState
from rosa_server.engines.kv_sharing.network import PrefixNetwork
from rosa_server.engines.kv_sharing.turns import Kind

# Words so far -> the tokens that may follow; none after the end.
Grammar = Callable[[Sequence[int]], Sequence[int]]


@dataclass(frozen=True)
class PassCall:
    """One question about one observation, as tensors.

    An action has `noise`, from which its flow begins. An answer in language has at most `longest` tokens, and only such
    as its `grammar` allows, if it has one; where that leaves one choice, the network is not asked.
    """

    kind: Kind
    pictures: Sequence[Tensor]  # of each camera (1, 3, h, w)
    told: Tensor  # (1, proprioception)
    prompt: tuple[int, ...]  # at least one token
    longest: int = 1  # the stop token included
    noise: Tensor | None = None  # (1, H, A)
    steps: int = 8  # S, of the flow
    observation: str = ""  # requests with the same name ask about the same observation; empty: no other does
    deadline_s: float = inf
    grammar: Grammar | None = None
    extra: object = None  # what a `Flow` wants to know besides

    def __post_init__(self) -> None:
        if not self.prompt or self.longest < 1 or (self.kind == "action") != (self.noise is not None):
            raise ValueError("Call: expected a prompt, at least one word, and noise for an action only")


@dataclass(frozen=True)
class Words:
    """An answer in language without its stop token, how sure each token is, and the probabilities of the first one.

    Probabilities are among the tokens that the grammar allows; `first` is in its order, empty without one.
    """

    tokens: tuple[int, ...]
    sureness: tuple[float, ...]
    first: tuple[float, ...] = ()

    @staticmethod
    def of(state: PrefixState, stop: int) -> Words:
        """What a sequence that is done has said."""
        said = state.words[:-1] if state.words[-1] == stop else state.words
        return Words(said, state.sureness[: len(said)], state.first)


# Caches of calls with their prompts, one row each -> an answer for each call; what an answer is, is its caller's.
Flow = Callable[[PrefixNetwork, Cache, Sequence[PassCall]], Sequence[object]]


def prefill(network: PrefixNetwork, calls: Sequence[PassCall]) -> list[Cache]:
    """The prefix of each call's observation, equation (1)."""
    cameras = zip(*(call.pictures for call in calls), strict=True)
    pictures = [torch.cat(of_camera) for of_camera in cameras]
    cache = network.prefill(network.observe(pictures, torch.cat([call.told for call in calls])))
    return [cache] if len(calls) == 1 else cache.unbatch()


def prompted(
    network: PrefixNetwork, prefixes: Sequence[Cache], prompts: Sequence[tuple[int, ...]], room: int = 0
) -> tuple[Tensor, Cache]:
    """Prefixes and prompts -> the last states `(m, width)`, and the caches side by side, `room` free slots in each."""
    longest = max(map(len, prompts))
    device = prefixes[0].keys.device
    tokens = torch.tensor([prompt + (0,) * (longest - len(prompt)) for prompt in prompts], device=device)
    count = torch.tensor([len(prompt) for prompt in prompts], device=device)
    states, cache = network.extend(Cache.batch(prefixes, longest + room), tokens, count, in_place=True)
    return states[torch.arange(len(prompts), device=device), count - 1], cache


def acted(network: PrefixNetwork, cache: Cache, calls: Sequence[PassCall]) -> list[Tensor]:
    """The flow from noise to chunks `(H, A)`, equation (4); calls with different steps run apart."""
    chunks: dict[int, Tensor] = {}
    for steps in sorted({call.steps for call in calls}):
        rows = [row for row, call in enumerate(calls) if call.steps == steps]
        noise = torch.cat([call.noise for call in calls if call.steps == steps and call.noise is not None])
        of = cache if len(rows) == cache.rows else cache.take(rows)
        chunks.update(zip(rows, network.refine(of, noise, steps)[0], strict=True))
    return [chunks[row] for row in range(len(calls))]


def first_words(
    network: PrefixNetwork, prefixes: Sequence[Cache], calls: Sequence[PassCall], stop: int
) -> list[PrefixState]:
    """States of new sequences: prompts read, first words said. Each has room for its own longest answer."""
    room = max(call.longest for call in calls)
    last, cache = prompted(network, prefixes, [call.prompt for call in calls], room)
    logits = network.logits(last)
    likeliest = _likeliest(logits)
    states = []
    for row, (call, length) in enumerate(zip(calls, cache.length.tolist(), strict=True)):
        keys, values = (
            one[:, row : row + 1, :, : length + call.longest].clone() for one in (cache.keys, cache.values)
        )
        own = Cache(keys, values, cache.length[row : row + 1].clone())
        states.append(_said(PrefixState(own), call, logits[row], likeliest[row], stop))
    return states


def speak(
    network: PrefixNetwork, batched: Batched, calls: Sequence[PassCall], passes: int, stop: int
) -> Batched:
    """BATCHEDLANGUAGEDECODE of Algorithm 1: at most `passes` passes, each of which adds a word to every row.

    A row that has ended stays where it is until the slice does, and adds nothing.
    """
    states = batched.states
    device = batched.cache.keys.device
    for _ in range(passes):
        unread = [() if state.done else state.words[-state.unread :] for state in states]
        width = max(map(len, unread))
        if width == 0:
            break
        tokens = torch.tensor([words + (0,) * (width - len(words)) for words in unread], device=device)
        count = torch.tensor([len(words) for words in unread], device=device)
        seen, batched.cache = network.extend(batched.cache, tokens, count, in_place=True)
        rows = [row for row, words in enumerate(unread) if words]
        logits = network.logits(seen[rows, count[rows] - 1])
        for row, own, likeliest in zip(rows, logits, _likeliest(logits), strict=True):
            states[row] = _said(states[row], calls[row], own, likeliest, stop)
    return batched


def slice_room(calls: Sequence[PassCall]) -> int:
    """Slots beyond the longest row that a slice may pad: the longest run of words that a grammar leaves no choice."""
    return max((call.longest for call in calls if call.grammar is not None), default=1) - 1


def _likeliest(logits: Tensor) -> list[tuple[int, float]]:
    """The likeliest word of each row `(m, vocabulary)`, and its probability."""
    best, words = logits.float().max(dim=-1)
    probabilities = torch.exp(best - logits.float().logsumexp(dim=-1))
    return list(zip(words.tolist(), probabilities.tolist(), strict=True))


def _said(
    state: PrefixState, call: PassCall, logits: Tensor, likeliest: tuple[int, float], stop: int
) -> PrefixState:
    """The state after one more word, the likeliest that is allowed, and those that must follow it.

    `logits` `(vocabulary,)`; `likeliest`: by them, of all words.
    """
    if call.grammar is None:
        words, sureness = [likeliest[0]], [likeliest[1]]
        first: tuple[float, ...] = ()
    else:
        allowed = call.grammar(state.words)
        probabilities = torch.softmax(logits[list(allowed)].float(), dim=-1)
        at = int(probabilities.argmax())
        words, sureness, first = [allowed[at]], [float(probabilities[at])], tuple(probabilities.tolist())
        while words[-1] != stop and len(only := call.grammar([*state.words, *words])) == 1:
            words.append(only[0])
            sureness.append(1.0)
    said = (*state.words, *words)[: call.longest]
    new = len(said) - len(state.words)
    return PrefixState(
        state.cache,
        said,
        new,
        (*state.sureness, *sureness)[: len(said)],
        state.first or first,
        said[-1] == stop
        or len(said) == call.longest
        or (call.grammar is not None and not call.grammar(said)),
    )


def isolated(network: PrefixNetwork, call: PassCall, stop: int, flow: Flow = acted) -> object:
    """One call by itself, as systems without sharing run it: its own prefill, and its answer to the end."""
    prefix = prefill(network, [call])
    if call.kind == "action":
        _, cache = prompted(network, prefix, [call.prompt])
        return flow(network, cache, [call])[0]
    states = first_words(network, prefix, [call], stop)
    while not states[0].done:
        batched = speak(network, KvManager.batch(states, slice_room([call])), [call], call.longest, stop)
        states = KvManager.unbatch(batched)
    return Words.of(states[0], stop)
