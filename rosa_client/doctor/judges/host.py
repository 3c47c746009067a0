"""The robot's machine: kernel, limits, CPU clock, wall clock, disk.

An arm whose 1 kHz loop runs on this machine (the driver `franka`) needs real time: Franka's documentation of libfranka,
"Setting up the real-time kernel", asks for PREEMPT_RT and for rtprio 99 and memlock in limits.conf. Any other arm gets
setpoints at 100 Hz and filters them itself, so there the same findings are warnings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rosa_client.doctor.judges.finding import FAIL, WARN, Finding, fine, skipped

RTPRIO = 99
MEMLOCK_BYTES = 102_400 * 1024  # as Franka's limits.conf
STEP_S = 0.01  # a picture is taken every 33 ms; a step of a third of that makes stamps wrong
FAIL_BELOW_BYTES = 1 << 30
WARN_BELOW_BYTES = 10 << 30  # about an hour of two 640x480 cameras as JPEG at 30 Hz, and room for the logs
UNLIMITED = -1


@dataclass(frozen=True)
class HostFact:
    """What the kernel says. `rtprio` and `memlock_bytes` are soft limits; `UNLIMITED` for none."""

    release: str  # uname -r
    real_time: bool  # /sys/kernel/realtime is 1, or PREEMPT_RT is in uname -v
    rtprio: int
    memlock_bytes: int
    governors: Sequence[str]  # one per CPU that has one
    clock_step_s: float  # how far the wall clock moved against the monotonic one meanwhile
    watched_s: float
    folder: str  # of recordings
    free_bytes: int | None  # None: the folder is not there


def judge_host(fact: HostFact, hard_real_time: bool) -> list[Finding]:
    """`hard_real_time`: the arm's 1 kHz loop runs on this machine."""
    return [
        _kernel(fact, hard_real_time),
        _limits(fact, hard_real_time),
        _governor(fact),
        _clock(fact),
        _disk(fact),
    ]


def _kernel(fact: HostFact, hard: bool) -> Finding:
    if fact.real_time:
        return fine("kernel", f"{fact.release}, real-time (PREEMPT_RT)")
    needed = "the arm's 1 kHz loop needs one" if hard else "needed where the arm's 1 kHz loop runs"
    return Finding(
        "kernel",
        FAIL if hard else WARN,
        "not_real_time",
        f"{fact.release} is no real-time kernel; {needed}",
        "install one (Ubuntu: sudo pro enable realtime-kernel), boot it; docs/franka.md",
    )


def _limits(fact: HostFact, hard: bool) -> Finding:
    missing = []
    if 0 <= fact.rtprio < RTPRIO:
        missing.append(f"rtprio is {fact.rtprio}, expected {RTPRIO}")
    if 0 <= fact.memlock_bytes < MEMLOCK_BYTES:
        lowest = MEMLOCK_BYTES // 1024
        missing.append(f"memlock is {fact.memlock_bytes // 1024} kB, expected at least {lowest}")
    if not missing:
        return fine("limits", "this user may use real-time priority and lock memory")
    return Finding(
        "limits",
        FAIL if hard else WARN,
        "limits_too_low",
        "; ".join(missing),
        f"set rtprio {RTPRIO} and memlock {MEMLOCK_BYTES // 1024} in /etc/security/limits.conf, log in again",
    )


def _governor(fact: HostFact) -> Finding:
    others = sorted(set(fact.governors) - {"performance"})
    if not fact.governors:
        return skipped("governor", "unknown", "the kernel does not say (a virtual machine or container?)")
    if not others:
        return fine("governor", f"performance on {len(fact.governors)} CPUs")
    return Finding(
        "governor",
        WARN,
        "saves_power",
        f"the CPU clock follows the load ({', '.join(others)}): control periods become uneven",
        "sudo cpupower frequency-set -g performance",
    )


def _clock(fact: HostFact) -> Finding:
    step_ms = 1000 * fact.clock_step_s
    if abs(fact.clock_step_s) <= STEP_S:
        return fine("clock", f"the wall clock ran steadily for {fact.watched_s:.1f} s ({step_ms:+.1f} ms)")
    return Finding(
        "clock",
        WARN,
        "clock_stepped",
        f"the wall clock jumped by {step_ms:+.0f} ms within {fact.watched_s:.1f} s: pictures look old or new",
        "let chrony slew the clock, not step it, while the robot runs (makestep 1 3)",
    )


def _disk(fact: HostFact) -> Finding:
    if fact.free_bytes is None:
        words = f"{fact.folder}: there is no such folder"
        return Finding("disk", FAIL, "no_folder", words, "name the folder of recordings: --recordings")
    free = f"{fact.free_bytes / 2**30:.1f} GiB free in {fact.folder}"
    if fact.free_bytes >= WARN_BELOW_BYTES:
        return fine("disk", free)
    level = FAIL if fact.free_bytes < FAIL_BELOW_BYTES else WARN
    return Finding(
        "disk", level, "disk_full", f"{free}: recordings will stop", "free some, or record elsewhere"
    )
