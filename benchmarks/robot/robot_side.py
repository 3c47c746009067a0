"""What ROSA costs on the robot: CPU of the runtime node with two 30 Hz cameras, and the control loop's jitter.

    python -m benchmarks.robot.robot_side [--seconds 30]

Phase 1: two 640x480 JPEG cameras at 30 Hz (replayed pictures), a running task, a served emulated model. Phase 2: the
simulated Panda, physics included, with its own two cameras. Everything runs in the product's own processes. The aims
are for an otherwise idle machine: the load of other processes is printed beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cv2
import matplotlib as mpl
import numpy as np
import psutil
import yaml
from diagnostic_msgs.msg import DiagnosticArray

from benchmarks import RESULTS, ROOT, command_of
from rosa_client.bringup.bringup import Bringup
from rosa_client.bringup.graph import Robot
from rosa_sim.demo.episodes import EpisodeRunner, episodes, nobody
from rosa_sim.ports import free_port

mpl.use("Agg")
import matplotlib.pyplot as plt

NAMESPACE = "bench"
NODES = ("runtime_node", "arm_node", "camera_node")
CPU_AIM_PERCENT = 40.0
JITTER_AIM_MS = 2.0
SAMPLE_S = 1.0

FACTORY = """
server_cluster: {{num_servers: 1}}
robot_fleet: [{{task: bench, num_robots: 1}}]
bench:
  pipeline: {{action_period_ms: 400}}
  components:
    system1: {{model: emulated, slo_ms: 1000}}
    monitor: {{model: emulated, slo_ms: 1000, freq_hz: 2}}
models: {{emulated: {{backend: emulated, options: {{latency_ms: 30, verdict: ongoing}}}}}}
gateway: {{bind: "{endpoint}", metrics_port: 0}}
"""


def phase(folder: Path, driver: str, seconds: float) -> dict[str, Any]:
    """One bring-up, one running task; CPU of each process in % of one core, and the control loop's last jitter."""
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    folder.mkdir()
    factory, robot = folder / "factory.yaml", folder / "robot.yaml"
    factory.write_text(FACTORY.format(endpoint=endpoint))
    spec = yaml.safe_load((ROOT / "configs" / "robots" / "panda.yaml").read_text())
    if driver == "replay":
        for camera in spec["cameras"].values():
            camera.update(width=640, height=480, rate_hz=30)
        _pictures(folder / "source", list(spec["cameras"]))
    robot.write_text(yaml.safe_dump(spec))
    given = Robot(
        config=str(factory),
        robot=str(robot),
        gateway=endpoint,
        namespace=NAMESPACE,
        driver=driver,
        source=str(folder / "source"),
    )
    jitter: dict[str, float] = {}
    with (
        Bringup([given], server=str(factory), logs=folder / "logs") as bringup,
        episodes(NAMESPACE, "bench", alive=bringup.failure, operator=nobody) as runner,
    ):
        runner.node.create_subscription(DiagnosticArray, "/diagnostics", lambda m: _jitter(m, jitter), 10)
        return {"driver": driver, **_measure(bringup, runner, seconds, driver), **jitter}


def _measure(bringup: Bringup, runner: EpisodeRunner, seconds: float, driver: str) -> dict[str, Any]:
    names = {name: psutil.Process(bringup.supervisor.pid(f"{NAMESPACE}/{name}")) for name in NODES}
    runner.wait_welcome(60)
    goal = runner.begin()
    runner.spin_for(5)  # the start is not measured
    samples: dict[str, list[float]] = {name: [] for name in names}
    others: list[float] = []
    rest = [psutil.Process(), *psutil.Process(bringup.supervisor.pid("server")).children(recursive=True)]
    for process in (*names.values(), *rest):
        process.cpu_percent(None)
    psutil.cpu_percent(None)
    for _ in range(round(seconds / SAMPLE_S)):
        runner.spin_for(SAMPLE_S)
        for name, process in names.items():
            samples[name].append(process.cpu_percent(None))
        total = psutil.cpu_percent(None) * (psutil.cpu_count() or 1)
        ours = sum(samples[name][-1] for name in names) + sum(process.cpu_percent(None) for process in rest)
        others.append(max(0.0, total - ours))
        print(f"\r{driver}: {len(others):3d} of {seconds:.0f} s", end="", flush=True)
    print()
    runner.end(goal)
    status = runner.status
    rounds = status.round if status is not None else 0
    return {
        **{f"{name}_cpu_percent": round(float(np.mean(values)), 1) for name, values in samples.items()},
        "runtime_samples": samples["runtime_node"],
        "other_load_percent": round(float(np.mean(others)), 1),
        "rounds": int(rounds),
    }


def _pictures(folder: Path, cameras: list[str]) -> None:
    """A few pictures per camera with the detail of photographs: noise would compress worse than any real picture."""
    rng = np.random.default_rng(0)
    for name in cameras:
        (folder / name).mkdir(parents=True)
        for index in range(8):
            small = rng.integers(0, 255, (30, 40, 3), dtype=np.uint8)
            picture = cv2.resize(small, (640, 480), interpolation=cv2.INTER_CUBIC)
            cv2.imwrite(str(folder / name / f"{index}.png"), picture)


def _jitter(message: DiagnosticArray, found: dict[str, float]) -> None:
    for status in message.status:
        values = {entry.key: entry.value for entry in status.values}
        for key in ("jitter_p50_ms", "jitter_p99_ms"):
            if key in values and re.fullmatch(r"[0-9.]+", values[key]):
                found[key] = float(values[key])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="measured time of each phase")
    args = parser.parse_args()
    os.environ["ROS_DOMAIN_ID"] = str(1 + os.getpid() % 100)
    with tempfile.TemporaryDirectory() as folder:
        rows = [phase(Path(folder) / driver, driver, args.seconds) for driver in ("replay", "sim")]
    cpu, jitter = rows[0]["runtime_node_cpu_percent"], rows[1].get("jitter_p99_ms", float("nan"))
    aims = [
        {
            "aim": f"runtime node, 2 cameras at 30 Hz: under {CPU_AIM_PERCENT:g} % of one core",
            "value": cpu,
            "holds": cpu < CPU_AIM_PERCENT,
        },
        {
            "aim": f"control loop jitter p99 under {JITTER_AIM_MS:g} ms on an idle machine",
            "value": jitter,
            "holds": bool(jitter < JITTER_AIM_MS),
        },
    ]
    for row in rows:
        cpu_of = "  ".join(f"{name} {row[f'{name}_cpu_percent']:5.1f} %" for name in NODES)
        p50_ms, p99_ms = (row.get(key, float("nan")) for key in ("jitter_p50_ms", "jitter_p99_ms"))
        print(
            f"{row['driver']:>7}: {cpu_of}  others {row['other_load_percent']:5.1f} %"
            f"  jitter p50 {p50_ms:.2f} p99 {p99_ms:.2f} ms  rounds {row['rounds']}"
        )
    for aim in aims:
        print(f"{'holds ' if aim['holds'] else 'MISSED'}  {aim['aim']}: {aim['value']}")
    _write(rows, aims)
    return 0


def _write(rows: list[dict[str, Any]], aims: list[dict[str, Any]]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    result = {
        "name": "robot_side",
        "command": " ".join([command_of("robot_side"), *sys.argv[1:]]),
        "machine": f"{os.cpu_count()} cores, {platform.platform()}, Python {platform.python_version()}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": [{key: value for key, value in row.items() if key != "runtime_samples"} for row in rows],
        "aims": aims,
    }
    (RESULTS / "robot_side.json").write_text(json.dumps(result, indent=1) + "\n")
    figure, axis = plt.subplots(figsize=(7, 3.2))
    for row in rows:
        axis.plot(row["runtime_samples"], label=f"runtime node, {row['driver']}")
    axis.axhline(CPU_AIM_PERCENT, linestyle="--", color="grey", label="aim")
    axis.set(xlabel="s", ylabel="% of one core", ylim=(0, None), title="Robot side: CPU of the runtime node")
    axis.legend()
    figure.tight_layout()
    figure.savefig(RESULTS / "robot_side.png", dpi=120)
    print(f"wrote {RESULTS.relative_to(ROOT)}/robot_side.json and .png")


if __name__ == "__main__":
    raise SystemExit(main())
