"""Starts, watches and restarts workers. Every implementation starts the same worker with the same ZeroMQ data path.

What a server needs of one is the protocol `Cluster` of `rosa_server/serving/edge/cluster.py`. A new one is a file here
with a function `make(factory, placement) -> Cluster`, and a row below; it is imported when it is named.
"""

from __future__ import annotations

import importlib
from typing import cast

from rosa_contract.config.factory import CLUSTERS
from rosa_server.serving.edge.cluster import Cluster, ClusterMaker

__all__ = ["Cluster", "ClusterMaker", "maker"]

MODULES = {"local": "rosa_server.cluster.local", "ray": "rosa_server.cluster.on_ray"}
assert set(MODULES) == set(CLUSTERS)


def maker(name: str) -> ClusterMaker:
    """What makes a cluster of this name. Raises `KeyError` for a name that no factory file may have."""
    return cast(ClusterMaker, importlib.import_module(MODULES[name]).make)
