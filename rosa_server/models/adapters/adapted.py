"""A backend behind an adapter: to the worker, a model that takes what robots send and answers what they play."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rosa_contract.errors import CausedError, ConfigError
from rosa_server.models.adapters.checks import adapter_problems
from rosa_server.models.adapters.resolving import Resolved
from rosa_server.models.adapters.translator import Translator
from rosa_server.models.adapters.unmapped import model_problems, robot_needs
from rosa_server.models.backend import (
    Backend,
    Capabilities,
    InputSpec,
    ModelInput,
    ModelOutput,
    capabilities_of,
)
from rosa_server.models.stacking import Place

Array = NDArray[np.float64]


class AdapterError(CausedError):
    """An adapter does not fit its model."""

    CAUSES: ClassVar = {
        "unmapped": "something on either side is mapped to nothing, or to something of another shape"
    }


class Adapted:
    """A backend and its adapter as one backend."""

    def __init__(self, backend: Backend, resolved: Resolved) -> None:
        """Raises `ConfigError` for an adapter that cannot be. Nothing is asked of the backend before `load()`."""
        problems = adapter_problems(resolved)
        if problems:
            raise ConfigError("adapter", problems)
        self._backend, self._resolved = backend, resolved
        self._translator: Translator | None = None

    @property
    def resolved(self) -> Resolved:
        """The adapter, as it stands."""
        return self._resolved

    @contextmanager
    def otherwise(self, resolved: Resolved) -> Iterator[Adapted]:
        """The same model, loaded already, behind another adapter: what would it answer then? Raises `ConfigError` for
        an adapter that cannot be."""
        other = Adapted(self._backend, resolved)
        other._translator = Translator(resolved, self._model())
        yield other

    @property
    def capabilities(self) -> Capabilities:
        """Those of the model, as far as they hold behind the adapter. Raises as `input_spec`."""
        able = capabilities_of(self._backend)
        inpaints = able.inpaints and self._resolved.spec.actions is None
        return replace(able, inpaints=inpaints, takes_any=False, nominal=self._nominal())

    @property
    def max_batch(self) -> int:
        return self._backend.max_batch

    @property
    def memory_mb(self) -> float:
        return self._backend.memory_mb

    @property
    def input_spec(self) -> InputSpec:
        """What robots must have. Raises `AdapterError` with everything that is unmapped."""
        model = self._model()
        words = [] if capabilities_of(self._backend).takes_any else model_problems(self._resolved, model)
        try:
            needs = robot_needs(self._resolved, model)
        except ValueError as error:
            words.append(str(error))
        if words:
            raise AdapterError("unmapped", "adapter: " + "; ".join(words))
        return needs

    def _nominal(self) -> InputSpec:
        """As `input_spec`, with pictures of the size that the model takes: what a measurement gives it."""
        needs, model = self.input_spec, self._model()
        sizes = {}
        for key, one in self._resolved.spec.cameras.items():
            if one.camera in needs.resizes:
                height, width = model.images.get(key, needs.images[one.camera])
                sizes[one.camera] = (one.height or height, one.width or width)
        return replace(needs, images={**needs.images, **sizes}, resizes=frozenset())

    def _model(self) -> InputSpec:
        return self._backend.input_spec if isinstance(self._backend.input_spec, InputSpec) else InputSpec()

    def load(self) -> None:
        """Raises as the backend does, and `AdapterError` where the two do not fit."""
        self._backend.load()
        _ = self.input_spec
        self._translator = Translator(self._resolved, self._model())

    def warm_up(self) -> None:
        self._backend.warm_up()

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        """As the backend. An input that cannot be translated raises `ValueError`, an answer `AnswerError`."""
        if self._translator is None:
            raise RuntimeError("load() comes before infer()")
        now_s = time.monotonic()
        translator = self._translator
        outputs = self._backend.infer([one.prepared or translator.to_model(now_s, one) for one in batch])
        if len(outputs) != len(batch):
            return outputs  # the worker says what is wrong
        return [translator.from_model(one, output) for one, output in zip(batch, outputs, strict=True)]

    def prepare_ahead(self, one: ModelInput, place: Place) -> ModelInput:
        """Its pictures resized, while the model runs another batch. Not where earlier pictures count: they come in the
        order of the batches."""
        if self._translator is None or self._translator.remembers:
            return one
        try:
            return replace(one, prepared=self._translator.to_model(time.monotonic(), one, place))
        except ValueError:  # `infer` says why
            return one

    def close(self) -> None:
        self._backend.close()
