"""Runs in LeRobot's environment: a small policy with random weights, saved with its processors, and its own answers.

    python make_policy.py act|diffusion FOLDER

Writes the checkpoint, and FOLDER/answers.npz with observations and what LeRobot alone answers to each.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from lerobot.configs.types import FeatureType, NormalizationMode, PolicyFeature
from lerobot.policies.factory import get_policy_class, make_policy_config, make_pre_post_processors

CAMERAS, SIZE, STATE, ACTIONS, EPISODES = ("front", "wrist"), 64, 6, 6, 3
SMALL = {
    "act": {
        "chunk_size": 8,
        "n_action_steps": 8,
        "dim_model": 32,
        "n_heads": 2,
        "dim_feedforward": 64,
        "n_encoder_layers": 1,
        "pretrained_backbone_weights": None,
    },
    "diffusion": {
        "horizon": 8,
        "n_action_steps": 7,
        "n_obs_steps": 2,
        "crop_shape": (56, 56),
        "pretrained_backbone_weights": None,  # LeRobot 0.6 downloads some
        "down_dims": (16, 32),
        "num_train_timesteps": 4,
        "num_inference_steps": 2,
        "noise_scheduler_type": "DDIM",
        "n_groups": 4,
        "diffusion_step_embed_dim": 16,
        "spatial_softmax_num_keypoints": 8,
    },
}


def main(name: str, folder: Path) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    features = {"observation.state": PolicyFeature(FeatureType.STATE, (STATE,))}
    features |= {
        f"observation.images.{camera}": PolicyFeature(FeatureType.VISUAL, (3, SIZE, SIZE))
        for camera in CAMERAS
    }
    answers = {"action": PolicyFeature(FeatureType.ACTION, (ACTIONS,))}
    config = make_policy_config(
        name,
        input_features=features,
        output_features=answers,
        device="cpu",
        normalization_mapping=dict.fromkeys(("VISUAL", "STATE", "ACTION"), NormalizationMode.MEAN_STD),
        **SMALL[name],
    )
    policy = get_policy_class(name)(config).eval()
    stats = {
        key: {
            "mean": torch.from_numpy(rng.normal(0, 1, shape).astype(np.float32)),
            "std": torch.from_numpy(rng.uniform(0.5, 2, shape).astype(np.float32)),
        }
        for key, shape in [
            *(
                (key, (3, 1, 1) if one.type is FeatureType.VISUAL else one.shape)
                for key, one in features.items()
            ),
            ("action", (ACTIONS,)),
        ]
    }
    before, after = make_pre_post_processors(config, dataset_stats=stats)
    for one in (policy, before, after):
        one.save_pretrained(folder)
    pictures = rng.integers(0, 256, (EPISODES, len(CAMERAS), SIZE, SIZE, 3), dtype=np.uint8)
    states = rng.normal(0, 1, (EPISODES, STATE)).astype(np.float32)
    chunks = []
    for row in range(EPISODES):
        # As LeRobot's own loop does it: one action after another from select_action, at the start of an episode.
        policy.reset()
        chunk = []
        torch.manual_seed(row)
        for _ in range(config.n_action_steps):
            seen = {
                f"observation.images.{camera}": torch.from_numpy(pictures[row, index])
                .permute(2, 0, 1)
                .float()
                / 255
                for index, camera in enumerate(CAMERAS)
            }
            seen |= {"observation.state": torch.from_numpy(states[row]), "task": "press"}
            with torch.no_grad():
                chunk.append(after(policy.select_action(before(seen)))[0].numpy())
        chunks.append(chunk)
    np.savez(folder / "answers.npz", pictures=pictures, states=states, chunks=np.array(chunks, np.float32))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
