"""Backends by name, imported only when named. `package.module:Class` names one of your own."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from rosa_contract.errors import ContractError
from rosa_contract.strict import nearest
from rosa_server.models.backend import Backend

BACKENDS = {
    "emulated": "rosa_server.models.emulated:EmulatedBackend",
    "flow_policy": "rosa_server.models.flow_policy:FlowPolicyBackend",
    "null": "rosa_server.models.emulated:NullBackend",
    "replay": "rosa_server.models.replay:ReplayBackend",
    "task_monitor": "rosa_server.models.task_monitor:TaskMonitorBackend",
}


class BackendError(ContractError):
    """No such backend, or options that it does not take."""


def check_name(backend: str) -> str:
    """The `module:Class` behind a name, without importing it. Raises `BackendError` listing the known ones."""
    if backend in BACKENDS:
        return BACKENDS[backend]
    module, _, name = backend.partition(":")
    if name.isidentifier() and all(part.isidentifier() for part in module.split(".")):
        return backend
    known = ", ".join(BACKENDS)
    hint = nearest(backend, BACKENDS)
    raise BackendError(f"no backend {backend!r}{hint}; known: {known}, or package.module:Class")


def create(backend: str, **options: Any) -> Backend:
    """A backend, not yet loaded. Raises `BackendError` for an unknown name, and for options that it does not take."""
    module, _, name = check_name(backend).partition(":")
    try:
        kind = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise BackendError(f"backend {backend!r}: {error}") from error
    try:
        inspect.signature(kind).bind(**options)
    except TypeError as error:
        takes = ", ".join(inspect.signature(kind).parameters)
        raise BackendError(f"backend {backend!r}: {error}; it takes the options {takes}") from None
    try:
        made: Backend = kind(**options)
    except (TypeError, ValueError, AttributeError, OSError) as error:
        raise BackendError(f"backend {backend!r}: {error}") from error
    return made
