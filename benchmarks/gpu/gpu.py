"""Everything that needs a GPU, with one command; torch, numpy, OpenCV and this repository are all that it takes.

    python -m benchmarks.gpu.gpu                    # on a machine with a GPU: forty minutes at most
    python -m benchmarks.gpu.gpu --part kv_sharing  # one of them, which may get options of its own: --seconds 0.4
    python -m benchmarks.gpu.gpu --device cpu --tiny --out /tmp/tried  # a dry run: seconds

Each part is a process of its own and ends within ten minutes. What it has measured by then is in
benchmarks/results/NAME_cuda.json; of one that was cut off, in NAME_cuda.partial. No network is used.

kv_sharing        shared prefixes at pi0.5's sizes, against calls one by one and in one batch
pipelined_decode  pipelined decoding at OpenVLA-7B's sizes, against static batches, continuous and chunked prefill
gpu_pictures      decoding ahead, into pinned rows and into arrays that are stacked
gpu_profiles      times of batches of both models
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import RESULTS, ROOT
from benchmarks.engines import kv_sharing, pipelined_decode
from benchmarks.engines.gpu_report import GPU_LIMIT_S
from benchmarks.gpu import gpu_pictures, gpu_profiles

Part = Callable[[Sequence[str]], int]
PARTS: dict[str, tuple[Part, list[str]]] = {  # with the options of a dry run
    "kv_sharing": (kv_sharing.main, ["--short", "--seconds", "0", "--rounds", "1"]),
    "pipelined_decode": (
        pipelined_decode.main,
        ["--lengths", "1", "2", "--prefixes", "17", "--seconds", "0", "--rounds", "1"],
    ),
    "gpu_pictures": (gpu_pictures.main, ["--tiny", "--seconds", "0"]),
    "gpu_profiles": (gpu_profiles.main, ["--tiny"]),
}
GRACE_S = 60.0  # beyond a part's own limit, before it is ended


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0: every part ended; aims that are missed are printed, as are parts that failed (1)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--part", choices=sorted(PARTS), help="only this one")
    parser.add_argument("--tiny", action="store_true", help="a dry run")
    parser.add_argument("--limit", type=float, default=GPU_LIMIT_S, help="seconds of each part")
    parser.add_argument("--out", type=Path, default=RESULTS, help=f"(default {RESULTS})")
    args, own = parser.parse_known_args(arguments)
    if own and args.part is None:
        parser.error(f"{' '.join(own)}: options of one part need --part")
    if args.tiny and args.out == RESULTS:
        parser.error("--tiny measures nothing: give it a folder of its own with --out")
    given = ["--device", args.device, "--limit", f"{args.limit:g}", "--out", str(args.out)]
    if args.part is not None:
        run, tiny = PARTS[args.part]
        return run([*given, *(tiny if args.tiny else []), *own])
    failed = []
    for name, (run, tiny) in PARTS.items():
        print(f"[gpu] {name}", flush=True)
        if args.tiny:
            run([*given, *tiny])  # aims mean nothing at these sizes; an error ends all
            continue
        command = [sys.executable, "-m", "benchmarks.gpu.gpu", "--part", name, *given]
        try:
            if subprocess.run(command, cwd=ROOT, timeout=args.limit + GRACE_S).returncode:
                failed.append(name)
        except subprocess.TimeoutExpired:
            failed.append(f"{name} (cut off)")
    if failed:
        print(f"[gpu] these ended with an error or a missed aim: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
