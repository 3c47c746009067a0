"""What a backend needs and does not find, each in one line: a package, weights, memory."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

from rosa_server.models.registry import BackendError

WEIGHT_FILES = (".safetensors", ".bin", ".npz")
SPARE = 1.1  # weights alone are not all that a model needs


def package(name: str, environment: str) -> ModuleType:
    """An imported package. Raises `BackendError` that names what brings it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise BackendError(
            "not_importable",
            f"needs the package {name}, which cannot be imported here ({error}); `rosa env {environment}` makes an"
            " environment with it for `python:`",
        ) from error


def folder_of(model: str, file: str = "config.json") -> Path | None:
    """The folder of a model that is named by path; None for a name of a hub. Raises `FileNotFoundError`."""
    path = Path(model).expanduser()
    if path.is_dir():
        if not (path / file).is_file():
            raise FileNotFoundError(f"{path / file}: no such file; the folder holds no model of this kind")
        return path
    if path.is_absolute() or model.startswith((".", "~")) or model.count("/") > 1:
        raise FileNotFoundError(
            f"{path}: no such folder; a model lies in a folder with a {file} and its weights"
        )
    return None


def weights_mb(folder: Path) -> float:
    """Size of the weights' files, MB."""
    return sum(one.stat().st_size for one in folder.iterdir() if one.suffix in WEIGHT_FILES) / 1e6


def check_memory(needed_mb: float, device: str) -> None:
    """Raise `BackendError` where weights of this size have no room."""
    free = free_mb(device)
    if free is not None and needed_mb * SPARE > free:
        where = "on the GPU" if device.startswith("cuda") else "in memory"
        raise BackendError(
            "no_memory",
            f"its weights need {needed_mb * SPARE:.0f} MB {where}, {free:.0f} MB are free; a smaller `dtype`, another"
            " device, or fewer workers",
        )


def free_mb(device: str) -> float | None:
    """Free memory of a device, MB; None where that cannot be said."""
    if device.startswith("cuda"):
        torch: Any = importlib.import_module("torch")
        return float(torch.cuda.mem_get_info(device)[0]) / 1e6
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    known = {line.split(":")[0]: line.split()[1] for line in lines}
    return float(known["MemAvailable"]) / 1e3 if "MemAvailable" in known else None
