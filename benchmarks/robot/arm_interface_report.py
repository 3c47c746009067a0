"""What `arm_interface.py` measured: its aims, its result and its picture."""

from __future__ import annotations

import json
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from benchmarks import RESULTS

mpl.use("Agg")
import matplotlib.pyplot as plt

DEFAULT = "smooth trajectory, 30 ms ahead, from desired"
KINDS = ("command", "position")
SPAN_S = 0.25  # of the plot on the right
SHOWN = (
    "forward position",
    "trajectory, 20 ms ahead, from desired",
    "smooth trajectory, 30 ms ahead, from desired",
)


def report(rows: list[dict[str, Any]], curves: list[dict[str, np.ndarray]], seconds: float) -> None:
    """Write the result and its picture. `rows` and `curves`: of each variant, in one order."""
    flat = [
        {"way": row["label"]}
        | {f"{kind}_{name}": value for kind in KINDS for name, value in row[kind].items()}
        for row in rows
    ]
    default = next(row for row in flat if row["way"] == DEFAULT)
    forward = flat[0]
    result = {
        "name": "arm_interface",
        "command": f"python -m benchmarks.robot.arm_interface --seconds {seconds:g}",
        "machine": f"simulated time, {platform.platform()}, Python {platform.python_version()}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "notes": [
            f"The driver's default is `{DEFAULT}`. `from desired` is the controller's parameter"
            " `interpolate_from_desired_state` (`open_loop_control` on Humble), which streaming needs: from the"
            " measured position each new point pulls the command back to where the arm lags behind.",
            "A chunk at once (`FollowJointTrajectory`) would be as smooth as the controller, but a stop in its middle"
            " then waits for the cancellation of an action, and the setpoint filter could not slow it down.",
        ],
        "rows": flat,
        "aims": [
            {
                "aim": "the default asks for more than the acceleration limit in under 1 % of the updates",
                "value": default["command_over_acceleration_limit_percent"],
                "holds": default["command_over_acceleration_limit_percent"] < 1.0,
            },
            {
                "aim": "its delay is below one action step of the policy, 50 ms",
                "value": default["command_delay_ms"],
                "holds": default["command_delay_ms"] < 50.0,
            },
            {
                "aim": "its jerk is below a tenth of that of forwarded positions",
                "value": default["command_jerk_rms_rad_s3"] / forward["command_jerk_rms_rad_s3"],
                "holds": default["command_jerk_rms_rad_s3"] < forward["command_jerk_rms_rad_s3"] / 10,
            },
        ],
    }
    (RESULTS / "arm_interface.json").write_text(json.dumps(result, indent=1) + "\n")
    draw(rows, curves, RESULTS / "arm_interface.png")


def draw(rows: list[dict[str, Any]], curves: list[dict[str, np.ndarray]], path: Path) -> None:
    """Delay against roughness, and a second of one joint's command."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5))
    for row in rows:
        made = row["command"]
        left.scatter(made["delay_ms"], made["over_acceleration_limit_percent"], s=40, label=row["label"])
    left.set_xlabel("delay of the command, ms")
    left.set_ylabel("updates beyond the acceleration limit, %")
    left.legend(fontsize=7)
    shown = [i for i, row in enumerate(rows) if row["label"] in SHOWN]
    begin_s = curves[0]["asked_s"][200]
    for index in shown:
        one = curves[index]
        span = (one["time_s"] > begin_s) & (one["time_s"] < begin_s + SPAN_S)
        at_ms = (one["time_s"][span] - begin_s) * 1000
        right.plot(at_ms, one["command_rad"][span, 0], ".-", label=rows[index]["label"])
    one = curves[0]
    span = (one["asked_s"] > begin_s) & (one["asked_s"] < begin_s + SPAN_S)
    right.plot((one["asked_s"][span] - begin_s) * 1000, one["asked_rad"][span, 0], "k--", label="asked for")
    right.set_xlabel("time, ms")
    right.set_ylabel("joint 1, rad")
    right.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
