"""Small random models of two families, as `save_pretrained` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

LEARNED = "ongoing done failed safe unsafe is the task the robot pick the cup and put it in the bin one word"
QWEN_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{m['role']}}\n{% for c in m['content'] %}{% if c['type']=='image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{c['text']}}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
IDEFICS_TEMPLATE = (
    "<|im_start|>{% for m in messages %}{{m['role']|capitalize}}:{% for c in m['content'] %}"
    "{% if c['type']=='image' %}<image>{% else %}{{c['text']}}{% endif %}{% endfor %}<end_of_utterance>\n"
    "{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"
)
TEXT = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "pad_token_id": 0,
}


def _tokenizer(special: list[str], template: str, **names: str) -> Any:
    from transformers import PreTrainedTokenizerFast  # here, as every process collects this file

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([LEARNED] * 20, trainer)
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=special[0], **names)
    made.chat_template = template
    return made


def qwen(folder: Path) -> Path:
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2VLImageProcessorPil

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>"]
    special += ["<|image_pad|>", "<|video_pad|>"]
    tokenizer = _tokenizer(special, QWEN_TEMPLATE, eos_token="<|im_end|>")
    ids = {name: tokenizer.convert_tokens_to_ids(name) for name in special}
    rope = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}
    vision = {"depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 64}
    config = Qwen2_5_VLConfig(
        text_config={
            **TEXT,
            "vocab_size": len(tokenizer),
            "rope_parameters": rope,
            "bos_token_id": None,
            "eos_token_id": ids["<|im_end|>"],
        },
        vision_config={**vision, "fullatt_block_indexes": [1], "window_size": 56},
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
    )
    torch.manual_seed(0)
    Qwen2_5_VLForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    Qwen2VLImageProcessorPil(min_pixels=28 * 28, max_pixels=28 * 28 * 16).save_pretrained(folder)
    return folder


def idefics(folder: Path, **text: Any) -> Path:
    """`text`: of its language model, other than `TEXT`."""
    from transformers import (
        Idefics3Config,
        Idefics3ForConditionalGeneration,
        Idefics3ImageProcessorPil,
        Idefics3Processor,
    )

    special = ["<|endoftext|>", "<|im_start|>", "<end_of_utterance>", "<fake_token_around_image>", "<image>"]
    special += ["<global-img>"]
    tokenizer = _tokenizer(
        special, IDEFICS_TEMPLATE, eos_token="<end_of_utterance>", bos_token="<|im_start|>"
    )
    pictures = Idefics3ImageProcessorPil(
        size={"longest_edge": 56}, max_image_size={"longest_edge": 28}, do_image_splitting=False
    )
    vision = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = Idefics3Config(
        text_config={
            **TEXT,
            "model_type": "llama",
            "vocab_size": len(tokenizer),
            "eos_token_id": 2,
            **text,
        },
        vision_config={**vision, "image_size": 28, "patch_size": 7},
        scale_factor=2,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        pad_token_id=0,
    )
    torch.manual_seed(0)
    Idefics3ForConditionalGeneration(config).save_pretrained(folder)
    processor = Idefics3Processor(pictures, tokenizer, image_seq_len=4, chat_template=IDEFICS_TEMPLATE)
    processor.save_pretrained(folder)
    return folder


FAMILIES = {"qwen2.5-vl": qwen, "idefics3": idefics}
