"""Which words are taught to look where, and that the loss falls when they do."""

from __future__ import annotations

import pytest
import torch

from rosa_server.models.vla.config import SHIPPED
from rosa_server.models.vla.network import VlaNetwork
from rosa_sim.training.data.words import BINS, COLOURS
from rosa_sim.training.networks.attention import Attention
from rosa_sim.training.networks.prompts import AskedLook, make_speech
from rosa_sim.training.networks.vla import name_points

SPEECH = make_speech()
ATTENTION = Attention(SPEECH, SHIPPED.observation)
BLUE, LEFT, RIGHT = COLOURS.index("blue"), 8 + BINS.index("left"), 8 + BINS.index("right")


def plan(rule, answer):
    return AskedLook(SPEECH.question("system2", rule), SPEECH.answer(answer))


def test_words_look_at_what_they_name_and_a_mark_at_what_the_question_is_about():
    question = SPEECH.question("system1", "put the blue block into the left bin")
    naming, about, deciding = ATTENTION.looks([AskedLook(question, [], target=True, about=BLUE)])
    assert [(question[at], point) for _, at, point in naming] == [
        (SPEECH.tokenizer.encode(" blue")[0], BLUE),
        (SPEECH.tokenizer.encode(" left")[0], LEFT),
    ]
    assert about == [(0, len(question) - 1, BLUE)] and not deciding


@pytest.mark.parametrize(("colour", "named"), [("blue", True), ("white", False)])
def test_a_plans_bin_is_decided_by_its_colour_in_the_rule(colour, named):
    one = plan("red and blue blocks go to the left bin", f"put the {colour} block into the left bin")
    _, about, ((row, at, slot),) = ATTENTION.looks([one])
    tokens = [*one.question, *one.answer]
    assert not about and row == 0
    assert tokens[at + 1] == SPEECH.tokenizer.encode(" left")[0], "the state before the bin says it"
    found = tokens[slot - SHIPPED.observation]
    assert found == (SPEECH.tokenizer.encode(" blue")[0] if named else one.question[-1])


def test_that_all_is_done_decides_no_bin():
    _, _, deciding = ATTENTION.looks([plan("red blocks go to the left bin", "all done")])
    assert deciding == []


@pytest.mark.slow
def test_the_loss_is_that_of_the_shares_and_training_lowers_it():
    torch.manual_seed(0)
    network = VlaNetwork()
    name_points(network, SPEECH)
    question = SPEECH.question("system1", "put the blue block into the left bin")
    asked = [AskedLook(question, [], target=True, about=BLUE)] * 2
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3)
    losses = []
    for _ in range(8):
        cache = network.prefill(network.embed(torch.zeros(2, 2, 12, 3), torch.zeros(2, 11)))
        watched: list[tuple[torch.Tensor, torch.Tensor]] = []
        network.extend(cache, torch.tensor([question] * 2), watch=watched)
        loss = ATTENTION.loss(watched, asked)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert len(watched) == SHIPPED.layers and 0 < losses[-1] < 0.5 * losses[0]


def test_a_word_looks_at_its_point_from_the_first_step():
    torch.manual_seed(1)
    network = VlaNetwork()
    name_points(network, SPEECH)
    words = [SPEECH.tokenizer.encode(f" {name}")[-1] for name in (*COLOURS, *BINS)]
    content = network.embedding.weight[words] * SHIPPED.width**0.5
    torch.testing.assert_close(network.project.which[:10], content)
    heads = network.layers[0].heads
    first, key = (
        heads.qkv.weight[: SHIPPED.head_dim],
        heads.qkv.weight[-2 * SHIPPED.head_dim : -SHIPPED.head_dim],
    )
    torch.testing.assert_close(first, key)
    likeness = (content @ first.T) @ (content @ key.T).T
    assert likeness.argmax(dim=1).tolist() == list(range(10))
