"""The interface of every model to a worker: declare, load, warm up, infer a batch, close."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rosa_contract.wire.bounds import MAX_BATCH
from rosa_contract.wire.horizon import Horizon
from rosa_contract.wire.overlap import Overlap
from rosa_server.models.cancellation import Cancellation
from rosa_server.models.stacking import Place


@dataclass(frozen=True)
class InputSpec:
    """What a model needs of an observation. The gateway refuses a robot that cannot deliver it.

    A backend names `images` and `state`; the rest is for adapters.
    """

    images: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # camera -> (height, width)
    state: Mapping[str, int] = field(default_factory=dict)  # name -> length
    # Cameras of which `images` is the largest size only: an adapter brings any smaller one to the model's.
    resizes: frozenset[str] = frozenset()
    # Cameras and states that a robot may have besides; None: any. An adapter names them all.
    unused: frozenset[str] | None = None
    # In which space it answers (`rosa_contract/config/spaces.py`); empty: joint positions, or no actions.
    actions: str = ""


@dataclass(frozen=True)
class ModelInput:
    """One request of a batch."""

    component: str
    prompt: str = ""
    images: Mapping[str, NDArray[np.uint8]] = field(default_factory=dict)  # camera -> (height, width, 3) RGB
    state: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # name -> (length,)
    robot: str = ""
    deadline_s: float = inf  # on the clock of `time.monotonic()`
    waited_s: float = 0.0  # at the server, before it came here
    # What it is about: requests with the same name come from one robot, which says that they show the very same.
    observation: str = ""
    horizon: Horizon | None = None  # carried out by the worker (`horizon.py`), not by the model
    # What the robot plays meanwhile; the worker blends where the model does not inpaint.
    overlap: Overlap | None = None
    # Whether anybody still waits; a model that batches continuously drops what is cancelled, any other may ignore it.
    cancellation: Cancellation = field(default_factory=Cancellation, compare=False, repr=False)
    # What the model is given, where `prepare_ahead` has made it.
    prepared: ModelInput | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class ModelOutput:
    """`arrays["actions"]` of an action model, `verdict` of a monitor or safety checker, `text` of a planner.

    `updates` `(flow steps, horizon, values)`: by how much each flow or denoising step changed each action, in the
    model's own units; for horizon policies, never sent to the robot. None: the model has no such steps.
    """

    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    verdict: str = ""
    text: str = ""
    updates: NDArray[np.floating] | None = None


@dataclass(frozen=True)
class Capabilities:
    """What a model can besides answering batches. A backend that declares none has the defaults.

    `at_once`: above 1 where it batches continuously by itself, as vLLM does: how many calls of `infer` it takes at a
    time, from different threads. `shares`: requests about one observation cost it less, so the gateway brings them to
    one worker. `inpaints`: its chunks join `ModelInput.overlap` by themselves; the worker blends those of any other.
    `takes_any`: it hands on whatever it is given, as one in front of another server does, and `input_spec` is empty;
    its adapter says what. `batch_sizes`: the only ones that it has, as with CUDA graphs; `warm_up` captures them, and
    any other batch is padded to the next of them; empty: every size up to `max_batch` runs as it is. `engine`: its
    name, which `rosa profile` writes down. `counts`: returns what that engine has done since it started, whole numbers
    by name. `nominal`: of what sizes a measurement gives it inputs, where `input_spec` allows several. `inline`: it may
    run in the gateway's own thread where the factory file says so: it answers within 2 ms on the CPU, starts no thread
    and no process, prints nothing, and can neither crash the interpreter nor hang in native code.
    """

    at_once: int = 1
    shares: bool = False
    inpaints: bool = False
    takes_any: bool = False
    batch_sizes: tuple[int, ...] = ()
    engine: str = ""
    counts: Callable[[], Mapping[str, int]] | None = None
    nominal: InputSpec | None = None
    inline: bool = False

    def mistakes(self) -> list[str]:
        """What is wrong with it, field by field."""
        wrong: list[tuple[str, str]] = []
        if not _whole(self.at_once) or not 1 <= self.at_once <= MAX_BATCH:
            wrong.append(("at_once", f"a whole number from 1 to {MAX_BATCH}"))
        wrong += [
            (name, "true or false")
            for name in ("shares", "inpaints", "takes_any", "inline")
            if not isinstance(getattr(self, name), bool)
        ]
        sizes = self.batch_sizes
        if not isinstance(sizes, tuple) or not all(_whole(one) and 1 <= one <= MAX_BATCH for one in sizes):
            wrong.append(("batch_sizes", f"a tuple of whole numbers from 1 to {MAX_BATCH}"))
        if not isinstance(self.engine, str):
            wrong.append(("engine", "a name"))
        if self.counts is not None and not callable(self.counts):
            wrong.append(("counts", "a function"))
        if self.nominal is not None and not isinstance(self.nominal, InputSpec):
            wrong.append(("nominal", "an InputSpec"))
        return [f"{name}: expected {what}, got {getattr(self, name)!r:.80}" for name, what in wrong]


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def capabilities_of(backend: object) -> Capabilities:
    """What a backend declares; the defaults where it declares nothing. Raises `TypeError` for anything else."""
    try:
        declared = getattr(backend, "capabilities")  # noqa: B009
    except AttributeError as error:
        if hasattr(type(backend), "capabilities"):  # a property that has failed
            raise TypeError(f"capabilities: {error}") from error
        return Capabilities()
    if not isinstance(declared, Capabilities):
        raise TypeError(f"capabilities: expected a Capabilities, got {declared!r:.80}")
    return declared


@runtime_checkable
class Backend(Protocol):
    """A model. Constructed cheaply; nothing heavy happens before `load()`.

    It may have an attribute or property `capabilities`, a `Capabilities`; it is read when the model is loaded.
    """

    input_spec: InputSpec
    max_batch: int
    memory_mb: float

    def load(self) -> None:
        """Read weights. Raises with the path and the remedy when they are missing or do not fit."""

    def warm_up(self) -> None:
        """Run every batch size once, so that no request waits for first-call work."""

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        """One output per input, in order. Raises ValueError for an input that does not match `input_spec`.

        A backend that looks at deadlines raises TimeoutError where one has come or cannot be kept; one that looks at
        `cancellation` may raise anything where an input was cancelled.
        """

    def close(self) -> None:
        """Free everything. May be called twice."""


@runtime_checkable
class Prepares(Protocol):
    """A backend that does some of its work before a batch is due, while the model runs another one."""

    def prepare_ahead(self, one: ModelInput, place: Place) -> ModelInput:
        """The same input for `infer`, with `prepared`. Any thread may call it. Raises nothing: what cannot be prepared
        comes back as it is, and `infer` says why.
        """


def check_batch(spec: InputSpec, batch: Sequence[ModelInput], max_batch: int) -> None:
    """Raise `ValueError` for an input that does not match `spec`; it says what came and what was expected."""
    if not 0 < len(batch) <= max_batch:
        raise ValueError(f"expected a batch of 1 to {max_batch} inputs, got {len(batch)}")
    for number, one in enumerate(batch):
        for name, (height, width) in spec.images.items():
            image = one.images.get(name)
            if image is None:
                raise ValueError(f"input {number}: image {name!r} is missing; there are {sorted(one.images)}")
            if image.shape != (height, width, 3) or image.dtype != np.uint8:
                raise ValueError(
                    f"input {number}: image {name!r} is {image.dtype} {image.shape},"
                    f" expected uint8 {(height, width, 3)}"
                )
        for name, length in spec.state.items():
            state = one.state.get(name)
            if state is None:
                raise ValueError(f"input {number}: state {name!r} is missing; there are {sorted(one.state)}")
            if state.shape != (length,) or not np.isfinite(state).all():
                raise ValueError(
                    f"input {number}: state {name!r} must be {length} finite numbers, got {state!r}"
                )
