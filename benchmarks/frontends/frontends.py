"""openpi's server, GR00T's design of one, `inferential` and ROSA behind the same clients, with the same emulated model.

    python -m benchmarks.frontends.frontends [--rounds 2] [--seconds 3] [--inferential .venv-inferential/bin/python]

The model takes 20 ms alone and 40 ms in a batch of 16; who cannot batch runs one observation after the other. Clients
are processes of their own and ask again as soon as they are answered: two 224x224 RGB images and 8 values up, 50x8
floats down. A call is in time within 200 ms, which is ROSA's SLO here: what ROSA cannot answer by then it refuses. The
peers take turns within a round, so that noise of the machine falls on all.

`inferential` needs an environment of its own, and its row is left out without one:
python3.11 -m venv .venv-inferential && .venv-inferential/bin/pip install inferential==1.4.0
OPENPI_SERVER=websocket_policy_server.py in the environment runs that file of openpi in place of a server of its design.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import RESULTS, ROOT
from benchmarks.conclude import print_aims, write
from benchmarks.frontends.crowd import Crowd, serving
from benchmarks.frontends.peers import SLO_MS
from benchmarks.frontends.peers.openpi import OWN_FILE
from benchmarks.frontends.peers.rosa import factory
from rosa_sim.ports import free_ports

SIZES = (1, 2, 4, 8, 16, 32)
OPENPI, THROUGH_OPENPI, NATIVE = "openpi's server", "ROSA, openpi's client", "ROSA, Python client"
GR00T, THROUGH_GR00T, INFERENTIAL = "GR00T's design", "ROSA, GR00T's wire", "inferential 1.4.0"
OURS = (THROUGH_OPENPI, THROUGH_GR00T, NATIVE)
MIN_GAIN, MAX_P50, MIN_SHARE = (
    3.0,
    1.2,
    0.5,
)  # of throughput at 16 clients; of p50 of one; of the mean client's answers
Row = dict[str, Any]
Told = list[dict[str, Any]]  # what each client measured


@dataclass(frozen=True)
class Peer:
    """One way to be served."""

    module: str  # of its client, in `peers`
    address: str
    crowd: Crowd


def measure(
    peers: dict[str, Peer], sizes: Sequence[int], rounds: int, seconds: float
) -> dict[tuple[str, int], list[Told]]:
    """(peer, clients) -> what was measured, per round."""
    found: dict[tuple[str, int], list[Told]] = {}
    names = list(peers)
    for number in range(rounds):
        for size in sizes:
            for name in names[number % len(names) :] + names[: number % len(names)]:
                peer = peers[name]
                told = peer.crowd.measure(peer.module, peer.address, size, seconds)
                found.setdefault((name, size), []).append(told)
        print(f"round {number + 1} of {rounds} done", file=sys.stderr, flush=True)
    return found


def row_of(peer: str, clients: int, per_round: list[Told], seconds: float) -> Row:
    """What a peer did for so many clients. A refused call is one that was not in time."""
    times_ms = np.array([ms for told in per_round for one in told for ms in one["times_ms"]])
    refused = sum(len(one["refused"]) for told in per_round for one in told)
    fewest = [
        min(counts) / max(1e-9, sum(counts) / len(counts))
        for counts in ([len(one["times_ms"]) for one in told] for told in per_round)
    ]
    p50, p99 = np.percentile(times_ms, [50, 99]) if len(times_ms) else (np.nan, np.nan)
    return {
        "peer": peer,
        "clients": clients,
        "calls_per_s": round(len(times_ms) / seconds / len(per_round), 1),
        "p50_ms": round(float(p50), 1),
        "p99_ms": round(float(p99), 1),
        "in_time": round(float((times_ms <= SLO_MS).sum()) / max(1, len(times_ms) + refused), 4),
        "refused": refused,
        "poorest_client": round(min(fewest), 2),  # its answers over the mean client's
    }


def aims_of(rows: Sequence[Row]) -> list[Row]:
    """The aims, and whether they hold."""
    at = {(row["peer"], row["clients"]): row for row in rows}
    gain = at[THROUGH_OPENPI, 16]["calls_per_s"] / at[OPENPI, 16]["calls_per_s"]
    slower = at[THROUGH_OPENPI, 1]["p50_ms"] / at[OPENPI, 1]["p50_ms"]
    poorest = min((row for row in rows if row["peer"] in OURS), key=lambda row: row["poorest_client"])
    return [
        {
            "aim": f"16 of openpi's clients: at least {MIN_GAIN:g}x as many answers through ROSA as of openpi's server",
            "value": f"{gain:.2f}x",
            "holds": gain >= MIN_GAIN,
        },
        {
            "aim": f"one of openpi's clients: p50 through ROSA within {MAX_P50:g}x of openpi's server",
            "value": f"{slower:.2f}x",
            "holds": slower <= MAX_P50,
        },
        {
            "aim": f"no client of ROSA gets less than {MIN_SHARE:g} of the mean client's answers, at any number",
            "value": f"{poorest['poorest_client']:.2f}, {poorest['peer']} with {poorest['clients']}",
            "holds": poorest["poorest_client"] >= MIN_SHARE,
        },
    ]


def table(rows: Sequence[Row]) -> str:
    lines = [
        f"{'clients':>7}  {'peer':24} {'calls/s':>8} {'p50 ms':>8} {'p99 ms':>8} {'in time':>8} {'poorest':>8}"
    ]
    for row in sorted(rows, key=lambda row: row["clients"]):
        lines.append(
            f"{row['clients']:7}  {row['peer']:24} {row['calls_per_s']:8.1f} {row['p50_ms']:8.1f} {row['p99_ms']:8.1f}"
            f" {row['in_time']:8.1%} {row['poorest_client']:8.2f}"
        )
    return "\n".join(lines)


def plot(rows: Sequence[Row], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(13, 3.6), layout="constrained")
    keys = {
        "calls_per_s": "answers per second",
        "p99_ms": "p99, ms",
        "in_time": f"share within {SLO_MS:g} ms",
    }
    for axis, (key, label) in zip(axes, keys.items(), strict=True):
        for peer in dict.fromkeys(row["peer"] for row in rows):
            mine = [row for row in rows if row["peer"] == peer]
            style = "-o" if peer in OURS else "--s"
            axis.plot([row["clients"] for row in mine], [row[key] for row in mine], style, ms=4, label=peer)
        axis.set_xscale("log", base=2)
        axis.set_xticks(SIZES, [str(size) for size in SIZES])
        axis.set_xlabel("clients")
        axis.set_title(label)
    axes[1].set_yscale("log")
    axes[0].legend(fontsize=7)
    figure.savefig(path, dpi=110)


def peers(stack: ExitStack, inferential: str, clients: int) -> dict[str, Peer]:
    """Every server, running, and the crowds of their clients."""

    def module(name: str) -> list[str]:
        return ["-m", f"benchmarks.frontends.peers.{name}"]

    ports = free_ports(6)
    openpi, gr00t, ours, through_openpi, through_gr00t, other = (f"tcp://127.0.0.1:{port}" for port in ports)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    told = factory(folder, *ports[2:5])
    stack.enter_context(
        serving(
            [sys.executable, "-m", "rosa_server.cli", "serve", str(told)],
            [ours, through_openpi, through_gr00t],
        )
    )
    stack.enter_context(serving([sys.executable, *module("openpi"), openpi], [openpi]))
    stack.enter_context(serving([sys.executable, *module("gr00t"), gr00t], [gr00t]))
    crowd = Crowd(sys.executable, clients)
    stack.callback(crowd.close)
    found = {
        OPENPI: Peer("openpi", openpi, crowd),
        THROUGH_OPENPI: Peer("openpi", through_openpi, crowd),
        NATIVE: Peer("rosa", ours, crowd),
        GR00T: Peer("gr00t", gr00t, crowd),
        THROUGH_GR00T: Peer("gr00t", through_gr00t, crowd),
    }
    if not Path(inferential).exists():
        print(f"{INFERENTIAL} is left out: there is no {inferential}", file=sys.stderr)
        return found
    stack.enter_context(serving([inferential, *module("inferential_zmq"), other], [other]))
    theirs = Crowd(inferential, clients)
    stack.callback(theirs.close)
    return {**found, INFERENTIAL: Peer("inferential_zmq", other, theirs)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="of each peer with each number of clients and round"
    )
    parser.add_argument(
        "--clients",
        type=int,
        nargs="+",
        default=list(SIZES),
        help="others than those of the result are only printed",
    )
    parser.add_argument(
        "--inferential", default=str(ROOT / ".venv-inferential" / "bin" / "python"), help="Python that has it"
    )
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    with ExitStack() as stack:
        served = peers(stack, arguments.inferential, max(arguments.clients))
        found = measure(served, arguments.clients, arguments.rounds, arguments.seconds)
    rows = [row_of(peer, clients, told, arguments.seconds) for (peer, clients), told in found.items()]
    print(table(rows))
    if tuple(arguments.clients) != SIZES:
        return 0
    aims = aims_of(rows)
    print_aims(aims)
    own = (
        "openpi's server is its own file"
        if os.environ.get(OWN_FILE)
        else "openpi's server is one of its design"
    )
    notes = [
        f"{own}; GR00T's is one of its design, in N1.7's dialect. ROSA's frontends and Python client share one worker.",
        "inferential is used as in its README: a local dispatcher, which runs one observation at a time.",
        f"Refused by ROSA: what it could not answer in {SLO_MS:g} ms. `poorest_client`: its answers over the mean's.",
    ]
    options = f"--rounds {arguments.rounds} --seconds {arguments.seconds:g}"
    write(
        RESULTS / "frontends.json",
        rows,
        aims,
        notes,
        options,
        how=f", load {load:.1f} before the run; real time",
    )
    plot(rows, RESULTS / "frontends.png")
    return 0 if all(aim["holds"] for aim in aims) else 1


if __name__ == "__main__":
    sys.exit(main())
