"""Backends by name, imported only when named. `package.module:Class` names one of your own."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

from rosa_contract.config.spaces import SPACES
from rosa_contract.errors import CausedError
from rosa_contract.wire.bounds import MAX_BATCH
from rosa_contract.wording import nearest
from rosa_server.models.backend import Backend, InputSpec, capabilities_of
from rosa_server.plan.engines import AUTO_ENGINE

BACKENDS = {
    "emulated": "rosa_server.models.emulated:EmulatedBackend",
    "flow_policy": "rosa_server.models.panda.flow_policy:FlowPolicyBackend",
    "gr00t_remote": "rosa_server.models.remote.gr00t:Gr00tRemoteBackend",
    "jax_policy": "rosa_server.models.policies.jax_policy:JaxPolicyBackend",
    "lerobot": "rosa_server.models.policies.lerobot:LerobotBackend",
    "null": "rosa_server.models.emulated:NullBackend",
    "openpi_remote": "rosa_server.models.remote.openpi:OpenpiRemoteBackend",
    "openvla": "rosa_server.models.token_policy.openvla_backend:OpenVlaBackend",
    "replay": "rosa_server.models.replay:ReplayBackend",
    "task_monitor": "rosa_server.models.panda.task_monitor:TaskMonitorBackend",
    "token_policy": "rosa_server.models.token_policy.backend:TokenPolicyBackend",
    "transformers_vlm": "rosa_server.models.language.transformers_vlm:TransformersVlmBackend",
    "vla": "rosa_server.models.vla.backend:VlaBackend",
    "vllm": "rosa_server.models.language.vllm:VllmBackend",
    "vllm_omni_remote": "rosa_server.models.remote.vllm_omni:VllmOmniRemoteBackend",
}


METHODS = ("load", "warm_up", "infer", "close")
# Abilities that an attribute of the backend declared once: to ignore one in silence would change how it is served.
OLD_ATTRIBUTES = ("at_once", "shares", "inpaints", "takes_any", "batch_sizes")


class BackendError(CausedError):
    """A backend cannot be made."""

    CAUSES: ClassVar = {
        "unknown_backend": "no backend has this name",
        "not_importable": "its module or class cannot be imported",
        "bad_options": "it does not take these options",
        "bad_weights": "its weights are missing, or do not fit its network",
        "no_memory": "its weights have no room on its device",
        "no_server": "the server behind it cannot be reached, or refuses it",
        "checksum_mismatch": "a file of the model is not the one that the factory file means",
        "checksum_missing": "a file of the model has no checksum, while others have",
        "not_a_backend": "what its class makes lacks a part of the interface",
        "bad_capabilities": "what it declares that it can is not possible, or not declared as it has to be",
    }


def with_engine(options: Mapping[str, Any], engine: str = "") -> dict[str, Any]:
    """Options of a factory file as the backend takes them.

    `engine`: what the schedule chose where the file says `engine: auto`; empty: the backend's default.
    """
    if options.get("engine") != AUTO_ENGINE:
        return dict(options)
    rest = {name: value for name, value in options.items() if name != "engine"}
    return {**rest, "engine": engine} if engine else rest


def check_name(backend: str) -> str:
    """The `module:Class` behind a name, without importing it. Raises `BackendError` listing the known ones."""
    if backend in BACKENDS:
        return BACKENDS[backend]
    module, _, name = backend.partition(":")
    if name.isidentifier() and all(part.isidentifier() for part in module.split(".")):
        return backend
    known = ", ".join(BACKENDS)
    hint = nearest(backend, BACKENDS)
    raise BackendError(
        "unknown_backend", f"no backend {backend!r}{hint}; known: {known}, or package.module:Class"
    )


def create(backend: str, **options: Any) -> Backend:
    """A backend, not yet loaded. Raises `BackendError` for an unknown name, and for options that it does not take."""
    module, _, name = check_name(backend).partition(":")
    if backend not in BACKENDS and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # where a worker finds it; a console script alone would not look there
    try:
        kind = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        hint = "; `rosa models` says what brings it" if backend in BACKENDS else ""
        raise BackendError("not_importable", f"backend {backend!r}: {error}{hint}") from error
    try:
        inspect.signature(kind).bind(**options)
    except TypeError as error:
        takes = ", ".join(inspect.signature(kind).parameters)
        raise BackendError(
            "bad_options", f"backend {backend!r}: {error}; it takes the options {takes}"
        ) from None
    try:
        made: Backend = kind(**options)
    except (TypeError, ValueError, AttributeError, OSError) as error:
        raise BackendError("bad_options", f"backend {backend!r}: {error}") from error
    missing = [name for name in METHODS if not callable(getattr(made, name, None))]
    if missing:
        words = f"backend {backend!r}: {name} is no backend: it has no {', '.join(missing)}"
        raise BackendError("not_a_backend", f"{words} (docs/add_a_model.md)")
    return made


def check_loaded(name: str, backend: Backend) -> None:
    """Raise `BackendError` unless a loaded backend says what it takes, and what it can."""
    spec, limit = getattr(backend, "input_spec", None), getattr(backend, "max_batch", None)
    if not isinstance(spec, InputSpec):
        raise BackendError(
            "not_a_backend", f"backend {name!r}: input_spec: expected an InputSpec, got {spec!r:.80}"
        )
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MAX_BATCH:
        words = f"max_batch: expected a whole number from 1 to {MAX_BATCH}, got {limit!r:.80}"
        raise BackendError("not_a_backend", f"backend {name!r}: {words}")
    try:
        mistakes = capabilities_of(backend).mistakes()
    except (TypeError, ValueError) as error:
        mistakes = [str(error)]
    if spec.actions and spec.actions not in SPACES:
        known = ", ".join(SPACES)
        mistakes.append(f"input_spec.actions: expected one of {known}, or nothing, got {spec.actions!r:.80}")
    if not hasattr(backend, "capabilities"):
        mistakes += [
            f"{one}: declare it in `capabilities`" for one in OLD_ATTRIBUTES if hasattr(backend, one)
        ]
    if mistakes:
        words = f"backend {name!r}: {'; '.join(mistakes)} (docs/add_a_model.md)"
        raise BackendError("bad_capabilities", words)
