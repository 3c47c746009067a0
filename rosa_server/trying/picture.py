"""Predicted actions over recorded ones, as a PNG: a row per joint, time from left to right."""

from __future__ import annotations

from pathlib import Path as File
from typing import Any

from rosa_server.trying.steps import ModelTrial
from rosa_server.trying.what_ifs import spread

MAX_SHOWN = 12  # chunks; more would hide each other


def draw(trial: ModelTrial, title: str, target: File) -> None:
    """Write the picture. Raises `ImportError` without matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [one for one in trial.answered if one.path is not None]
    shown = [shown[index] for index in spread(len(shown), MAX_SHOWN)]
    assert shown[0].path is not None
    columns = shown[0].path.rows.shape[1]
    joints = shown[0].step.joint_count or columns
    figure, axes = pyplot.subplots(columns, 1, figsize=(9, 1.2 * columns + 1), sharex=True, squeeze=False)
    offset_s = 0.0
    for number, one in enumerate(shown):
        path, recorded = one.path, one.step.recorded
        assert path is not None
        for column in range(columns):
            axis: Any = axes[column][0]
            named = {"label": "predicted"} if number == 0 else {}
            axis.plot(offset_s + path.times_s, path.rows[:, column], color="C1", **named)
            if recorded is not None and column < recorded.rows.shape[1]:
                named = {"label": "recorded"} if number == 0 else {}
                axis.plot(
                    offset_s + recorded.times_s, recorded.rows[:, column], color="C0", alpha=0.7, **named
                )
            here = one.step.here
            if here is not None and column < len(here):
                axis.plot([offset_s], [here[column]], "k.", markersize=4)
        longest_s = max(part.until_s for part in (path, recorded) if part is not None)
        offset_s += longest_s * 1.15 + path.step_s
    for column in range(columns):
        name = f"joint {column + 1}, rad" if column < joints else "gripper, m"
        axes[column][0].set_ylabel(name, fontsize=7)
        axes[column][0].tick_params(labelsize=6)
    axes[0][0].legend(fontsize=7, loc="upper right")
    axes[0][0].set_title(title, fontsize=9)
    axes[-1][0].set_xlabel("s, chunk after chunk (dots: where the robot was)", fontsize=8)
    figure.tight_layout()
    figure.savefig(target, dpi=130)
    pyplot.close(figure)
