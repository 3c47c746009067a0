"""What the model may be asked and may say: the tokenizer, the answers of each role, and greedy decoding within them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from rosa_server.engines.kv_sharing.cache import Cache
from rosa_server.models.registry import BackendError
from rosa_server.models.vla.network import VlaNetwork
from rosa_server.models.vla.tokenizer import ACT, END, MONITOR, PLAN, SAFETY, Tokenizer

ROLES = {"system1": ACT, "system2": PLAN, "safety": SAFETY, "monitor": MONITOR}
VERDICTS = {"safety": ("safe", "unsafe"), "monitor": ("ongoing", "done", "failed")}
LONGEST_PROMPT = 128  # tokens


@dataclass(frozen=True)
class Speech:
    """A tokenizer, and all that a planner may answer."""

    tokenizer: Tokenizer
    plans: tuple[str, ...]

    @staticmethod
    def read(path: Path) -> Speech:
        """Raises `FileNotFoundError` with the remedy, or `BackendError` when the file does not hold a speech."""
        if not path.is_file():
            raise FileNotFoundError(f"{path} is missing: use the shipped one or make it with `make train`")
        try:
            told = json.loads(path.read_text())
            tokenizer = Tokenizer([(left, right) for left, right in told["merges"]])
            speech = Speech(tokenizer, tuple(str(one) for one in told["plans"]))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise BackendError("bad_weights", f"{path} is not a model's words: {error!r}") from error
        speech.check()
        return speech

    def write(self, path: Path) -> None:
        """As JSON."""
        told = {"plans": self.plans, "merges": self.tokenizer.merges}
        path.write_text(json.dumps(told) + "\n")

    def check(self) -> None:
        """Raise `BackendError` where a verdict is not one token, or where nothing can be planned."""
        for words in VERDICTS.values():
            for word in words:
                if len(self.tokenizer.encode(word)) != 1:
                    raise BackendError("bad_weights", f"the verdict {word!r} is not one token")
        if not self.plans:
            raise BackendError("bad_weights", "there are no plans to choose from")

    def question(self, role: str, prompt: str) -> list[int]:
        """The tokens of a prompt, and the mark of what is asked for. Raises `ValueError` where there are too many."""
        tokens = self.tokenizer.encode(prompt.strip())
        if len(tokens) >= LONGEST_PROMPT:
            raise ValueError(
                f"a prompt of {len(tokens)} tokens came, expected fewer than {LONGEST_PROMPT}: {prompt[:60]!r}"
            )
        return [*tokens, ROLES[role]]

    def answer(self, text: str) -> list[int]:
        """The tokens of an answer, with its end."""
        return [*self.tokenizer.encode(text), END]

    def next_tokens(self, said: Sequence[int]) -> list[int]:
        """What may follow the beginning `said` of a plan; nothing after its end."""
        begun = len(said)
        known = {tuple(self.answer(plan)) for plan in self.plans}
        return sorted({one[begun] for one in known if len(one) > begun and one[:begun] == tuple(said)})


def padded(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Token rows of different lengths -> `(n, longest)`, and how many of each row are real `(n,)`."""
    longest = max(len(row) for row in rows)
    tokens = torch.tensor([[*row, *[END] * (longest - len(row))] for row in rows])
    return tokens, torch.tensor([len(row) for row in rows])


def ask(network: VlaNetwork, cache: Cache, questions: Sequence[Sequence[int]]) -> tuple[Tensor, Cache]:
    """Append a question to each row -> the states of their last tokens `(n, width)`, and the longer cache."""
    tokens, count = padded(questions)
    tokens, count = tokens.to(cache.keys.device), count.to(cache.keys.device)
    states, longer = network.extend(cache, tokens, count)
    return states[torch.arange(len(states), device=states.device), count - 1], longer


def shares(network: VlaNetwork, last: Tensor, speech: Speech, role: str) -> Tensor:
    """Probabilities `(n, verdicts)` of a role's verdicts, from the states `(n, width)` of the last tokens."""
    tokens = [speech.tokenizer.encode(word)[0] for word in VERDICTS[role]]
    return torch.softmax(network.logits(last)[:, tokens].float(), dim=-1)


def plan(network: VlaNetwork, last: Tensor, cache: Cache, speech: Speech) -> list[str]:
    """Greedy decoding within the speech's plans, all rows at once; `last` and `cache` as `ask` returns them.

    Where only one token may follow, the model is not asked for it.
    """
    said: list[list[int]] = [[] for _ in range(cache.rows)]
    rows = list(range(cache.rows))
    while rows:
        scores = network.logits(last)
        new: list[list[int]] = []
        for at, row in enumerate(rows):
            allowed = speech.next_tokens(said[row])
            best = allowed[int(scores[at, allowed].argmax())]
            run = [best]
            while len(only := speech.next_tokens([*said[row], *run])) == 1:
                run += only
            said[row] += run
            new.append(run)
        open_rows = [at for at, row in enumerate(rows) if said[row][-1] != END]
        rows = [rows[at] for at in open_rows]
        if rows:
            last, cache = ask(network, cache.take(open_rows), [new[at] for at in open_rows])
    return [speech.tokenizer.decode(tokens[:-1]) for tokens in said]
