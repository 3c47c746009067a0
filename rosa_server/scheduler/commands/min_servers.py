"""`rosa plan --min-servers`: how many servers a factory needs."""

from __future__ import annotations

import json
import sys
import time
from math import inf

from rosa_server.scheduler.commands.table import counted
from rosa_server.scheduler.problem import Problem
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.search.min_servers import Needed, servers_needed
from rosa_server.scheduler.search.shared_gpus import gpus_needed
from rosa_server.scheduler.search.solve import solve


def show_min_servers(problem: Problem, library: ProfileLibrary, options: Options, as_json: bool) -> bool:
    """Print it, for every minimum rate and for shares of the fastest rate. False when no number is enough."""
    steps = (0.0, 0.5, 0.9, 0.95)
    needed = {share: servers_needed(problem, library, options, share) for share in steps}
    shared = {share: gpus_needed(problem, library, options, share) for share in steps}
    fewest = needed[0.0]
    if fewest is None:
        reasons = solve(problem, library, options, time.monotonic).reasons
        print("\n".join(refusal.reason for refusal in reasons), file=sys.stderr)
        return False
    if as_json:
        enough = {str(share): found and found.servers for share, found in needed.items()}
        lowest = {str(share): found and found.lowest for share, found in needed.items()}
        print(
            json.dumps(
                {
                    "min_servers": fewest.servers,
                    "for_share_of_fastest": enough,
                    "proved_at_least": lowest,
                    "with_shared_gpus": {str(share): gpus for share, gpus in shared.items()},
                }
            )
        )
        return True
    robots = counted(problem.robots, "robot")
    print(
        f"{counted(fewest.servers, 'server')} will keep every SLO and minimum rate of {robots}; {_proof(fewest)}."
    )
    if options.standby:
        print(
            f"{options.standby} of them, here and below, {'is' if options.standby == 1 else 'are'} kept as standby."
        )
    for share in steps[1:]:
        found = needed[share]
        servers = "No number of servers" if found is None else counted(found.servers, "server")
        proof = "" if found is None else f"; {_proof(found)}"
        print(f"{servers} will let robots act at {share:.0%} of their task's fastest rate on average{proof}.")
    fewer = {
        share: gpus
        for share, gpus in shared.items()
        if gpus is not None and gpus < (found.servers if (found := needed[share]) is not None else inf)
    }
    if fewer:
        words = ", ".join(f"{gpus} for {_rate(share)}" for share, gpus in fewer.items())
        print(f"Where models take turns on one GPU (--share-gpus), fewer are enough: {words}.")
    return True


def _rate(share: float) -> str:
    return f"{share:.0%}" if share else "the minimum rates"


def _proof(found: Needed) -> str:
    return "fewer are not enough" if found.proved else f"fewer than {found.lowest} are not enough"
