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
    "worker": Environment(
        "a worker and nothing else: for a model in NumPy, or with packages that you add by --with"
    ),
    "transformers": Environment(
        "models of Hugging Face transformers, on a CPU or CUDA: backend transformers_vlm",
        ("torch==2.13.0", "transformers==5.23.0", "safetensors==0.8.0", "pillow==13.0.0"),
    ),
    "remote": Environment(
        "in front of a policy server that runs already: backends openpi_remote and vllm_omni_remote",
        ("websockets==17.4",),
    ),
    "jax": Environment(
        "models of your own in JAX on a CPU, Python 3.11 and newer: backend jax_policy",
        ("jax==0.10.2", "safetensors==0.8.0"),
    ),
    "lerobot": Environment(
        "policies of LeRobot 0.4.4, the newest for Python 3.10 and 3.11, SmolVLA among them, with its own PyTorch"
        " (8 GB): backend lerobot",
        ("lerobot[smolvla]==0.4.4",),
        ("pyzmq==27.3.0", "msgpack==1.2.4"),
    ),
    "lerobot06": Environment(
        "the same of LeRobot 0.6, for Python 3.12 and newer (--python), with its commands and PyTorch (8 GB)",
        ("lerobot[core-scripts,diffusion,evaluation]==0.6.1",),
        ("pyzmq==27.3.0", "msgpack==1.2.4"),
    ),
}
