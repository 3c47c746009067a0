"""Derives `configs/profiles/h200/` from published numbers: a service-time model, then a queueing simulation for load.

    python -m scripts.h200.derive [--out configs/profiles/h200]

Nothing here was measured on an H200 by us. Sources: the ROSA paper ("ROSA 4.3" is its section 4.3), the vendor's data
sheet of the H200, and the models' published sizes. Fitted to published latencies and throughputs and, where there are
none (System 1 in batches of 8 and 16), to one choice of ROSA Figure 14: batch 16 at 16 robots and 50 ms. Never fitted
to the allocations of ROSA Table 3. Each number goes into the files as a `Fact`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rosa_server.scheduler.profiles.library import DEFAULT_ROOT, file_name
from rosa_server.scheduler.profiles.profile import save_profile
from scripts.h200.system1 import system1
from scripts.h200.vlm import VERDICT_TOKENS, plan_tokens, vlm


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=DEFAULT_ROOT / "h200")
    parser.add_argument("--requests", type=int, default=40_000, help="simulated requests per System 1 point")
    args = parser.parse_args()
    big, small = "Qwen2.5-VL-7B-Instruct", "Qwen2.5-VL-3B-Instruct"
    profiles = (
        system1(args.requests),
        vlm(
            big,
            {"system2": plan_tokens(big), "monitor": VERDICT_TOKENS["monitor"]},
            args.requests // 5,
        ),
        vlm(small, {"safety": VERDICT_TOKENS["safety"]}, args.requests // 2),
    )
    for profile in profiles:
        path = args.out / file_name(profile.model)
        save_profile(profile, path)
        print(path)


if __name__ == "__main__":
    main()
