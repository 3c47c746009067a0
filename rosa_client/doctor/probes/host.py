"""Reads kernel, limits, governors, clocks and free space of this machine."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import time
from pathlib import Path

from rosa_client.doctor.judges.host import UNLIMITED, HostFact

REALTIME = Path("/sys/kernel/realtime")
GOVERNORS = "cpu[0-9]*/cpufreq/scaling_governor"


class HostClockWatch:
    """Follows the wall clock against the monotonic one from its making on."""

    def __init__(self) -> None:
        self._began = time.monotonic(), time.time()

    def moved_s(self) -> tuple[float, float]:
        """How far the wall clock has moved against the monotonic one, and since when, s."""
        monotonic_s, wall_s = time.monotonic() - self._began[0], time.time() - self._began[1]
        return wall_s - monotonic_s, monotonic_s


def host_fact(
    recordings: str, watch: HostClockWatch, cpus: Path = Path("/sys/devices/system/cpu")
) -> HostFact:
    """The facts of this machine; `recordings` is the folder whose disk counts."""
    step_s, watched_s = watch.moved_s()
    try:
        free_bytes: int | None = shutil.disk_usage(recordings).free
    except OSError:
        free_bytes = None
    return HostFact(
        release=platform.release(),
        real_time=_read(REALTIME) == "1" or "PREEMPT_RT" in platform.version().replace(" ", "_"),
        rtprio=_soft(resource.RLIMIT_RTPRIO),
        memlock_bytes=_soft(resource.RLIMIT_MEMLOCK),
        governors=[_read(path) for path in sorted(cpus.glob(GOVERNORS))],
        clock_step_s=step_s,
        watched_s=watched_s,
        folder=os.path.abspath(recordings),
        free_bytes=free_bytes,
    )


def _soft(kind: int) -> int:
    soft, _ = resource.getrlimit(kind)
    return UNLIMITED if soft == resource.RLIM_INFINITY else soft


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
