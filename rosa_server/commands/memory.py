"""What the models of a factory need of a GPU's memory, and what is free on this machine, for `rosa check`."""

from __future__ import annotations

from typing import Any

from rosa_contract.config.factory import Factory
from rosa_contract.errors import ConfigError
from rosa_server.cluster.gpus import free_memory_mb
from rosa_server.scheduler.profiles.library import ProfileLibrary


def memory_of(factory: Factory, library: ProfileLibrary | None = None) -> dict[str, Any]:
    """In MB: of a worker of each model (None without a profile), of all components together on one GPU, of a GPU (None
    where nothing is known), and what is free now, by GPU."""
    library = library or ProfileLibrary()
    workers = {c.model: None for task in factory.tasks.values() for c in task.components.values()}
    found: dict[str, float | None] = dict(workers)
    hardware: list[float] = []
    for model in found:
        try:
            profile = library.get(model, factory.server_cluster.gpu_type)
        except ConfigError:
            continue
        found[model] = profile.memory_mb
        hardware.append(profile.hardware_memory_mb)
    # On a shared GPU each component has its own worker.
    pairs = {(key, c.model) for task in factory.tasks.values() for key, c in task.components.items()}
    needed = [found[model] for _, model in pairs]
    together = None if None in needed else sum(each for each in needed if each is not None)
    return {
        "models_mb": found,
        "together_mb": together,
        "gpu_mb": min(hardware, default=None),
        "free_mb": free_memory_mb(factory.server_cluster.gpu_type),
    }


def memory_lines(memory: dict[str, Any]) -> list[str]:
    """The same in words."""
    lines = [
        f"memory of {model}: {'not known, it has no profile' if mb is None else f'{mb:,.0f} MB'}"
        for model, mb in sorted(memory["models_mb"].items())
    ]
    together, gpu = memory["together_mb"], memory["gpu_mb"]
    if together is not None and gpu is not None:
        fits = "fits" if together <= gpu else "does not fit"
        lines.append(f"memory of all components on one GPU: {together:,.0f} MB, {fits} its {gpu:,.0f} MB")
    free = ", ".join(f"{name} {mb:,.0f} MB" for name, mb in memory["free_mb"].items())
    lines.append(f"memory free on this machine: {free or 'no GPU was found'}")
    return lines
