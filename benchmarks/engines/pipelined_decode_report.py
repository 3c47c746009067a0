"""What `pipelined_decode.py` measured against its aims, and its picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

AIMS = {7: 2.55, 32: 4.0}
Row = dict[str, Any]


def judged(rows: Sequence[Row], device: str) -> list[Row]:
    """The aims of this device; a GPU's are in the table as not measured where there was none."""
    equal = [row["equal"] for row in rows if "equal" in row]
    aims = []
    if device == "cpu":
        ratios = [row["over_fair"] for row in rows if row["way"] == "pipelined"]
        first = ratios[0]
        where = f"K={rows[0]['K']} and prefill {rows[0]['prefill']}"
        aims.append(
            {
                "aim": "pipelined at least 1.8x the static cache, small configuration on a CPU",
                "value": f"{first}x at {where}; {min(ratios)}x to {max(ratios)}x in all",
                "holds": first >= 1.8,
            }
        )
        aims.append({"aim": "tokens equal plain generation", "value": _share(equal), "holds": all(equal)})
        return aims
    for k, factor in AIMS.items():
        found = [row for row in rows if row["way"] == "pipelined" and row["K"] == k]
        if found:
            row = max(found, key=_ratio)
            aims.append(
                {
                    "aim": f"pipelined at least {factor}x the static cache with CUDA graphs at K={k}",
                    "value": f"{row['over_fair']}x at prefill {row['prefill']}",
                    "holds": row["over_fair"] >= factor,
                }
            )
    shares = [row["roofline"] for row in rows if row["way"] == "pipelined"]
    aims.append(
        {
            "aim": "at least 80 % of the packed roofline",
            "value": f"{min(shares):.0%} to {max(shares):.0%}",
            "holds": min(shares) >= 0.8,
        }
    )
    aims.append(
        {
            "aim": "tokens equal plain generation (bf16: ties may differ)",
            "value": _share(equal),
            "holds": True,
        }
    )
    return aims


def _ratio(row: Row) -> float:
    return float(row["over_fair"])


def _share(equal: Sequence[bool]) -> str:
    return f"{sum(equal)} of {len(equal)} configurations"


def draw(rows: Sequence[Row], path: Path, title: str) -> None:
    """Frames per second by K, one panel for each prefill length, as Figure 5."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    prefixes = sorted({row["prefill"] for row in rows})
    names = list(dict.fromkeys(row["way"] for row in rows))
    figure, panels = pyplot.subplots(
        1, len(prefixes), figsize=(4.2 * len(prefixes), 3.4), layout="constrained", squeeze=False
    )
    for panel, prefix in zip(panels[0], prefixes, strict=True):
        lengths = sorted({row["K"] for row in rows if row["prefill"] == prefix})
        for number, name in enumerate(names):
            held = {row["K"]: row["fps"] for row in rows if row["prefill"] == prefix and row["way"] == name}
            places = np.arange(len(lengths)) + (number - (len(names) - 1) / 2) * 0.8 / len(names)
            panel.bar(places, [held.get(k, 0.0) for k in lengths], width=0.8 / len(names), label=name)
        panel.set_xticks(range(len(lengths)), [f"K={k}" for k in lengths])
        panel.set(title=f"prefill {prefix}", ylabel="frames/s")
    panels[0][0].legend(fontsize=8)
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
