"""A model that takes as long as its profile says and gives fixed answers: for load tests, planning and faults."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rosa_contract.config.strict import read_yaml
from rosa_contract.errors import ConfigError, ConfigProblem
from rosa_server.models.backend import Capabilities, InputSpec, ModelInput, ModelOutput, check_batch
from rosa_server.timing.batches import BatchProfile
from rosa_server.timing.continuous import Shared


class EmulatedBackend:
    """Sleeps and answers.

    The time of a batch is, in this order of preference, that of `profile` (a YAML or JSON file with
    `batch_latency_ms: {1: 40.0, 8: 62.5}`, interpolated; a profile of `rosa profile` is padded to its sizes, unless it
    says `every_size`), or `latency_ms + per_item_ms * batch`. In such a file
    `component_latency_ms: {monitor: {1: 20.0}}` has other times for the calls of a component that run beside others,
    and `component_prefill_ms: {monitor: 5.0}` says for how long a new call of it holds up those that run.
    `jitter_ms` is the
    standard deviation of a normal variation, the same in every run with the same `seed`. System 1 answers `actions`
    (horizon, dof): the robot's own joint positions and gripper width again, so that an arm stands still, or zeros where
    the request names none. Every other component answers `text` and `verdict`; the empty one means "safe" of a
    safety component and "ongoing" of any other. With `at_once` above 1 it batches continuously: that many calls run at
    a time, and each gets on the slower the more there are.
    """

    def __init__(
        self,
        latency_ms: float = 0.0,
        per_item_ms: float = 0.0,
        profile: str = "",
        jitter_ms: float = 0.0,
        seed: int = 0,
        images: Mapping[str, Sequence[int]] | None = None,
        state: Mapping[str, int] | None = None,
        horizon: int = 16,
        dof: int = 8,
        verdict: str = "",
        text: str = "",
        max_batch: int = 32,
        memory_mb: float = 0.0,
        load_s: float = 0.0,
        at_once: int = 1,
    ) -> None:
        self.input_spec = InputSpec(
            {name: (h, w) for name, (h, w) in (images or {}).items()}, dict(state or {})
        )
        self.max_batch = max_batch
        self.memory_mb = memory_mb
        self._profile = load_profile(profile, continuous=at_once > 1) if profile else None
        self._of_component = load_components(profile) if profile else {}
        self._prefill_s = load_prefills_s(profile) if profile else {}
        self._latency_ms, self._per_item_ms, self._jitter_ms = latency_ms, per_item_ms, jitter_ms
        self._random = random.Random(seed)
        self._shape = (horizon, dof)
        self._verdict, self._text = verdict, text
        self._load_s = load_s
        sizes = self._profile.sizes if self._profile is not None and self._profile.padded else ()
        self.capabilities = Capabilities(at_once=at_once, batch_sizes=sizes)
        self._shared: Shared[object] = Shared(self._mean_s)
        self._changed = threading.Condition()
        self._ended: list[object] = []

    def load(self) -> None:
        time.sleep(self._load_s)

    def warm_up(self) -> None:
        """Nothing to do."""

    def _mean_s(self, size: int) -> float:
        if self._profile is not None:
            return self._profile.service_s(size)
        return (self._latency_ms + self._per_item_ms * size) / 1000

    def batch_ms(self, size: int) -> float:
        """How long the next batch of this size takes."""
        mean_ms = self._mean_s(size) * 1000
        varied_ms = mean_ms + self._random.gauss(0.0, self._jitter_ms) if self._jitter_ms else mean_ms
        return max(0.0, varied_ms)

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        check_batch(self.input_spec, batch, self.max_batch)
        if self.capabilities.at_once > 1:
            self._run_beside_others(batch)
        elif (duration_ms := self.batch_ms(len(batch))) > 0:
            time.sleep(duration_ms / 1000)
        return [self._answer(one) for one in batch]

    def _run_beside_others(self, batch: Sequence[ModelInput]) -> None:
        """Return when this call would have ended, given all that run with it. Called in a separate thread."""
        me, size = object(), len(batch)
        for one in batch:
            one.cancellation.when(self._wake)
        own = self._of_component.get(batch[0].component)
        with self._changed:
            alone_ms = self._mean_s(size) * 1000
            length = self.batch_ms(size) / alone_ms if alone_ms > 0 else 0.0
            own_s, prefill_s = (
                own.service_s if own is not None else None,
                self._prefill_s.get(batch[0].component),
            )
            self._shared.begin(time.perf_counter(), me, length, own_s, prefill_s)
            self._changed.notify_all()
            while me not in self._ended:
                now_s = time.perf_counter()
                if all(one.cancellation.cancelled for one in batch):
                    self._shared.drop(now_s, me)
                    self._changed.notify_all()
                    raise TimeoutError("cancelled: nobody waits for it any more")
                if self._shared.next_s <= now_s:
                    self._ended.append(self._shared.end(now_s)[0])
                    self._changed.notify_all()
                else:
                    self._changed.wait(self._shared.next_s - now_s)
            self._ended.remove(me)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _answer(self, one: ModelInput) -> ModelOutput:
        if one.component != "system1":
            usual = "safe" if one.component == "safety" else "ongoing"
            return ModelOutput(verdict=self._verdict or usual, text=self._text)
        here = [one.state[name] for name in ("joint_position", "gripper_width") if name in one.state]
        pose = np.concatenate(here).astype(np.float32) if here else np.zeros(0, np.float32)
        if pose.shape != self._shape[1:]:
            pose = np.zeros(self._shape[1:], np.float32)
        return ModelOutput({"actions": np.tile(pose, (self._shape[0], 1))})  # (horizon, dof) float32

    def close(self) -> None:
        """Nothing to do."""


class NullBackend:
    """Reads its images and answers zeros at once, so that only the cost of serving is measured: (50, columns) float32,
    a column for each joint and the gripper of the request's state, 8 where it has none."""

    def __init__(
        self,
        images: Mapping[str, Sequence[int]] | None = None,
        state: Mapping[str, int] | None = None,
        max_batch: int = 64,
    ) -> None:
        self.input_spec = InputSpec(
            {name: (h, w) for name, (h, w) in (images or {}).items()}, dict(state or {})
        )
        self.max_batch = max_batch
        self.memory_mb = 0.0
        self.capabilities = Capabilities(inline=True)
        self._actions = {8: np.zeros((50, 8), np.float32)}  # by their columns

    def load(self) -> None: ...

    def warm_up(self) -> None: ...

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        check_batch(self.input_spec, batch, self.max_batch)
        return [ModelOutput({"actions": self._zeros(one)}) for one in batch]

    def _zeros(self, one: ModelInput) -> NDArray[np.float32]:
        columns = (
            sum(len(one.state[name]) for name in ("joint_position", "gripper_width") if name in one.state)
            or 8
        )
        if columns not in self._actions:
            self._actions[columns] = np.zeros((50, columns), np.float32)
        return self._actions[columns]

    def close(self) -> None: ...


def load_profile(path: str | Path, continuous: bool = False) -> BatchProfile:
    """Batch size -> time from a profile file. Raises `ConfigError` when it has none that can be used. `continuous`:
    calls come and go by themselves, so none is padded."""
    document: Any = read_yaml(path)
    known = document if isinstance(document, dict) else {}
    # A profile of `rosa profile` says whether other sizes than its own run; a plain table holds some of many.
    padded = "schema" in known and not known.get("every_size", False) and not continuous
    return _profile(path, "batch_latency_ms", known.get("batch_latency_ms"), padded)


def load_components(path: str | Path) -> dict[str, BatchProfile]:
    """Component -> times of its own, from the same file. Raises `ConfigError` for times that cannot be used."""
    document: Any = read_yaml(path)
    tables = document.get("component_latency_ms", {}) if isinstance(document, dict) else {}
    if not isinstance(tables, dict):
        words = f"expected a mapping from component to times, got {tables!r}"
        raise ConfigError(str(path), [ConfigProblem("component_latency_ms", "wrong_type", words)])
    return {str(name): _profile(path, f"component_latency_ms.{name}", one) for name, one in tables.items()}


def load_prefills_s(path: str | Path) -> dict[str, float]:
    """Component -> time of one prompt, in s, from the same file. Raises `ConfigError` for times that cannot be used."""
    document: Any = read_yaml(path)
    known = document.get("component_prefill_ms", {}) if isinstance(document, dict) else {}
    values = known.values() if isinstance(known, dict) else [known]
    if not all(not isinstance(ms, bool) and isinstance(ms, int | float) and 0 <= ms < 1e6 for ms in values):
        words = f"expected a mapping from component to ms from 0, got {known!r}"
        raise ConfigError(str(path), [ConfigProblem("component_prefill_ms", "wrong_type", words)])
    return {str(name): ms / 1000 for name, ms in known.items()}


def _profile(path: str | Path, key: str, table: Any, padded: bool = False) -> BatchProfile:
    if not isinstance(table, dict) or not table:
        words = "expected a mapping from batch size to ms, such as {1: 40.0}"
        raise ConfigError(str(path), [ConfigProblem(key, "missing", words)])
    measured: dict[int, float] = {}
    for size, ms in table.items():
        number = int(size) if str(size).isdigit() else 0
        if number < 1 or isinstance(ms, bool) or not isinstance(ms, int | float) or not 0 <= ms < 1e6:
            words = f"expected whole sizes from 1 and ms from 0, got {size!r}: {ms!r}"
            raise ConfigError(str(path), [ConfigProblem(key, "out_of_range", words)])
        measured[number] = float(ms)
    return BatchProfile(measured, padded)
