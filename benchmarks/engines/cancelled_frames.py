"""What it gives that cancelled frames leave the pipe: passes are no longer spent on answers that nobody waits for.

    python -m benchmarks.engines.cancelled_frames

The engine's real decisions (`pipe.py`: who enters, advances, leaves) under a clock that counts passes; no model runs,
so the figures hold wherever a pass takes the same time whatever it holds. Robots send frames at random, each with a
deadline; a share of them is cancelled by their robots at a random moment before it. Frames past their deadline leave in
both ways.

    not told   a cancelled frame is decoded to its end, and its answer thrown away: as before there was a message for it
    told       it leaves its slot, or the queue, at once
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from benchmarks import RESULTS
from rosa_server.engines.pipelined_decode.pipe import Pipe, PipeFrame

RESULT = RESULTS / "cancelled_frames"
K = SLOTS = 7
ROBOTS = 12
DEADLINE = 3 * K  # passes after it was sent
LOADS = (0.7, 1.0, 1.3)  # frames per pass; the pipe finishes one at most
SHARES = (0.0, 0.2, 0.4)  # of the frames, cancelled
Row = dict[str, float | str]


def measure(load: float, share: float, told: bool, passes: int) -> Row:
    """One run; both ways of one load and share see the same frames."""
    draw = Random(f"{load} {share}")
    pipe = Pipe(K, SLOTS)
    cancel_at: dict[int, float] = {}
    sent = wanted = answered = tokens = wasted = 0
    next_s = draw.expovariate(load)
    for now in range(passes):
        while next_s <= now:
            pipe.offer(PipeFrame(sent, str(draw.randrange(ROBOTS)), next_s + DEADLINE))
            cancelled, moment = draw.random() < share, draw.random()
            if cancelled:
                cancel_at[sent] = next_s + moment * DEADLINE
            wanted += not cancelled
            sent += 1
            next_s += draw.expovariate(load)
        due = [number for number, at in cancel_at.items() if at <= now] if told else []
        for number in due:
            pipe.cancel(number)
            del cancel_at[number]
        do = pipe.next_pass(now, 1.0)
        if do is None:
            continue
        for seat in (*do.enter, *do.decode):
            tokens += 1
            wasted += cancel_at.get(seat.frame.number, now + 1) <= now
        for seat in pipe.passed(do):
            at = cancel_at.pop(seat.frame.number, None)
            answered += at is None
    return {
        "frames_per_pass": load,
        "cancelled": share,
        "way": "told" if told else "not told",
        "answered_of_wanted": round(answered / wanted, 3),
        "answers_per_100_passes": round(100 * answered / passes, 1),
        "tokens_for_nobody": round(wasted / tokens, 3),
    }


def aims_of(rows: Sequence[Row]) -> list[dict[str, object]]:
    """Cancelling is to leave nothing to nobody, and to give the others what it saves under overload."""
    by = {(row["frames_per_pass"], row["cancelled"], row["way"]): row for row in rows}
    heavy = (max(LOADS), max(SHARES))
    told, before = by[(*heavy, "told")], by[(*heavy, "not told")]
    gain = float(told["answers_per_100_passes"]) / float(before["answers_per_100_passes"])
    nobody = max(float(row["tokens_for_nobody"]) for row in rows if row["way"] == "told")
    where = f"{heavy[0]:g} frames per pass, {heavy[1]:.0%} cancelled"
    return [
        {
            "aim": "no token for a frame that was cancelled before its pass",
            "value": nobody,
            "holds": nobody == 0,
        },
        {
            "aim": "at least 1.1 times as many answers that somebody waits for, under the heaviest load",
            "value": f"{gain:.2f}x at {where}",
            "holds": gain >= 1.1,
        },
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--passes", type=int, default=20_000)
    parser.add_argument("--out", type=Path, default=RESULT.parent)
    args = parser.parse_args()
    began_s = time.monotonic()
    rows = [
        measure(load, share, told, args.passes)
        for load in LOADS
        for share in SHARES
        for told in (False, True)
    ]
    aims = aims_of(rows)
    print("  ".join(f"{name:>22}" for name in rows[0]))
    for row in rows:
        print("  ".join(f"{value!s:>22}" for value in row.values()))
    for aim in aims:
        print(f"{'holds' if aim['holds'] else 'MISSED':<7} {aim['aim']}: {aim['value']}")
    report = {
        "name": RESULT.name,
        "command": "python -m benchmarks.engines.cancelled_frames",
        "machine": f"{platform.machine()}; counts, no times",
        "date": time.strftime("%Y-%m-%d"),
        "duration_s": round(time.monotonic() - began_s, 1),
        "rows": rows,
        "aims": aims,
    }
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / f"{RESULT.name}.json").write_text(json.dumps(report, indent=1) + "\n")
    return 0 if all(aim["holds"] for aim in aims) else 1


if __name__ == "__main__":
    raise SystemExit(main())
