"""Whether the files of a model are those that the factory file means: SHA-256, compared before anything reads them.

It tells a file that was exchanged, damaged or mixed up. Who may write the weights between this and `load()` is not
stopped by it: keep them where only the operator can.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rosa_server.models.registry import BackendError


def verify(sha256: Mapping[str, str], options: Mapping[str, Any]) -> None:
    """Raise `BackendError` unless every file of `sha256` has its checksum, and the option `weights` none without.

    Weights are a file with those beside it that have its name (`NAME.words.json`), or all files of a folder.
    """
    if not sha256:
        return
    expected = {str(Path(path).resolve()): digest.lower() for path, digest in sha256.items()}
    weights = options.get("weights")
    if isinstance(weights, str) and weights:
        for path in _files(Path(weights)):
            if str(path.resolve()) not in expected:
                raise BackendError("checksum_missing", f"{path}: has no checksum in `sha256` of its model")
    for name, digest in expected.items():
        try:
            found = _sha256(Path(name))
        except OSError as error:
            words = f"{name}: cannot be read: {error.strerror or error}"
            raise BackendError("checksum_mismatch", words) from None
        if found != digest:
            words = f"{name}: its SHA-256 is {found}, the factory file expects {digest}"
            raise BackendError("checksum_mismatch", words)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _files(weights: Path) -> list[Path]:
    if weights.is_dir():
        return list(_inside(weights, set()))
    beside = (path for path in weights.parent.glob("*") if path.name.startswith(f"{weights.stem}."))
    return sorted({weights, *(path for path in beside if path.is_file())})


def _inside(folder: Path, seen: set[Path]) -> Iterator[Path]:
    """All files of a folder, also those behind a link to another one; links may go round."""
    if folder.resolve() in seen:
        return
    seen.add(folder.resolve())
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield from _inside(path, seen)
        elif path.is_file():
            yield path
