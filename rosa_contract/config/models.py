"""The section `models` of a factory file: how the server runs each model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rosa_contract.config.adapter import Adapter, anchored
from rosa_contract.config.strict import Reader
from rosa_contract.config.tasks import Task
from rosa_contract.setting import setting
from rosa_contract.wording import nearest, shown

SHA256 = re.compile("[0-9a-fA-F]{64}")


@dataclass(frozen=True)
class Cloud:
    """Cloud workers of a model: they get the calls that the local ones would start too late (Kairos 3.2.3)."""

    workers: int = setting("number of worker processes in the cloud; 0: none", 0, at_least=0, at_most=1000)
    link_ms: float = setting(
        "one-way network latency to them; the way back is assumed to take the same",
        50.0,
        above=0,
        at_most=10_000,
    )
    options: Mapping[str, Any] = setting(
        "arguments of the backend in the cloud, instead of the model's `options`", dict
    )


@dataclass(frozen=True)
class Model:
    """How the server runs a model. A model without an entry can be scheduled, but not served."""

    backend: str = setting("name of a backend, or `module:Class` for your own (docs/add_a_model.md)")
    options: Mapping[str, Any] = setting("arguments of the backend", dict)
    sha256: Mapping[str, str] = setting(
        "SHA-256 checksums by file, such as `policy.safetensors: 9f86...`; a worker does not start if one"
        " differs, or if a file of `options.weights` has none; default: no check",
        dict,
    )
    python: str = setting(
        "interpreter of a separate Python environment, such as /opt/lerobot/bin/python, with the model's"
        " dependencies and the wheel that `rosa env` installs; default: the server's interpreter",
        "",
    )
    workers: int = setting(
        "number of worker processes, one per GPU; ignored with a schedule", 1, at_least=1, at_most=1000
    )
    max_batch: int | None = setting(
        "maximum batch size; default: the backend's own limit", None, at_least=1, at_most=4096
    )
    inline: bool = setting(
        "run the model in the gateway's own thread, as long as a batch takes less than 2 ms, so that no process"
        " has to be woken. Only for backends that declare it, and robots that send raw images or none"
        " (docs/add_a_model.md); the worker process stands by",
        False,
    )
    cloud: Cloud = setting(
        "extra workers in the cloud, for calls that the local workers would start too late; only without a"
        " schedule",
        Cloud,
    )
    adapter: Adapter | None = setting(
        "converts between what robots send and execute and what the model takes and returns; default: no"
        " conversion",
        None,
    )


def check_checksums(reader: Reader, models: Mapping[str, Model | None]) -> None:
    """Report malformed checksums."""
    for name, model in models.items():
        for path, digest in model.sha256.items() if model else ():
            if not SHA256.fullmatch(digest):
                words = f"expected 64 hexadecimal digits, as sha256sum prints them, got {shown(digest)}"
                reader.fail(f"models.{name}.sha256.{path}", words, "out_of_range")


def check_names(reader: Reader, tasks: Mapping[str, Task], models: Mapping[str, Model]) -> None:
    """Report models that no component uses, and names in components that are probably misspellings of them."""
    used = {component.model for task in tasks.values() for component in task.components.values()}
    unused = [name for name in models if name not in used]
    for task_name, task in tasks.items():
        for key, component in task.components.items():
            hint = "" if component.model in models else nearest(component.model, unused)
            # A model without an entry can be planned for; this one has an entry that nothing else uses.
            if hint:
                words = f"no model {shown(component.model)} in `models`{hint}"
                reader.fail(f"{task_name}.components.{key}.model", words, "unknown_name")
                unused = [name for name in unused if repr(name) not in hint]
    for name in unused:
        reader.fail(f"models.{name}", "is not used by any component", "unknown_name")


def anchored_model(model: Model, folder: Path) -> Model:
    """The same, with relative paths resolved against `folder`."""
    return replace(
        model,
        options=_anchored(model.options, folder),
        sha256={str(folder / path): digest for path, digest in model.sha256.items()},
        cloud=replace(model.cloud, options=_anchored(model.cloud.options, folder)),
        python=model.python and str(folder / model.python),
        adapter=model.adapter and anchored(model.adapter, folder),
    )


def _anchored(options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    def is_path(key: str, value: str) -> bool:
        # `model` may be a name of a hub, which looks like a path as well.
        return key in ("weights", "profile") or (key == "model" and value.startswith(("./", "../")))

    return {
        key: str(folder / value) if isinstance(value, str) and is_path(key, value) else value
        for key, value in options.items()
    }
