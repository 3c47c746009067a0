"""A schedule for the robots of a story: profiles of its emulated model, and `rosa plan` with them."""

from __future__ import annotations

import json
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from rosa_contract.shipped import shipped
from rosa_server.scheduler.profiles.library import file_name
from rosa_server.scheduler.profiles.profile import STATIC, Configuration, Profile, ServiceTime, save_profile
from rosa_server.scheduler.profiles.queueing import batch_latencies_ms, summarise
from rosa_sim.machines.nodes import Nodes

SIZES = (1, 4, 16)
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)  # of a server's most
REQUESTS, JITTER, SEED = 2000, 0.05, 1
PLAN_S = 90.0
PROFILES = shipped("configs", "profiles")


def _always(runs_ms: float, size: int) -> float:
    """A batch is padded."""
    return runs_ms


def write_profile(folder: Path, model: str, first_ms: float, each_ms: float) -> None:
    """Of a model whose batches take `first_ms` and `each_ms` for every request."""
    configurations = []
    for batch in SIZES:
        runs_ms = first_ms + each_ms * batch
        points = []
        for share in SHARES:
            rate_hz = share * 1000 * batch / runs_ms
            found = batch_latencies_ms(rate_hz, batch, partial(_always, runs_ms), JITTER, REQUESTS, SEED)
            points.append(summarise(rate_hz, found))
        service = (ServiceTime(batch, runs_ms),)
        configurations.append(Configuration(STATIC, batch, 1000 * batch / runs_ms, tuple(points), service))
    profile = Profile(1, model, "cpu", "derived", 100.0, 1000.0, tuple(configurations))
    save_profile(profile, folder / "cpu" / file_name(model))


def copy_profiles(content: dict[str, Any], folder: Path) -> None:
    """Those that are shipped of a factory's models, to where it is planned from."""
    hardware = content["server_cluster"]["gpu_type"]
    for model in content["models"]:
        source = PROFILES / hardware / file_name(model)
        if source.exists():
            shutil.copy(source, folder / hardware)


def plan(
    nodes: Nodes, content: dict[str, Any], folder: Path, servers: int, standby: int = 0
) -> tuple[str, ...]:
    """What `rosa serve` is told to run this factory by a schedule of `servers` servers, of which `standby` stand by.
    Raises `RuntimeError`."""
    options = content["models"]["policy"]["options"]
    profiles, path = folder / "profiles", folder / f"plan{servers}.json"
    write_profile(profiles, "policy", options["latency_ms"], options["per_item_ms"])
    copy_profiles(content, profiles)
    source = folder / "to_plan.yaml"
    source.write_text(yaml.safe_dump(content))
    words: tuple[str, ...] = (
        "plan",
        str(source),
        "--json",
        "--what-if",
        f"servers={servers}",
        "--profiles",
        str(profiles),
    )
    words = (*words, "--standby", str(standby)) if standby else words
    done = nodes.run(nodes.one, (sys.executable, "-m", "rosa_server.cli", *words), PLAN_S)
    if done.returncode or not json.loads(done.stdout)["feasible"]:
        raise RuntimeError(f"rosa plan: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    path.write_text(done.stdout)
    return "--schedule", str(path), "--profiles", str(profiles)
