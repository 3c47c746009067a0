"""The comparison as tables on a terminal, and as a plot."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from benchmarks.paper.published import INFERRED, P4_HZ, Row

COMMENTS = (
    "Profiles: `configs/profiles/h200/`, derived and fitted to latencies and throughputs of sections 4.2 and 4.3,"
    " and in batches of 8 and 16 to Figure 14 at 16 robots and 50 ms, not to Table 3; nothing here was measured on an"
    " H200.",
    "The paper publishes no rate of P4 at 16 robots: it is inferred from Figure 12, whose best static allocation is"
    " bound by its two System 1 servers at 16 robots as at 32.",
    "Figure 11 has no numbers in the paper's text but `up to 5.5x` (equal) and `up to 8.6x` (weighted partition).",
    "Bound: what no schedule exceeds with one component per server, by static or dynamic batching. A baseline of 0"
    " actions/s is not SLO-qualified.",
)


def markdown(aims: Sequence[Row], tables: Sequence[Sequence[Row]]) -> str:
    """The aims first, then every table; the first column's name says what a table shows."""
    verdicts = [{**aim, "holds": "yes" if aim["holds"] else "**no**"} for aim in aims]
    return "\n\n".join([*COMMENTS, *(table(rows) for rows in (verdicts, *tables))]) + "\n"


def table(rows: Sequence[Row]) -> str:
    """One Markdown table per group of rows that share their columns."""
    return "\n\n".join(_one_table(list(group)) for _, group in groupby(rows, key=list))


def _one_table(rows: Sequence[Row]) -> str:
    lines = ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    return "\n".join(
        lines + ["| " + " | ".join(_cell(value) for value in row.values()) + " |" for row in rows]
    )


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def plot(rates: Sequence[Row], path: Path) -> None:
    """Throughput on P4 by robots: the paper's and ours."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    p4 = rates[: len(P4_HZ)]
    figure, axes = pyplot.subplots(figsize=(6.5, 3.6))
    for offset, key in enumerate(("paper", "ours, mean round", "ours, p99 round")):
        places = [i + 0.27 * (offset - 1) for i in range(len(p4))]
        axes.bar(places, [float(str(row[key])) for row in p4], 0.25, label=key)
    inferred = ["\npaper: inferred" if row["published in"] == INFERRED else "" for row in p4]
    labels = [
        f"{n} robots\n{row['S1:S2:safety:monitor']}{mark}"
        for n, row, mark in zip(P4_HZ, p4, inferred, strict=True)
    ]
    axes.set_xticks(range(len(p4)), labels)
    axes.set_ylabel("actions/s")
    axes.set_title("P4 on 8 servers, allocation S1:S2:safety:monitor", fontsize=9)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
