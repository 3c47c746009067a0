"""Teaches some heads where to look: a word at the thing it names, an answer at the words that decide it.

Without it the losses of actions and words found the way from "red" to the red block only after many thousand steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from rosa_server.models.vla.speech import Speech
from rosa_server.models.vla.tokenizer import PLAN
from rosa_sim.training.data.words import BINS, COLOURS
from rosa_sim.training.networks.prompts import NO_POINT, AskedLook

NAMING, DECIDING = (0, 1), (2, 3)  # layers
NAMING_HEAD, ABOUT_HEAD, RULE_HEAD = 0, 0, 1
Look = tuple[int, int, int]  # row, token, slot that it should look at


class Attention:
    """The loss of heads that look elsewhere than they should."""

    def __init__(self, speech: Speech, observation: int) -> None:
        """`observation`: tokens before the prompt, the points first."""
        self._observation = observation
        self._point_of: dict[int, int] = {}
        for point, name in enumerate((*COLOURS, *BINS)):
            for text in (name, f" {name}"):
                tokens = speech.tokenizer.encode(text)
                if len(tokens) == 1:
                    self._point_of[tokens[0]] = point

    def loss(self, watched: Sequence[tuple[Tensor, Tensor]], asked: Sequence[AskedLook]) -> Tensor:
        """`watched`: each layer's queries and keys of `VlaNetwork.extend` on the questions with their answers."""
        naming, about, deciding = self.looks(asked)
        parts = [
            _surprise(watched[layer], head, looks, self._observation)
            for layers, head, looks in (
                (NAMING, NAMING_HEAD, naming),
                (DECIDING, ABOUT_HEAD, about),
                (DECIDING, RULE_HEAD, deciding),
            )
            for layer in layers
            if looks
        ]
        return torch.stack(parts).mean() if parts else watched[0][0].new_zeros(())

    def looks(self, asked: Sequence[AskedLook]) -> tuple[list[Look], list[Look], list[Look]]:
        """Words at their points; marks at the point that a question is about; a plan's bin at its colour in the rule.

        Where the rule does not name that colour, the mark says so.
        """
        naming: list[Look] = []
        about: list[Look] = []
        deciding: list[Look] = []
        for row, one in enumerate(asked):
            mark = len(one.question) - 1
            tokens = [*one.question, *one.answer[:-1]]
            naming += [
                (row, at, self._point_of[token]) for at, token in enumerate(tokens) if token in self._point_of
            ]
            if one.about != NO_POINT:
                about.append((row, mark, one.about))
            if one.question[mark] == PLAN:
                named = [
                    (mark + 1 + at, self._point_of[token])
                    for at, token in enumerate(one.answer)
                    if token in self._point_of
                ]
                if len(named) == 2:  # colour and bin
                    colour, bin_at = named[0][1], named[1][0]
                    rule = [
                        at for at, token in enumerate(one.question) if self._point_of.get(token) == colour
                    ]
                    deciding.append((row, bin_at - 1, self._observation + (rule[0] if rule else mark)))
        return naming, about, deciding


def _surprise(watched: tuple[Tensor, Tensor], head: int, looks: Sequence[Look], observation: int) -> Tensor:
    """Mean negative log share of attention that goes where it should."""
    queries, keys = watched
    rows, tokens, slots = torch.tensor(looks, device=queries.device).T
    query = queries[rows, head, tokens]  # (looks, d)
    key = keys[rows, head * keys.shape[1] // queries.shape[1]]  # (looks, slots, d)
    scores = (key @ query[..., None])[..., 0] / math.sqrt(query.shape[-1])
    later = torch.arange(key.shape[1], device=key.device) > observation + tokens[:, None]
    shares = torch.log_softmax(scores.masked_fill(later, -torch.inf), dim=-1)
    return -shares[torch.arange(len(rows), device=key.device), slots].mean()
