"""A policy in JAX: a function of parameters and an observation, jitted once for each batch size, and its parameters.

    def policy(parameters, observation):  # named in the factory file as my_module:policy
        images = observation["images"]["front"]   # (batch, height, width, 3) uint8
        joints = observation["state"]["joint_position"]  # (batch, values) float32
        key = observation["key"]  # of jax.random; the same for every call, so that an answer can be had again
        return {"actions": ...}  # (batch, ...) each

`parameters` are those of the file: by name from .npz and .safetensors, the saved tree from a folder of Orbax.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rosa_contract.wire.bounds import MAX_BATCH
from rosa_server.models.backend import Capabilities, InputSpec, ModelInput, ModelOutput, check_batch
from rosa_server.models.registry import BackendError
from rosa_server.models.requirements import needs
from rosa_server.models.stacking import stacked

ENVIRONMENT = "jax"
NPZ, SAFETENSORS = ".npz", ".safetensors"


class JaxPolicyBackend:
    """Batches are padded to 1, 2, 4 ... `max_batch`, which are compiled when the worker warms up."""

    def __init__(
        self,
        policy: str,
        parameters: str = "",
        images: Mapping[str, Sequence[int]] | None = None,
        state: Mapping[str, int] | None = None,
        answers: str = "",
        max_batch: int = 8,
        seed: int = 0,
    ) -> None:
        """`policy`: module:function. `parameters`: a file or a folder; empty: none.

        `images`: camera -> [height, width]. `answers`: the space of its actions; empty: joint positions. Raises
        `ValueError`.
        """
        module, _, name = policy.partition(":")
        if not name.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
            raise ValueError(f"policy: expected module:function, got {policy!r}")
        if not 1 <= max_batch <= MAX_BATCH:
            raise ValueError(f"max_batch: expected 1 to {MAX_BATCH}, got {max_batch}")
        sizes = {camera: (int(size[0]), int(size[1])) for camera, size in (images or {}).items()}
        self.input_spec = InputSpec(sizes, dict(state or {}), actions=answers)
        self.max_batch, self.memory_mb = max_batch, 0.0
        self._sizes = (
            *(2**power for power in range(max_batch.bit_length()) if 2**power < max_batch),
            max_batch,
        )
        self.capabilities = Capabilities(batch_sizes=self._sizes)
        self._module, self._name, self._path, self._seed = module, name, parameters, seed
        self._run: Any = None

    def load(self) -> None:
        """Raises `BackendError` and `FileNotFoundError`, in one line each. Shapes are checked without running it."""
        jax = needs.package("jax", ENVIRONMENT)
        function = self._function()
        parameters = jax.device_put(load_parameters(self._path)) if self._path else {}
        self.memory_mb = sum(one.nbytes for one in jax.tree.leaves(parameters)) / 1e6
        key, jitted = jax.random.PRNGKey(self._seed), jax.jit(function)

        def run(observation: Mapping[str, Any]) -> Mapping[str, Any]:
            found: Mapping[str, Any] = jitted(parameters, {**observation, "key": key})
            return found

        observation = {**self._stacked([self._blank]), "key": key}
        try:
            answer = jax.eval_shape(function, parameters, observation)
        except Exception as error:  # of anybody's function
            words = f"{self._module}:{self._name} cannot use {self._path or 'no parameters'}: {_first(error)}"
            raise BackendError("bad_weights", words) from error
        if not isinstance(answer, Mapping) or any(
            not one.shape or one.shape[0] != 1 for one in answer.values()
        ):
            shown = (
                {name: one.shape for name, one in answer.items()} if isinstance(answer, Mapping) else answer
            )
            words = (
                f"{self._module}:{self._name}: expected a mapping of arrays (batch, ...), got {shown!s:.200}"
            )
            raise BackendError("bad_weights", words)
        self._run = run

    def _function(self) -> Any:
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
        try:
            return getattr(importlib.import_module(self._module), self._name)
        except (ImportError, AttributeError) as error:
            raise BackendError("not_importable", f"policy {self._module}:{self._name}: {error}") from error

    def warm_up(self) -> None:
        """Compile every batch size."""
        for size in self._sizes:
            self.infer([self._blank] * size)

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        """One output per input, in order. Raises `ValueError` for an input that does not match `input_spec`."""
        check_batch(self.input_spec, batch, self.max_batch)
        if self._run is None:
            raise RuntimeError("load() comes before infer()")
        size = next(one for one in self._sizes if one >= len(batch))
        answer = self._run(self._stacked([*batch, *[batch[-1]] * (size - len(batch))]))
        arrays = {name: np.asarray(one) for name, one in answer.items()}
        return [
            ModelOutput({name: np.array(one[row]) for name, one in arrays.items()})
            for row in range(len(batch))
        ]

    def close(self) -> None:
        self._run = None

    @property
    def _blank(self) -> ModelInput:
        images = {name: np.zeros((*size, 3), np.uint8) for name, size in self.input_spec.images.items()}
        state = {name: np.zeros(length, np.float32) for name, length in self.input_spec.state.items()}
        return ModelInput("warm_up", images=images, state=state)

    def _stacked(self, batch: Sequence[ModelInput]) -> dict[str, dict[str, NDArray[Any]]]:
        return {
            "images": {name: stacked([one.images[name] for one in batch]) for name in self.input_spec.images},
            "state": {
                name: np.stack([one.state[name].astype(np.float32) for one in batch])
                for name in self.input_spec.state
            },
        }


def load_parameters(path: str) -> Any:
    """A mapping of arrays from .npz or .safetensors, or the tree of an Orbax folder; floating-point ones as float32.

    Raises `BackendError` and `FileNotFoundError`.
    """
    where = Path(path).expanduser()
    if not where.exists():
        raise FileNotFoundError(
            f"{where}: no such file or folder; `parameters` names .npz, .safetensors or Orbax's"
        )
    try:
        if where.is_dir():
            orbax = needs.package("orbax.checkpoint", f"{ENVIRONMENT} --with orbax-checkpoint")
            tree = orbax.StandardCheckpointer().restore(where.absolute())
            return needs.package("jax", ENVIRONMENT).tree.map(_as_float32, tree)
        if where.suffix == NPZ:
            with np.load(where, allow_pickle=False) as held:
                arrays = {name: held[name] for name in held.files}
        elif where.suffix == SAFETENSORS:
            arrays = needs.package("safetensors.numpy", ENVIRONMENT).load_file(str(where))
        else:
            raise ValueError(f"expected {NPZ}, {SAFETENSORS} or a folder of Orbax")
    except (OSError, ValueError) as error:
        raise BackendError("bad_weights", f"{where}: {_first(error)}") from error
    except BackendError:
        raise
    except Exception as error:  # of safetensors and Orbax
        raise BackendError("bad_weights", f"{where}: {_first(error)}") from error
    return {name: _as_float32(one) for name, one in arrays.items()}


def _as_float32(one: Any) -> Any:
    """An array, of NumPy or JAX; bfloat16 is one of JAX's, which NumPy does not call floating."""
    floating = np.issubdtype(one.dtype, np.floating) or one.dtype.name == "bfloat16"
    return one.astype(np.float32) if floating else one


def _first(error: BaseException) -> str:
    """The first line of an error's words."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
