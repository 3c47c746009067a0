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
    found = [row for row in rows if row["way"] == "pipelined"]
    if not found:
        return [
            {"aim": "at least one configuration is measured", "value": "no time was left", "holds": False}
        ]
    aims: list[Row] = []
    if device == "cpu":
        first = found[0]["over_static"]
        ratios = [row["over_static"] for row in found]
        where = f"K={found[0]['K']} and prefill {found[0]['prefill']}"
        aims.append(
            {
                "aim": "pipelined at least 1.8x the static cache, small configuration on a CPU",
                "value": f"{first}x at {where}; {min(ratios)}x to {max(ratios)}x in all",
                "holds": first >= 1.8,
            }
        )
    else:
        for k, factor in AIMS.items():
            of_k = [row for row in found if row["K"] == k]
            if of_k:
                row = max(of_k, key=_ratio)
                aims.append(
                    {
                        "aim": f"pipelined at least {factor}x the static cache with CUDA graphs at K={k}",
                        "value": f"{row['over_static']}x at prefill {row['prefill']}",
                        "holds": row["over_static"] >= factor,
                    }
                )
        shares = [row["roofline"] for row in found]
        aims.append(
            {
                "aim": "at least 80 % of the packed roofline",
                "value": f"{min(shares):.0%} to {max(shares):.0%}",
                "holds": min(shares) >= 0.8,
            }
        )
    best = [row["over_best"] for row in found]
    aims.append(
        {
            "aim": "pipelined no slower than static batches of K and 2K, continuous and chunked prefill",
            "value": f"{min(best)}x to {max(best)}x the fastest of them; faster in"
            f" {sum(ratio > 1 for ratio in best)} of {len(best)} configurations",
            "holds": min(best) >= 1,
        }
    )
    equal, close = ([row[name] for row in found] for name in ("equal", "close"))
    aims.append(
        {
            "aim": "in 32 bits tokens equal plain generation; as measured, each is the likeliest but for rounding",
            "value": f"{_share(equal)}; {_share(close)}, at most {max(row['below'] for row in found):.2g} standard"
            f" deviations below it, plain generation {max(row['below_plain'] for row in found):.2g}",
            "holds": all(equal) and all(close),
        }
    )
    return aims


def _ratio(row: Row) -> float:
    return float(row["over_static"])


def _share(equal: Sequence[bool]) -> str:
    return f"{sum(equal)} of {len(equal)} configurations"


def draw(rows: Sequence[Row], path: Path, title: str) -> None:
    """Frames per second by K, a column for each prefill length, as Figure 5; below, how old the action in force is."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    prefixes = sorted({row["prefill"] for row in rows})
    names = list(dict.fromkeys(row["way"] for row in rows))
    size = (max(6.0, 4.2 * len(prefixes)), 6.0)
    figure, panels = pyplot.subplots(2, len(prefixes), figsize=size, layout="constrained", squeeze=False)
    shown = {"fps": "frames/s", "age_ms": "age of the action in force, ms"}
    for column, prefix in enumerate(prefixes):
        lengths = sorted({row["K"] for row in rows if row["prefill"] == prefix})
        for panel, (value, label) in zip(panels[:, column], shown.items(), strict=True):
            for number, name in enumerate(names):
                held = {
                    row["K"]: row[value] for row in rows if (row["prefill"], row["way"]) == (prefix, name)
                }
                places = np.arange(len(lengths)) + (number - (len(names) - 1) / 2) * 0.8 / len(names)
                panel.bar(places, [held.get(k, 0.0) for k in lengths], width=0.8 / len(names), label=name)
            panel.set_xticks(range(len(lengths)), [f"K={k}" for k in lengths])
            panel.set(ylabel=label)
        panels[0][column].set_title(f"prefill {prefix}")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=8, loc="outside right center")
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
