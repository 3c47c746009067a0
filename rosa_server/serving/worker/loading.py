"""From a worker's spec to a model that is warm."""

from __future__ import annotations

from rosa_server.models import registry
from rosa_server.models.adapters import behind
from rosa_server.models.backend import Backend
from rosa_server.models.checksums import verify
from rosa_server.serving.base.worker_spec import WorkerSpec


def loaded(spec: WorkerSpec) -> Backend:
    """Raises `ContractError` or `OSError` where it cannot work as configured, and whatever the model raises."""
    verify(spec.sha256, spec.options)
    backend = behind(registry.create(spec.backend, **spec.options), spec.adapter)
    backend.load()
    registry.check_loaded(spec.backend, backend)
    backend.warm_up()
    return backend
