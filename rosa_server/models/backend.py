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
from rosa_contract.wire.work import MAX_SIZES
from rosa_server.models.cancellation import Cancellation
from rosa_server.models.stacking import Place


@dataclass(frozen=True)
class InputSpec:
    """What a model needs from an observation. The gateway refuses robots that cannot provide it.

    A backend sets `images` and `state`; the other fields are for adapters.
    """

    images: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # camera -> (height, width)
    state: Mapping[str, int] = field(default_factory=dict)  # name -> length
    # Cameras for which `images` is only the maximum size: an adapter resizes pictures to the model's size.
    resizes: frozenset[str] = frozenset()
    # Other cameras and states that a robot may have; None: any. An adapter lists all of them.
    unused: frozenset[str] | None = None
    # Action space of the answers (`rosa_contract/config/spaces.py`); empty: joint positions, or no actions.
    actions: str = ""


@dataclass(frozen=True)
class ModelInput:
    """One request of a batch."""

    component: str  # such as system1
    prompt: str = ""
    images: Mapping[str, NDArray[np.uint8]] = field(default_factory=dict)  # camera -> (height, width, 3) RGB
    state: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # name -> (length,)
    robot: str = ""  # robot name
    deadline_s: float = inf  # on the clock of `time.monotonic()`
    waited_s: float = 0.0  # time at the server before it reached the worker
    # Name of the observation: requests with the same name come from one robot and have identical content.
    observation: str = ""
    horizon: Horizon | None = None  # applied by the worker (`horizon.py`), not by the model
    # What the robot plays in the meantime; the worker blends it in if the model does not inpaint.
    overlap: Overlap | None = None
    # Whether the call was cancelled; a model that batches continuously drops such inputs, others may ignore it.
    cancellation: Cancellation = field(default_factory=Cancellation, compare=False, repr=False)
    # The prepared input, if the backend has `prepare_ahead`.
    prepared: ModelInput | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class ModelOutput:
    """One output: `arrays["actions"]` from an action model, `verdict` from a monitor or safety checker, `text` from a
    planner.

    `updates` `(flow steps, horizon, values)`: how much each flow or denoising step changed each action, in the model's
    own units. Used by horizon policies and never sent to the robot. None: the model has no such steps.
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
        fits = isinstance(sizes, tuple) and len(sizes) <= MAX_SIZES
        if not fits or not all(_whole(one) and 1 <= one <= MAX_BATCH for one in sizes):
            wrong.append(
                ("batch_sizes", f"a tuple of at most {MAX_SIZES} whole numbers from 1 to {MAX_BATCH}")
            )
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
    """A model. Its constructor must be cheap; heavy work belongs in `load()`.

    It may have an attribute or property `capabilities`, a `Capabilities`, which is read when the model is loaded.
    """

    input_spec: InputSpec
    max_batch: int
    memory_mb: float

    def load(self) -> None:
        """Load the weights. If they are missing or do not match, raise an error with the path and the remedy."""

    def warm_up(self) -> None:
        """Run every batch size once, so that no request waits for first-call initialisation."""

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        """Return one output per input, in order. Raise ValueError for an input that does not match `input_spec`.

        A backend that checks deadlines raises TimeoutError if one has passed or cannot be met. One that checks
        `cancellation` may raise anything for a cancelled input.
        """

    def close(self) -> None:
        """Free all resources. May be called twice."""


@runtime_checkable
class Prepares(Protocol):
    """A backend that does some of its work before a batch is due, while the model runs another one."""

    def prepare_ahead(self, one: ModelInput, place: Place) -> ModelInput:
        """The same input for `infer`, with `prepared`. Any thread may call it. Raises nothing: what cannot be prepared
        comes back as it is, and `infer` says why.
        """


def check_batch(spec: InputSpec, batch: Sequence[ModelInput], max_batch: int) -> None:
    """Raise `ValueError`, with what was found and what was expected, if an input does not match `spec`."""
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
