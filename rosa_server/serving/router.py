"""Which model answers which component of which task, and what that model wants to see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rosa_contract.config import Factory
from rosa_contract.messages import WorkerReady


@dataclass(frozen=True)
class ModelNeeds:
    """What a model takes, as its first ready worker announced it."""

    images: Mapping[str, tuple[int, int]]  # camera -> (height, width), px
    state: Mapping[str, int]  # name -> number of values


class Router:
    """The static route of a factory: (task, component) -> model -> its queue and workers."""

    def __init__(self, factory: Factory) -> None:
        self._routes = {task: factory.models_of(task) for task in factory.tasks}
        self._needs: dict[str, ModelNeeds] = {}
        self.models = tuple(sorted({model for route in self._routes.values() for model in route.values()}))

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self._routes)

    def models_of(self, task: str) -> Mapping[str, str]:
        """Component -> model. Raises `KeyError` for an unknown task."""
        return self._routes[task]

    def announce(self, ready: WorkerReady) -> None:
        self._needs[ready.model] = ModelNeeds(ready.images, ready.state)

    def needs_of(self, model: str) -> ModelNeeds | None:
        """None until a worker of the model has reported ready."""
        return self._needs.get(model)
