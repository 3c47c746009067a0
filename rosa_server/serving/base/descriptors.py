"""How many files and sockets this process may open: a connection takes one of ZeroMQ's and one of the doorman's."""

from __future__ import annotations

import resource

MOST = 1 << 20  # some machines allow 2^30, which a limit that is counted with should not


def more_descriptors() -> int:
    """Raise the soft limit to the hard one, as far as that is useful. Returns the limit that holds now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return min(soft, MOST) if soft != resource.RLIM_INFINITY else MOST
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # macOS says unlimited and means less
        return soft
    return wanted
