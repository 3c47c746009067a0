"""What people did to a server that was killed, done again to the one that follows it, before its workers start."""

from __future__ import annotations

from functools import partial

from rosa_server.serving.base import log
from rosa_server.serving.operations.order import Site
from rosa_server.serving.operations.rollout import with_weights


def restore(site: Site, now_s: float) -> None:
    """Weights, drained workers and removed robots. Names that there are no more are forgotten. `site`: of a server that
    has its port."""
    state, known = site.state, site.names()
    state.drained &= known.keys()
    state.weights = {name: path for name, path in state.weights.items() if name in known}
    state.save()  # the port is this server's, and so is the file
    if state.empty:
        return
    for name, path in state.weights.items():
        site.cluster.change(name, partial(with_weights, weights=path))
    for name in state.drained:
        site.cluster.hold(name, True)
        site.core.on_lost(now_s, f"{name}.0", "it is drained")
    site.core.sessions.removed.update(state.removed)
    log.event(
        "live_state_restored",
        schedule=state.schedule_file,
        weights=state.weights,
        drained=sorted(state.drained),
        removed=len(state.removed),
        unfinished=[f"{one.what} {one.target} by {one.by}" for one in state.unfinished],
    )
