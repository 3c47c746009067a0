"""Where the numbers of a measured profile come from, in words that stay with the file."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence

from rosa_server.scheduler.profiles.measure import DISTURBED, disturbed, service_runs
from rosa_server.scheduler.profiles.measure_continuous import JOINS_AT
from rosa_server.scheduler.profiles.profile import CONTINUOUS, Configuration, Fact
from rosa_server.scheduler.profiles.queueing import WARM_UP_SHARE

FEW = 2000  # requests: below, two at most lie above the p99.9


def measured_facts(
    configurations: Sequence[Configuration],
    requests: int,
    memory_mb: float,
    hardware_memory_mb: float,
    memory_given: bool,
    cpu_time: bool = False,
) -> tuple[Fact, ...]:
    """The facts of what `rosa profile` measured on this machine; `memory_given`: by the caller, not by the machine.

    `cpu_time`: times are those that the process computed.
    """
    without = f"the first {WARM_UP_SHARE:.0%} left out"
    few = f"; p99.9 of {requests} requests is practically their maximum" if requests < FEW else ""
    facts = [
        Fact("machine", f"{os.cpu_count()} cores, {platform.machine()}", "measured", "as its system says"),
        Fact(
            "service times",
            "per batch size",
            "measured",
            f"mean of {service_runs(requests)} runs in a row after one that does not count",
        ),
        Fact("maximum throughput", "per configuration", "derived", "largest batch / its service time"),
        Fact(
            "latency under load",
            "per rate",
            "measured",
            f"{requests} Poisson arrivals at each rate, from arrival to answer, {without}{few}",
        ),
        Fact("memory", f"{memory_mb:g} MB", "assumed", "as the backend states it"),
        Fact(
            "memory of the hardware",
            f"{hardware_memory_mb:.0f} MB",
            "assumed" if memory_given else "measured",
            "--hardware-memory-mb" if memory_given else "as its driver or system says",
        ),
    ]
    together = [one.batch for one in configurations if one.batching == CONTINUOUS]
    if together:
        source = "as the backend states it: calls that its engine takes at a time"
        facts.append(Fact("running requests", f"{max(together)} at most", "assumed", source))
        source = (
            "what a call takes longer beside which another begins late, less what both decode together;"
            f" median of {len(JOINS_AT) * service_runs(requests)} pairs. 0: calls were not held up"
        )
        facts.append(Fact("time of a prompt", "per configuration", "measured", source))
    if cpu_time:
        source = "the machine was busy; with its own core a process takes as long as it computes"
        facts.append(Fact("clock", "CPU time of the process", "measured", source))
    high = [
        f"{configuration.label} at {rate_hz:.3g} req/s"
        for configuration in configurations
        for rate_hz in disturbed({point.rate_hz: point for point in configuration.latency})
    ]
    if high:
        source = (
            f"their p99 is over {DISTURBED:g} times that of a higher rate: the machine had other work, or many arrivals"
            " came close together; schedules made with them are more careful than necessary"
        )
        facts.append(Fact("points that lie too high", ", ".join(high), "measured", source))
    return tuple(facts)
