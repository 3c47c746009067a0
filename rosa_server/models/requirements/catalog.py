"""What each backend by name is for, and what it needs beside the server: for `rosa models`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One backend."""

    what: str
    packages: tuple[str, ...] = ()  # by the name under which they are imported
    environment: str = ""  # of `rosa env`, that has them; empty: they come with the server
    also: str = ""  # what else has to be there


CATALOG: Mapping[str, Entry] = {
    "emulated": Entry("sleeps as long as a profile says and gives fixed answers"),
    "flow_policy": Entry("the shipped pick and place policy of the Panda", ("torch", "safetensors")),
    "gr00t_remote": Entry(
        "a policy server of GR00T N1.5, N1.6 or N1.7 that runs already", ("zmq",), also="`url`"
    ),
    "jax_policy": Entry(
        "a function of your own in JAX and its parameters",
        ("jax", "safetensors"),
        "jax",
        "`policy`, module:function",
    ),
    "lerobot": Entry(
        "any policy of LeRobot with its own processors",
        ("lerobot", "torch"),
        "lerobot",
        "`model`, a folder with weights",
    ),
    "null": Entry("answers zeros at once, to measure what serving costs"),
    "openpi_remote": Entry("a policy server of openpi that runs already", ("websockets",), "remote", "`url`"),
    "openvla": Entry(
        "OpenVLA from its published folder",
        ("torch", "safetensors", "tokenizers"),
        "transformers",
        "`model`, a folder with weights",
    ),
    "replay": Entry("answers from a file"),
    "task_monitor": Entry("the shipped task monitor of the Panda", ("torch", "safetensors")),
    "token_policy": Entry(
        "autoregressive policies: the shipped one, OpenVLA's architecture", ("torch", "safetensors")
    ),
    "transformers_vlm": Entry(
        "any image-text-to-text model of Hugging Face: plans, verdicts",
        ("torch", "transformers", "PIL"),
        "transformers",
        "`model`, a folder with weights",
    ),
    "vla": Entry("the shipped model that sees, speaks and acts", ("torch", "safetensors")),
    "vllm": Entry(
        "plans and verdicts of vLLM: a server that runs already, or in the worker",
        (),
        also="`url`, or `model`",
    ),
    "vllm_omni_remote": Entry(
        "a policy server of vLLM-Omni that runs already", ("websockets",), "remote", "`url`"
    ),
}
