"""Finding the profile of a model on a hardware."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from rosa_contract.errors import ConfigError, ConfigProblem
from rosa_contract.shipped import shipped
from rosa_contract.wording import nearest
from rosa_server.scheduler.profiles.decoding import with_decoding
from rosa_server.scheduler.profiles.profile import Profile, load_profile

DEFAULT_ROOT = shipped("configs", "profiles")


def hardware_folder(gpu_type: str) -> str:
    """Folder name of a hardware: `NVIDIA H200` -> `h200`."""
    words = re.findall(r"[a-z0-9]+", gpu_type.lower())
    return "-".join(word for word in words if word != "nvidia") or "unknown"


def file_name(model: str) -> str:
    """File name of a model: `nvidia/GR00T-N1.6-3B` -> `nvidia--GR00T-N1.6-3B.yaml`."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", model.replace("/", "--")) + ".yaml"


class ProfileLibrary:
    """Profiles by model and hardware, read from `<root>/<hardware>/<model>.yaml` when first asked for."""

    def __init__(
        self,
        root: str | Path = DEFAULT_ROOT,
        profiles: Iterable[Profile] = (),
        every_size: bool = False,
        beside: str | Path | None = None,
    ) -> None:
        """`every_size`: as if batches of every size ran unpadded, whatever the profiles say: a graph for each.

        `beside`: another such folder, for what `root` does not have.
        """
        self.root = Path(root)
        self._roots = [
            self.root,
            *([Path(beside)] if beside is not None and Path(beside) != self.root else []),
        ]
        self._every_size = every_size
        self._loaded = {(p.model, hardware_folder(p.hardware)): with_decoding(p) for p in profiles}
        self._measured = {(p.model, hardware_folder(p.hardware)): p for p in profiles}

    def path(self, model: str, gpu_type: str) -> Path:
        """Where `root` has the profile, or would have it."""
        return self.root / hardware_folder(gpu_type) / file_name(model)

    def _found(self, model: str, gpu_type: str) -> Path | None:
        below = Path(hardware_folder(gpu_type), file_name(model))
        return next((root / below for root in self._roots if (root / below).is_file()), None)

    def get(self, model: str, gpu_type: str) -> Profile:
        """The profile with what decoding adds; `ConfigError` says where it was looked for and how to make it."""
        key = (model, hardware_folder(gpu_type))
        if key not in self._loaded:
            path = self._found(model, gpu_type)
            if path is None:
                where = str(self.path(model, gpu_type))
                raise ConfigError(where, [ConfigProblem("", "unreadable", self._missing(model, gpu_type))])
            profile = load_profile(path)
            if profile.model != model:
                words = f"expected {model!r}, got {profile.model!r}"
                raise ConfigError(str(path), [ConfigProblem("model", "conflict", words)])
            self._measured[key] = replace(profile, every_size=True) if self._every_size else profile
            self._loaded[key] = with_decoding(self._measured[key])
        return self._loaded[key]

    def measured(self, model: str, gpu_type: str) -> Profile:
        """The profile as its file says it. Raises as `get`."""
        self.get(model, gpu_type)
        return self._measured[model, hardware_folder(gpu_type)]

    def get_for(self, model: str, component: str, gpu_type: str) -> Profile:
        """The profile, or `ConfigError` also when it says nothing about `component`: its load is not another's."""
        profile = self.get(model, gpu_type)
        if not profile.configurations_for(component):
            words = (
                f"no profile of {model!r} for {component!r}; profiled there: {', '.join(profile.components)}"
            )
            problem = ConfigProblem("", "missing", f"{words}; make one with `rosa profile` on that hardware")
            raise ConfigError(str(self._found(model, gpu_type) or self.path(model, gpu_type)), [problem])
        return profile

    def _missing(self, model: str, gpu_type: str) -> str:
        folder = self.root / hardware_folder(gpu_type)
        files = [path for root in self._roots for path in (root / folder.name).glob("*.yaml")]
        known = sorted({path.stem.replace("--", "/") for path in files})
        if not known:
            found = {path.parent.name for root in self._roots for path in root.glob("*/*.yaml")}
            folders = sorted(found)
            digits = re.sub(r"\D", "", folder.name)  # h100 and h200 are two GPUs, not two spellings of one
            hint = nearest(folder.name, [name for name in folders if re.sub(r"\D", "", name) == digits])
            return (
                f"no profiles for gpu_type {gpu_type!r}{hint}; profiled: {', '.join(folders) or 'nothing'};"
                " make one with `rosa profile` on that hardware"
            )
        return (
            f"no profile of {model!r} on {gpu_type!r}{nearest(model, known)}; profiled there: {', '.join(known)};"
            f" make one with `rosa profile {model} --factory FILE` on that hardware"
        )
