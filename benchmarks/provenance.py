"""Which code measured which row: a table may be measured in several runs, and a row says which one it is of."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from benchmarks import ROOT

CODE = ("rosa_client", "rosa_contract", "rosa_server", "rosa_sim", "configs")
NAMES = ("part", "what", "scenario", "system", "robots", "start", "repetition")  # that tell rows apart
UNKNOWN = "an earlier one"
Row = dict[str, Any]
Key = tuple[Any, ...]


@cache
def commit() -> str:
    """The commit that is measured; empty outside a git checkout."""
    return _git("rev-parse", "--short", "HEAD")


@cache
def code() -> str:
    """The same, with a plus where the code has changed since."""
    return commit() + ("+" if _git("status", "--porcelain", "--", *CODE) else "")


def _git(*words: str) -> str:
    asked = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, timeout=10)
    return asked.stdout.strip()


def key_of(row: Mapping[str, Any]) -> Key:
    """What tells a row from the others."""
    return tuple(row.get(name) for name in NAMES)


def name_of(row: Mapping[str, Any]) -> str:
    """A row in words."""
    return f"{row['scenario']} with {row['robots']} robots, {row['start']}"


def measured(
    plan: Sequence[tuple[Row, Callable[[], Row]]], before: Sequence[Row], again: Callable[[Row], bool]
) -> Iterator[tuple[Row, list[Row]]]:
    """Every new row, and with it all there are in the order of `plan`, so that a run may be broken off at any time.

    `plan`: what identifies each row, and what measures the rest of it. `before`: rows of earlier runs, which stay until
    they are measured again. `again`: which of them are.
    """
    old = {key_of(row): row for row in before}
    rows = [old.get(key_of(head)) for head, _ in plan]
    for number, (head, run) in enumerate(plan):
        known = rows[number]
        if known is None or again(known):
            row = rows[number] = {**head, **run(), "commit": code()}
            yield row, [each for each in rows if each is not None]


def measured_at(rows: Sequence[Mapping[str, Any]]) -> str:
    """In words: how many rows were measured at which commit."""
    counts = Counter(row.get("commit", UNKNOWN) for row in rows)
    return "Rows by commit: " + ", ".join(f"{count} at {at}" for at, count in counts.most_common()) + "."
