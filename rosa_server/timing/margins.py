"""What is left free of a deadline, and which batches keep it: one rule for gateway, planner and simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rosa_server.timing.batch_profile import BatchProfile

SLACK = 0.98  # of an SLO: what a batch and its calls' wait for a server may take
SPARE = 1.07  # a slow batch takes so many times its usual time, as far as nothing was measured
MIN_WAIT_S = 0.005  # of a call with a permit, where robots answer at once
RETURN_MARGIN_S = 0.002  # reserved for the answer's way from the worker back to the gateway
# The next batch is sent this long before the one that runs ends: a call that still waits can be replaced.
PREFETCH_S = 0.002
URGENT_S = 5.0  # longer than an SLO of a robot that stands still until it is answered


def in_time(batch_s: float, wait_s: float, slo_s: float, spare: float = SPARE) -> bool:
    """Whether a batch whose calls have permits keeps the SLO with some slack. `wait_s`: see `Permits.wait_s`."""
    return spare * batch_s + max(wait_s, MIN_WAIT_S) <= SLACK * slo_s


def largest(
    size: int, service_s: Callable[[int], float], wait_s: float, slo_s: float, spare: float = SPARE
) -> int:
    """The largest batch of at most `size` that is in time. Where none is after so long a wait, the largest after the
    shortest one: a few lost messages make a wait that most calls do not have, and a batch that takes longer than the
    SLO by itself makes all of them late. Where none is even then, a smaller one helps nobody: `size`."""
    for each_s in (wait_s, MIN_WAIT_S):
        for each in range(size, 0, -1):
            if in_time(service_s(each), each_s, slo_s, spare):
                return each
    return size


def together(sizes: Sequence[int], profile: BatchProfile) -> list[int]:
    """Of waiting calls, given by the largest batch that each may be in, the positions of those that run together with
    the first one: of the batches that are no larger than any of its calls allows, the one with most calls per second.
    """
    first = sizes[0]
    if min(sizes) >= first:
        return list(range(profile.best_count(min(first, len(sizes)))))
    best, best_hz = [0], 0.0
    for limit in sorted({size for size in sizes if size <= first}):
        found = [index for index, size in enumerate(sizes) if size >= limit][:limit]
        count = profile.best_count(len(found))
        hz = count / max(1e-9, profile.service_s(count))
        if hz > best_hz:
            best, best_hz = found[:count], hz
    return best
