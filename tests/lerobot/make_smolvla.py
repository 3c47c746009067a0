"""Runs in LeRobot's environment: a SmolVLA of the smallest size with random weights, and its own answers.

    python make_smolvla.py FOLDER

The real one's vision-language model is fetched from a hub. This one's is made here: a SmolVLM of two layers, whose
tokenizer knows a few words. FOLDER/vlm is the vision-language model, FOLDER/policy the checkpoint, and
FOLDER/answers.npz has observations and what LeRobot alone answers to each.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.factory import make_pre_post_processors
from lerobot.policies.smolvla.configuration_smolvla import SmolVLAConfig
from lerobot.policies.smolvla.modeling_smolvla import SmolVLAPolicy
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    PreTrainedTokenizerFast,
    SmolVLMConfig,
    SmolVLMImageProcessor,
    SmolVLMProcessor,
    SmolVLMVideoProcessor,
)

SIZE, STATE, ACTIONS, EPISODES, SEED = 64, 6, 6, 3, 7
PROMPTS = ("press the red button", "press the blue button", "lift the cube")
SPECIAL = {
    "fake_image_token": "<fake_token_around_image>",
    "image_token": "<image>",
    "global_image_token": "<global-img>",
    "video_token": "<video>",
}


def make_vlm(folder: Path) -> None:
    """Configuration, tokenizer and processors; SmolVLA takes no more of it."""
    words = sorted({word for prompt in PROMPTS for word in prompt.split()})
    known = ["<unk>", "<pad>", "<end_of_utterance>", *SPECIAL.values(), *words]
    vocabulary = {word: number for number, word in enumerate(known)}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        unk_token="<unk>",
        pad_token="<pad>",
        eos_token="<end_of_utterance>",
        extra_special_tokens=SPECIAL,
    )
    config = SmolVLMConfig(
        image_token_id=vocabulary["<image>"],
        pad_token_id=vocabulary["<pad>"],
        scale_factor=2,
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "image_size": SIZE,
            "patch_size": 16,
        },
        text_config={
            "model_type": "llama",
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "head_dim": 32,
            "vocab_size": len(vocabulary),
            "pad_token_id": vocabulary["<pad>"],
        },
    )
    size = {"longest_edge": SIZE}
    images = SmolVLMImageProcessor(size=size, max_image_size=size)
    videos = SmolVLMVideoProcessor(size=size, max_image_size=size)
    processor = SmolVLMProcessor(images, tokenizer, videos, image_seq_len=4)
    config.save_pretrained(folder)
    processor.save_pretrained(folder)


def main(folder: Path) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    make_vlm(folder / "vlm")
    features = {
        "observation.state": PolicyFeature(FeatureType.STATE, (STATE,)),
        "observation.images.front": PolicyFeature(FeatureType.VISUAL, (3, SIZE, SIZE)),
    }
    config = SmolVLAConfig(
        input_features=features,
        output_features={"action": PolicyFeature(FeatureType.ACTION, (ACTIONS,))},
        vlm_model_name=str(folder / "vlm"),
        resize_imgs_with_padding=(SIZE, SIZE),
        chunk_size=8,
        n_action_steps=8,
        num_vlm_layers=2,
        device="cpu",
        push_to_hub=False,
    )
    policy = SmolVLAPolicy(config).eval()
    stats = {
        name: {
            "mean": torch.from_numpy(rng.normal(0, 1, size).astype(np.float32)),
            "std": torch.from_numpy(rng.uniform(0.5, 2, size).astype(np.float32)),
        }
        for name, size in (("observation.state", STATE), ("action", ACTIONS))
    }
    before, after = make_pre_post_processors(config, dataset_stats=stats)
    for one in (policy, before, after):
        one.save_pretrained(folder / "policy")
    pictures = rng.integers(0, 256, (EPISODES, SIZE, SIZE, 3), dtype=np.uint8)
    states = rng.normal(0, 1, (EPISODES, STATE)).astype(np.float32)
    chunks = []
    for row in range(EPISODES):
        policy.reset()
        torch.manual_seed(SEED)
        chunk = []
        for _ in range(config.n_action_steps):
            seen = {
                "observation.images.front": torch.from_numpy(pictures[row]).permute(2, 0, 1).float() / 255,
                "observation.state": torch.from_numpy(states[row]),
                "task": PROMPTS[row],
            }
            with torch.no_grad():
                chunk.append(after(policy.select_action(before(seen)))[0].numpy())
        chunks.append(chunk)
    np.savez(folder / "answers.npz", pictures=pictures, states=states, chunks=np.array(chunks, np.float32))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
