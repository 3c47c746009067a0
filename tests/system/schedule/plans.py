"""A small factory of emulated models with profiles of its own, and `rosa plan` for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rosa_server.scheduler.profiles.library import file_name
from rosa_server.scheduler.profiles.profile import Configuration, Profile, ServiceTime, save_profile
from rosa_server.scheduler.profiles.queueing import batch_latencies_ms, summarise
from tests.system.server_harness import PATIENCE_S, ROOT, Server, serving

FLEET = """
server_cluster: {{num_servers: 4, gpu_type: cpu}}
robot_fleet: [{{task: pick, num_robots: 2}}, {{task: sort, num_robots: 1}}]
pick:
  pipeline: {{action_period_ms: 200}}
  min_action_rate_hz: 2
  components:
    system1: {{model: emulated/policy, slo_ms: 200}}
    safety: {{model: emulated/guard, slo_ms: 200, freq_hz: 4}}
sort:
  pipeline: {{action_period_ms: 200}}
  min_action_rate_hz: 2
  components:
    system1: {{model: emulated/policy, slo_ms: 200}}
gateway: {{bind: "tcp://127.0.0.1:{port}", metrics_port: {metrics_port}}}
"""
FACTORY = (
    FLEET
    + """
models:
  emulated/policy: {{backend: emulated, options: {{latency_ms: 60, load_s: 2}}}}
  emulated/guard: {{backend: emulated, options: {{latency_ms: 20, load_s: 2, verdict: safe}}}}
"""
)
SERVICE_MS = {"emulated/policy": 60.0, "emulated/guard": 20.0}


def rosa_plan(config: Path, *options: str) -> dict[str, Any]:
    """What `rosa plan CONFIG --json` prints, as a file beside the config and as values."""
    command = [sys.executable, "-m", "rosa_server.cli", "plan", str(config), "--json", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr + done.stdout
    (config.parent / "plan.json").write_text(done.stdout)
    plan: dict[str, Any] = json.loads(done.stdout)
    return plan


def write_profiles(folder: Path) -> None:
    """Profiles of the emulated models, from the same queue that the shipped derived profiles come from."""
    for model, one_ms in SERVICE_MS.items():
        points = [
            summarise(rate_hz, batch_latencies_ms(rate_hz, 1, {1: one_ms}.__getitem__, 0.02, 2000, step))
            for step in range(1, 11)
            for rate_hz in (100 * step / one_ms,)
        ]
        alone = Configuration("static", 1, 1000 / one_ms, tuple(points), (ServiceTime(1, one_ms),))
        save_profile(
            Profile(1, model, "cpu", "derived", 100.0, 1000.0, (alone,)), folder / "cpu" / file_name(model)
        )


@contextmanager
def planned(
    folder: Path, *options: str, factory: str = FACTORY, **of_server: Any
) -> Iterator[tuple[Server, dict[str, Any]]]:
    """A server, which the test starts, and its schedule: as `rosa plan` makes it with these options."""
    profiles = folder / "profiles"
    write_profiles(profiles)
    arguments = ["--schedule", str(folder / "plan.json"), "--profiles", str(profiles)]
    with serving(folder, factory=factory, arguments=arguments, wait=True, **of_server) as server:
        yield server, rosa_plan(server.config, *options, "--profiles", str(profiles))
