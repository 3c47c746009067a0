"""What encoding and decoding a message takes: readers made of the declarations, and what they were chosen over.

    python -m benchmarks.transport.wire

Rows of the codec that is installed are measured. Those of `version 3`, which was written by hand, stay: they were
measured with the last checkout that had it, on the same machine in the same hour (`--codec "version 3, by hand"`).
Rows of `msgspec` are measured where it can be imported: structs made of the same declarations, with the same bounds;
checksums, arrays and pictures are checked by the same code. ROSA does not need it. A time is the best of many rounds.
Writes benchmarks/results/wire.json and wire.png.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import matplotlib as mpl
import numpy as np

from benchmarks import RESULTS
from benchmarks.conclude import print_aims, write
from rosa_contract.wire import codec, status
from rosa_contract.wire import messages as m
from rosa_contract.wire.images import EncodedImage
from rosa_contract.wire.progress import Progress

mpl.use("Agg")
import matplotlib.pyplot as plt

RESULT, PLOT = RESULTS / "wire.json", RESULTS / "wire.png"
DECLARED, BY_HAND, MSGSPEC = "version 4, declared", "version 3, by hand", "msgspec"
ROUNDS, ROUND_S = 60, 0.003
ROBOT = (
    "Request, 2 pictures",
    "Response, 16 actions",
)  # what a robot's round trip encodes, and what it decodes
MAX_MORE = 1.05  # of version 3's time
Row = dict[str, Any]


def messages() -> dict[str, m.Message]:
    """One of each kind, as large as they usually are."""
    rng = np.random.default_rng(0)
    pictures = {name: EncodedImage("jpeg", 480, 640, rng.bytes(50_000)) for name in ("front", "wrist")}
    state = {"joint_position": np.arange(7, dtype=np.float32), "gripper_width": np.ones(1, np.float32)}
    request = m.Request(
        7, "system1", 300.0, "put the red part into the left bin", state, pictures, observation=12,
        progress=Progress(3, 12, 180.0, "sort"),
    )  # fmt: skip
    actions = m.Output({"actions": rng.standard_normal((16, 8)).astype(np.float32)})
    bare = m.Request(7, "system1", 300.0, "", state)
    components = ("system1", "system2", "safety", "monitor")
    counts = [status.ComponentStatus(name, 300.0, 80.5, 120.25, 900, 890, 9, 0, 1) for name in components]
    calls = [status.EndedCall("system1", number, "in_time", 80.0, 12.0) for number in range(4)]
    lengths = {"joint_position": 7}
    camera = m.CameraInfo(height=480, width=640, encoding="jpeg")
    return {
        "Hello": m.Hello("panda0", "sort", dict.fromkeys(pictures, camera), lengths),
        "Welcome": m.Welcome(
            dict.fromkeys(components, "rosa/policy"), dict.fromkeys(components, 2.0),
            dict.fromkeys(components, ("front", "wrist")), "token", 1.0, {"safety": 250.0}, ("system1",), True, True,
            1.0,
        ),
        "Refused": m.Refused("not_ready", "models are still loading"),
        "Ready": m.Ready("system1"),
        "Permit": m.Permit("system1"),
        ROBOT[0]: request,
        "Request, no picture": bare,
        "Cancel": m.Cancel(7),
        "TaskEnds": m.TaskEnds(3, "done"),
        "Status": m.Status("executing", "", True, 12, 1, False, counts, None, calls),
        "Decide": m.Decide(1, 17, "resume", "anna", "it is clear"),
        "Decided": m.Decided(1, True),
        ROBOT[1]: m.Response(7, m.OK, "", "", 1.5, 42.0, 4, actions),
        "Response, expired": m.Response(7, m.EXPIRED, "budget_spent", "spent 3 ms too much"),
        "Bye": m.Bye(),
        "HealthQuery": m.HealthQuery(),
        "HealthReport": m.HealthReport(True, {"w0": "ready"}, {"policy": 3}, [f"panda{n}" for n in range(16)], 16),
        "WorkerReady": m.WorkerReady("w0", "rosa/policy", 8, dict.fromkeys(pictures, (480, 640)), lengths),
        "Execute": m.Execute(3, [1, 2], [codec.encode(request)] * 2, [m.Sender("panda0", 120.5, 3.25, "4:17")] * 2),
        "Executed": m.Executed(3, [1, 2], 42.0, [("", "")] * 2, [codec.encode_output(actions)] * 2, {}, [1.5, 1.5]),
        "CancelTickets": m.CancelTickets([3, 4]),
        "Drain": m.Drain(),
    }  # fmt: skip


def microseconds(work: Callable[[], object]) -> float:
    """CPU time of one call, the best of many rounds."""
    work()
    began_s = time.perf_counter()
    work()
    calls = max(1, int(ROUND_S / max(1e-7, time.perf_counter() - began_s)))
    best_s = float("inf")
    for _ in range(ROUNDS):
        began_s = time.thread_time()
        for _ in range(calls):
            work()
        best_s = min(best_s, (time.thread_time() - began_s) / calls)
    return round(best_s * 1e6, 2)


def measured(
    name: str, encode: Callable[[m.Message], list[Any]], decode: Callable[[list[Any]], Any]
) -> list[Row]:
    rows = []
    for kind, message in messages().items():
        frames = [bytes(frame) for frame in encode(message)]
        decode(frames)
        rows.append(
            {
                "message": kind,
                "codec": name,
                "encode us": microseconds(partial(encode, message)),
                "decode us": microseconds(partial(decode, frames)),
                "header bytes": len(frames[0]),
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    return rows


def aims(rows: list[Row]) -> list[Row]:
    found: Mapping[tuple[str, str], Row] = {(row["message"], row["codec"]): row for row in rows}

    def round_trip(name: str) -> float:
        asks, answers = (found[kind, name] for kind in ROBOT)
        return float(asks["encode us"] + answers["decode us"])

    def both(name: str) -> float:
        return float(sum(found[kind, name]["encode us"] + found[kind, name]["decode us"] for kind in ROBOT))

    if (ROBOT[0], BY_HAND) not in found or (ROBOT[0], DECLARED) not in found:
        return []
    pairs = (
        ("a robot's part of a round trip (it encodes a request with two pictures and decodes a response)", round_trip),
        ("both ends of it", both),
    )  # fmt: skip
    return [
        {
            "aim": f"{what}: at most {MAX_MORE:.0%} of version 3's time",
            "value": f"{of(DECLARED):.0f} us, before {of(BY_HAND):.0f} us, {of(DECLARED) / of(BY_HAND):.0%}"
            + (f"; msgspec {of(MSGSPEC):.0f} us" if (ROBOT[0], MSGSPEC) in found else ""),
            "holds": of(DECLARED) <= MAX_MORE * of(BY_HAND),
        }
        for what, of in pairs
    ]


def others(rows: list[Row]) -> str:
    """What the messages besides the robot's take together, by codec."""
    took: dict[str, float] = {}
    for row in rows:
        if row["message"] not in ROBOT:
            took[row["codec"]] = took.get(row["codec"], 0.0) + row["encode us"] + row["decode us"]
    return ", ".join(f"{name} {us:.0f} us" for name, us in sorted(took.items()))


def plot(rows: list[Row]) -> None:
    kinds = list(dict.fromkeys(row["message"] for row in rows))
    names = [name for name in (BY_HAND, DECLARED, MSGSPEC) if any(row["codec"] == name for row in rows)]
    figure, axes = plt.subplots(figsize=(9, 7))
    height = 0.8 / len(names)
    for number, name in enumerate(names):
        found = {row["message"]: row["encode us"] + row["decode us"] for row in rows if row["codec"] == name}
        places = [at + number * height for at in range(len(kinds))]
        axes.barh(places, [found.get(kind, 0.0) for kind in kinds], height, label=name)
    axes.set_yticks([at + 0.4 - height / 2 for at in range(len(kinds))], kinds)
    axes.set_xscale("log")
    axes.set_xlabel("encoding and decoding, µs of CPU")
    axes.invert_yaxis()
    axes.legend()
    figure.tight_layout()
    figure.savefig(PLOT, dpi=110)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--codec", default=DECLARED, help="name of the rows of the codec that is installed")
    parser.add_argument(
        "--again",
        action="store_true",
        help="another pass over the same code: of each time the better one counts",
    )
    args = parser.parse_args()
    new = measured(args.codec, codec.encode, codec.decode)
    try:
        from benchmarks.transport.wire_msgspec import decode, encode
    except ImportError as problem:
        print(f"msgspec is not measured: {problem}")
    else:
        new += measured(MSGSPEC, encode, decode)
    before = json.loads(RESULT.read_text())["rows"] if RESULT.exists() else []
    known = {(row["message"], row["codec"]): row for row in before}
    for row in new:
        found = known.get((row["message"], row["codec"]))
        if args.again and found is not None:
            row |= {key: min(row[key], found[key]) for key in ("encode us", "decode us")}
        known[row["message"], row["codec"]] = row
    rows = list(known.values())
    rows.sort(key=lambda row: str(row["codec"]), reverse=True)
    held = aims(rows)
    print_aims(held)
    notes = [
        f"`{BY_HAND}`: measured with the last checkout that had it, on the same machine in the same hour; not measured"
        " again since.",
        f"`{MSGSPEC}` 0.22: structs made of the same declarations; rosdep has no key for it, so a robot cannot need it"
        " (docs/log.md).",
        f"All other messages, once each, encoded and decoded: {others(rows)}.",
        "CPU time of one core, the best of many rounds: what other processes take is left out.",
    ]
    write(RESULT, rows, held, notes, how=", one used")
    plot(rows)
    return 0 if all(aim["holds"] for aim in held) else 1


if __name__ == "__main__":
    raise SystemExit(main())
