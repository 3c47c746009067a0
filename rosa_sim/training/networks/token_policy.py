"""Fits the token policy to the demonstrations, with the eyes of the shipped flow policy.

The two encoders are taken from `panda_flow_policy.safetensors` and kept; what they see of every look is computed once,
in a few augmented versions, so that only projector and decoder are trained.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from rosa_server.models.panda.common import proprioception
from rosa_server.models.panda.flow_policy import FlowPolicy
from rosa_server.models.panda.vision import WEIGHTS_DIR, load_weights
from rosa_server.models.token_policy.actions import BINS, to_tokens
from rosa_server.models.token_policy.network import TokenPolicy, words_of
from rosa_sim.training.networks.learn import augmented, seen_once, ship, train
from rosa_sim.training.networks.small import POLICY_FILE, acting_weights, places

TOKENS_FILE = "panda_token_policy.safetensors"
VIEWS = 4  # augmented versions of each look
BLUR_BINS = 2.0  # a bin beside the right one is nearly right
PROMPTS = ("", "pick the cube and place it in the bin", "pick up the cube", "put the cube into the bin")


def fit_tokens(data: dict[str, NDArray[Any]], steps: int, work: Path) -> Path:
    """Cross entropy on the seven tokens, plus a small loss on the positions of cube and bin."""
    torch.set_num_threads(1)
    torch.manual_seed(2)
    network = TokenPolicy()
    eyes = FlowPolicy()
    load_weights(eyes, WEIGHTS_DIR / POLICY_FILE)
    network.front.load_state_dict(eyes.front.state_dict())
    network.wrist.load_state_dict(eyes.wrist.state_dict())
    network.front.requires_grad_(False)
    network.wrist.requires_grad_(False)
    features = _features(network, data, work / "token_features.npy")
    told, tool = proprioception(data["joint_position"], data["gripper_width"])
    tokens = torch.from_numpy(to_tokens(data["chunk"], tool))
    soft = _blurred(tokens[:, :6])
    where = places(data)
    words = words_of(PROMPTS)

    def loss_of(network: nn.Module, rows: NDArray[np.int64], rng: np.random.Generator) -> Tensor:
        assert isinstance(network, TokenPolicy)
        seen = torch.from_numpy(features[rng.integers(0, VIEWS, len(rows)), rows].astype(np.float32))
        jitter = 0.005 * torch.randn(len(rows), told.shape[1])
        said = words[rng.integers(0, len(PROMPTS), len(rows))]
        states = network.states(network.prefix(seen, told[rows] + jitter, said), tokens[rows])
        logits = network.decoder.head(states)
        path = functional.cross_entropy(logits[:, :6, :BINS].flatten(0, 1), soft[rows].flatten(0, 1))
        grip = functional.cross_entropy(logits[:, 6, :BINS], tokens[rows, 6])
        places_loss = functional.smooth_l1_loss(network.where(states[:, 0]), where[rows], beta=0.1)
        return path + 0.3 * grip + places_loss

    title, checkpoint = "Training of the token policy", work / "tokens.safetensors"
    average = train(
        network, loss_of, acting_weights(data), steps, checkpoint, "token_policy", rate=6e-4, title=title
    )
    return ship(average, TOKENS_FILE, "rosa/panda-token-policy", steps, len(tool))


def _features(network: TokenPolicy, data: dict[str, NDArray[Any]], path: Path) -> NDArray[np.float16]:
    """What the encoders see `(views, n, 2, 192)`; kept in a file."""
    rng = np.random.default_rng(11)

    def see(rows: slice, view: int) -> Tensor:
        front, wrist = (augmented(data[name][rows], rng, shift=1) for name in ("front", "wrist"))
        return network.see(front, wrist)

    return seen_once(path, (VIEWS, len(data["front"]), 2, network.front.features), see)


def _blurred(tokens: Tensor) -> Tensor:
    """Bins `(n, 6)` -> shares of all bins `(n, 6, 256)`: a bell around the right one."""
    table = torch.exp(-0.5 * ((torch.arange(BINS)[:, None] - torch.arange(BINS)[None]) / BLUR_BINS) ** 2)
    return (table / table.sum(dim=1, keepdim=True))[tokens]
