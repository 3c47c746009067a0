"""The environments that `rosa env` knows by name: which packages, of which versions, and what for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# What every worker needs, pinned. NumPy 2.3 and newer have no wheels for Python 3.10.
BASE = (
    "numpy==2.4.6; python_version >= '3.11'",
    "numpy==2.2.6; python_version < '3.11'",
    "pyzmq==27.3.0",
    "msgpack==1.2.4",
    "opencv-python-headless==4.14.0.94",
)


@dataclass(frozen=True)
class Environment:
    """Packages for pip, and what they are for."""

    what: str
    packages: tuple[str, ...] = ()
    base: tuple[str, ...] = BASE  # empty: its packages have NumPy and OpenCV of their own


ENVIRONMENTS: Mapping[str, Environment] = {
    "worker": Environment("the worker alone: for a NumPy model, or one whose packages you add with --with"),
    "transformers": Environment(
        "Hugging Face transformers models on CPU or CUDA: backend transformers_vlm",
        ("torch==2.13.0", "transformers==5.23.0", "safetensors==0.8.0", "pillow==13.0.0"),
    ),
    "remote": Environment(
        "clients for an already running policy server: backends openpi_remote and vllm_omni_remote",
        ("websockets==17.4",),
    ),
    "jax": Environment(
        "your own JAX models on CPU, Python 3.11 or newer: backend jax_policy",
        ("jax==0.10.2", "safetensors==0.8.0"),
    ),
    "lerobot": Environment(
        "LeRobot 0.4.4 policies, including SmolVLA, with LeRobot's own PyTorch (8 GB); the newest release"
        " for Python 3.10 and 3.11: backend lerobot",
        ("lerobot[smolvla]==0.4.4",),
        ("pyzmq==27.3.0", "msgpack==1.2.4"),
    ),
    "lerobot06": Environment(
        "the same for LeRobot 0.6 on Python 3.12 or newer (--python), with its commands and PyTorch (8 GB)",
        ("lerobot[core-scripts,diffusion,evaluation]==0.6.1",),
        ("pyzmq==27.3.0", "msgpack==1.2.4"),
    ),
}
