"""Any policy of LeRobot, by folder or by name of the hub, with its own processors: ACT, Diffusion, SmolVLA, pi0 ...

The model's cameras and states have LeRobot's names (`observation.images.front`, `observation.state`), its answer is
`action`, `(rows, values)`, as its own postprocessor makes it. An adapter says what a robot's are called.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rosa_server.models.backend import Capabilities, InputSpec, ModelInput, ModelOutput, check_batch
from rosa_server.models.registry import BackendError
from rosa_server.models.requirements import needs
from rosa_server.models.stacking import stacked

ENVIRONMENT = "lerobot"
ANSWER = "action"
PREPROCESSOR = "policy_preprocessor.json"
DEVICE_STEP = "device_processor"


class LerobotBackend:
    """What LeRobot answers alone, in batches."""

    def __init__(
        self,
        model: str,
        device: str = "cpu",
        max_batch: int = 8,
        repeat_observation: bool = False,
        strict: bool = True,
        download: bool = False,
        threads: int = 1,
        seed: int | None = None,
    ) -> None:
        """`model`: a folder, or a name of the hub whose files are in its cache; `download`: fetch them if they are not.

        `repeat_observation`: give a policy that looks at several past observations the newest one in place of each, as
        LeRobot does at the start of an episode; without it such a policy is refused, since a robot calls once a chunk.
        `strict`: every tensor of weights and network has to have its partner. `seed`: a policy that draws noise, as
        SmolVLA, draws the same for every batch, so that the same input gets the same answer.
        """
        self.max_batch, self.memory_mb = max_batch, 0.0
        self._model, self._device, self._threads = model, device, threads
        self._repeats, self._strict, self._download = repeat_observation, strict, download
        self._seed = seed
        config = Path(model).expanduser() / "config.json"
        # What it takes, as far as that shows before LeRobot is imported.
        self._spec = _spec_of(json.loads(config.read_text())) if config.is_file() else None
        self._policy: Any = None
        self._history = False

    @property
    def input_spec(self) -> InputSpec:
        """Empty for a name of the hub that is not loaded yet."""
        return self._spec or InputSpec()

    @property
    def capabilities(self) -> Capabilities:
        """It takes anything until it is known what it takes."""
        return Capabilities(takes_any=self._spec is None, engine="lerobot")

    def load(self) -> None:
        """Raises `BackendError` and `FileNotFoundError`, in one line each."""
        torch = needs.package("torch", ENVIRONMENT)
        configs = needs.package("lerobot.configs.policies", ENVIRONMENT)
        factory = needs.package("lerobot.policies.factory", ENVIRONMENT)
        folder = needs.folder_of(self._model)
        if folder is not None:
            needs.check_memory(needs.weights_mb(folder), self._device)
        torch.set_num_threads(self._threads)
        where = {"local_files_only": not self._download}
        try:
            config = configs.PreTrainedConfig.from_pretrained(self._model, **where)
            config.device = self._device
            if hasattr(config, "pretrained_backbone_weights"):
                config.pretrained_backbone_weights = None  # the policy's own weights take their place
            self._check_history(config)
            kind = factory.get_policy_class(config.type)
            policy = kind.from_pretrained(self._model, config=config, strict=self._strict, **where)
            overrides = {DEVICE_STEP: {"device": self._device}} if _moves(folder) else {}
            self._before, self._after = factory.make_pre_post_processors(
                config, pretrained_path=self._model, preprocessor_overrides=overrides
            )
        except torch.OutOfMemoryError as error:
            raise BackendError("no_memory", f"{self._model}: {_first(error)}") from error
        except ImportError as error:
            words = f"{self._model}: {_first(error)}; `rosa env {ENVIRONMENT} --with PACKAGE` adds a package"
            raise BackendError("not_importable", words) from error
        except BackendError:
            raise
        except Exception as error:  # of LeRobot, the hub, safetensors, draccus
            words = f"{self._model}: {_first(error)}"
            if folder is None and not self._download:
                words += "; give a folder, or `download: true`"
            raise BackendError("bad_weights", words) from error
        self._spec = _spec(config.input_features)
        self._policy, self._torch = policy.eval(), torch
        self.memory_mb = sum(one.nbytes for one in policy.parameters()) / 1e6

    def _check_history(self, config: Any) -> None:
        self._history = config.n_obs_steps > 1
        if self._history and not self._repeats:
            words = (
                f"{self._model}: a {config.type} policy that looks at {config.n_obs_steps} observations, one control"
                " period apart, and a robot calls once a chunk; `repeat_observation: true` gives it the newest one for"
                " each"
            )
            raise BackendError("bad_options", words)

    def warm_up(self) -> None:
        """One batch of one and one full one."""
        images = {name: np.zeros((*size, 3), np.uint8) for name, size in self.input_spec.images.items()}
        state = {name: np.zeros(length, np.float32) for name, length in self.input_spec.state.items()}
        for size in sorted({1, self.max_batch}):
            self.infer([ModelInput("warm_up", "warm up", images, state)] * size)

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        """One output per input, in order. Raises `ValueError` for an input that does not match `input_spec`."""
        check_batch(self.input_spec, batch, self.max_batch)
        if self._policy is None:
            raise RuntimeError("load() comes before infer()")
        torch = self._torch
        told: dict[str, Any] = {"task": [one.prompt for one in batch]}
        for name in self.input_spec.images:
            pictures = torch.from_numpy(stacked([one.images[name] for one in batch]))
            # As bytes: a quarter of what they are as numbers, and the GPU turns them into these.
            pictures = pictures.to(self._device, non_blocking=True)
            told[name] = pictures.permute(0, 3, 1, 2).contiguous().float() / 255
        for name in self.input_spec.state:
            told[name] = torch.from_numpy(np.stack([one.state[name] for one in batch]).astype(np.float32))
        if self._seed is not None:
            torch.manual_seed(self._seed)
        with torch.no_grad():
            rows = self._rows(self._before(told))
            # A postprocessor is made for single actions.
            answers = torch.stack([self._after(rows[:, row]) for row in range(rows.shape[1])], dim=1)
        actions = answers.float().cpu().numpy()
        return [ModelOutput({ANSWER: np.array(one)}) for one in actions]

    def _rows(self, observation: Mapping[str, Any]) -> Any:
        """`(batch, rows, values)`, as the network has them."""
        if not self._history:
            chunk = self._policy.predict_action_chunk(observation)
            return chunk if chunk.ndim == 3 else chunk[:, None]
        self._policy.reset()
        first = self._policy.select_action(observation)  # fills the queues of observations with this one
        return self._torch.stack([first, *self._policy._queues[ANSWER]], dim=1)

    def close(self) -> None:
        self._policy = None


def _moves(folder: Path | None) -> bool:
    """Whether its preprocessor moves what it is given to a device; those of a hub's name do."""
    if folder is None:
        return True
    path = folder / PREPROCESSOR
    if not path.is_file():
        words = f"{path}: no such file; a policy of LeRobot before 0.4 has no processors, and its own script adds them"
        raise BackendError("bad_weights", words)
    return DEVICE_STEP in path.read_text()


def _spec_of(config: Mapping[str, Any]) -> InputSpec | None:
    """What config.json says; None where it says it otherwise."""
    features = config.get("input_features")
    try:
        return _features({name: (one["type"], one["shape"]) for name, one in (features or {}).items()})
    except (TypeError, LookupError, AttributeError, ValueError):
        return None


def _spec(features: Mapping[str, Any] | None) -> InputSpec:
    return _features({name: (one.type.value, one.shape) for name, one in (features or {}).items()})


def _features(features: Mapping[str, tuple[str, Sequence[int]]]) -> InputSpec:
    """Pictures are (3, height, width)."""
    images = {
        name: (int(shape[1]), int(shape[2])) for name, (kind, shape) in features.items() if kind == "VISUAL"
    }
    return InputSpec(
        images, {name: int(shape[0]) for name, (_, shape) in features.items() if name not in images}
    )


def _first(error: BaseException) -> str:
    """The first line of an error's words, and the second where the first one announces it."""
    lines = [line.strip() for line in str(error).strip().splitlines()] or [type(error).__name__]
    return " ".join(lines[: 2 if lines[0].endswith(":") else 1])[:400]
