"""Maps a robot's observations and actions to a model's (`models.<name>.adapter`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from rosa_server.models.backend import Backend


def behind(backend: Backend, adapter: Mapping[str, Any]) -> Backend:
    """`backend` behind an adapter, given as `Resolved.to_data` makes it; empty: as it is. Raises `ConfigError`."""
    if not adapter:
        return backend
    from rosa_server.models.adapters.adapted import Adapted
    from rosa_server.models.adapters.resolving import from_data

    return cast(Backend, Adapted(backend, from_data(adapter)))
