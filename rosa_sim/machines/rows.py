"""The table of a story: what happened, when it was noticed and over, and what it cost the robots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

TITLES = (
    "what happens",
    "noticed after s",
    "healed or done after s",
    "robots that missed",
    "most missed by one",
    "lost robots",
)


@dataclass(frozen=True)
class Row:
    """One event. Seconds from the event; `lost`: robots without an answer in time at the end."""

    what: str
    noticed_s: float  # 0: nothing was lost
    healed_s: float  # or how long an operation took
    missing: int
    max_missed: int
    lost: int


def together(rows: Sequence[Row]) -> list[Row]:
    """One row per event, with the worst of all repetitions."""
    worst: dict[str, Row] = {}
    for row in rows:
        known = worst.get(row.what, row)
        pairs = zip(astuple(known)[1:], astuple(row)[1:], strict=True)
        worst[row.what] = Row(row.what, *(max(pair) for pair in pairs))
    return list(worst.values())


def table(rows: Sequence[Row]) -> str:
    cells = [
        (
            row.what,
            f"{row.noticed_s:.2f}" if row.noticed_s else "-",
            f"{row.healed_s:.1f}",
            str(row.missing),
            str(row.max_missed),
            str(row.lost),
        )
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(TITLES, *cells, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in (TITLES, *cells)
    ]
    return "\n".join(line.rstrip() for line in lines)
