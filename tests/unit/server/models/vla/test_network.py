"""The network with random weights: what a row answers depends on its own tokens only, however they are batched."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from rosa_server.engines.kv_sharing.cache import Cache
from rosa_server.models.vla.config import PI05, SHIPPED
from rosa_server.models.vla.network import VlaNetwork


@pytest.fixture(scope="module")
def network():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = VlaNetwork().eval()
    for layer in network.action_layers:  # zero at birth, and then time would not matter
        torch.nn.init.normal_(layer.input_norm.modulate.weight, std=0.1)
    return network


@pytest.fixture(scope="module")
def observed(network):
    """Three observations' caches."""
    generator = torch.Generator().manual_seed(1)
    pictures = [2 * torch.rand(3, 3, 96, 96, generator=generator) - 1 for _ in range(2)]
    told = torch.randn(3, 11, generator=generator)
    with torch.inference_mode():
        embeddings = network.observe(pictures, told)
        assert embeddings.shape == (3, SHIPPED.observation, SHIPPED.width)
        return network.prefill(embeddings)


PROMPTS = ([5, 6, 7], [9, 8, 7, 6, 5, 4, 300], [1])


def padded(prompts):
    longest = max(len(one) for one in prompts)
    tokens = torch.tensor([one + [0] * (longest - len(one)) for one in prompts])
    return tokens, torch.tensor([len(one) for one in prompts])


@torch.inference_mode()
def test_rows_of_different_length_answer_as_they_do_alone(network, observed):
    tokens, count = padded([*PROMPTS])
    states, longer = network.extend(observed, tokens, count)
    assert longer.length.tolist() == [SHIPPED.observation + len(one) for one in PROMPTS]
    noise = torch.randn(3, SHIPPED.horizon, SHIPPED.action_dim, generator=torch.Generator().manual_seed(2))
    chunks = network.sample(longer, noise, 4)
    second, _ = network.extend(longer, torch.tensor([[11], [12], [13]]))
    for row, prompt in enumerate(PROMPTS):
        alone, cache = network.extend(observed.take([row]), torch.tensor([prompt]))
        torch.testing.assert_close(states[row, : len(prompt)], alone[0], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(
            chunks[row], network.sample(cache, noise[row : row + 1], 4)[0], atol=1e-4, rtol=1e-4
        )
        more, _ = network.extend(cache, torch.tensor([[11 + row]]))
        torch.testing.assert_close(second[row, 0], more[0, 0], atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_token_by_token_in_place_is_the_same_as_all_at_once(network, observed):
    tokens = torch.tensor([PROMPTS[1]] * 3)
    together, _ = network.extend(observed, tokens)
    cache = observed.reserve(observed.capacity + tokens.shape[1])
    for at in range(tokens.shape[1]):
        state, cache = network.extend(cache, tokens[:, at : at + 1], in_place=True)
        torch.testing.assert_close(state[:, 0], together[:, at], atol=1e-5, rtol=1e-4)
    with pytest.raises(ValueError, match="no room"):
        network.extend(cache, tokens[:, :1], in_place=True)


@torch.inference_mode()
def test_a_stored_observation_is_not_changed_by_what_is_asked_of_it(network, observed):
    before = observed.keys.clone()
    _, longer = network.extend(observed, torch.tensor([PROMPTS[0]] * 3))
    network.sample(longer, torch.zeros(3, SHIPPED.horizon, SHIPPED.action_dim), 2)
    assert torch.equal(observed.keys, before) and observed.length.tolist() == [SHIPPED.observation] * 3


@torch.inference_mode()
def test_a_batch_separates_into_what_it_was_made_of(network, observed):
    _, short = network.extend(observed.take([0]), torch.tensor([PROMPTS[0]]))
    _, long = network.extend(observed.take([1]), torch.tensor([PROMPTS[1]]))
    batch = Cache.batch([short, long], room=2)
    assert batch.capacity == long.capacity + 2 and batch.rows == 2
    for one, again in zip((short, long), batch.unbatch(), strict=True):
        assert torch.equal(one.keys, again.keys) and torch.equal(one.values, again.values)
        assert torch.equal(one.length, again.length)
    token = torch.tensor([[17], [18]])
    together, _ = network.extend(batch, token, in_place=True)
    for row, one in enumerate((short, long)):
        alone, _ = network.extend(one, token[row : row + 1])
        torch.testing.assert_close(together[row], alone[0], atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_prompt_pictures_and_time_all_matter_to_the_action(network, observed):
    noise = torch.randn(1, SHIPPED.horizon, SHIPPED.action_dim, generator=torch.Generator().manual_seed(3))
    time = torch.tensor([0.3])
    fields = []
    for row, prompt in ((0, PROMPTS[0]), (0, PROMPTS[1]), (1, PROMPTS[0])):
        _, cache = network.extend(observed.take([row]), torch.tensor([prompt]))
        fields.append(network.velocity(noise, time, cache))
    fields.append(network.velocity(noise, torch.tensor([0.9]), cache))
    for one, other in ((0, 1), (0, 2), (2, 3)):
        assert (fields[one] - fields[other]).abs().max() > 1e-3


def test_a_size_that_cannot_be_is_refused():
    for wrong in ({"kv_heads": 3}, {"head_dim": 31}, {"layers": 0}, {"points": 0}, {"longest": 20}):
        with pytest.raises(ValueError, match="VlaConfig"):
            replace(SHIPPED, **wrong)


def test_the_large_size_is_that_of_pi05():
    with torch.device("meta"):
        network = VlaNetwork(PI05)
    count = sum(one.numel() for one in network.parameters())
    # Gemma 2B 2.51e9, SigLIP So400m 0.41e9, Gemma 300M without its embedding 0.31e9, and its adaptive norms 0.11e9.
    assert 3.2e9 < count < 3.5e9
    assert PI05.observation == 3 * 256 + 1
    assert PI05.cache_bytes(1, 2) == 18 * 2 * 256 * 2
