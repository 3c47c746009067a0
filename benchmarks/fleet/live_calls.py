"""Fleets over real sockets against their simulation, call by call: does a schedule do live what was simulated?

    python -m benchmarks.fleet.live_calls [--fleets p4/64,p4/96,mix4/64,lab/4] [--seconds 30]

Each row is one fleet played twice from the same start: once under the simulated clock, once with a gateway process,
emulated workers and ZeroMQ. The k-th call of each component of each robot is compared with the k-th one: how it ended,
how long it took, and how many calls its batch held. Which robots meet in a batch hangs on milliseconds, so the order of
a long run is compared as distributions; `same_batches` says for how many batches, and until when, even that is equal.
`wait_ms` is what a robot waits between the end of its action and its next System 1 call, mostly for a permit.
Writes benchmarks/results/live_calls.json and a plot. Let nothing else run.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise, takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import RESULTS
from benchmarks.conclude import conclude
from benchmarks.provenance import commit
from rosa_contract.config.tasks import SYSTEM1
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_sim.fleet.execute import execute, joinings
from rosa_sim.fleet.live import run_live
from rosa_sim.fleet.record import CallRecord
from rosa_sim.fleet.scenario import STARTS, load_scenario
from rosa_sim.fleet.simulation import tasks_of
from rosa_sim.fleet.systems import ROSA, fleet_of, system_of, without_limits

RESULT = RESULTS / "live_calls.json"
FLEETS = "p4/64,p4/96,mix4/64,lab/4"  # lab: four models take turns on one GPU
SEED = 0
SAME_ENDING, NEAR, BATCHES_APART, LATENCY_NEAR = 0.99, 0.03, 0.05, 0.05
Row = dict[str, Any]
Latencies = NDArray[np.float64]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fleets", default=FLEETS, help="scenario/robots, separated by commas")
    parser.add_argument("--seconds", type=float, default=30.0, help="after 10 s of warm-up")
    arguments = parser.parse_args()
    logging.getLogger("rosa.link").setLevel(logging.ERROR)
    rows: list[Row] = []
    shown: dict[str, tuple[RunCalls, RunCalls]] = {}
    fleets = [fleet.partition("/") for fleet in arguments.fleets.split(",")]
    for name, _, robots in fleets:
        if not robots.isdecimal():
            parser.error(f"--fleets: expected scenario/robots, such as p4/64, got {name}/{robots}")
    for name, _, robots in fleets:
        for start in STARTS:
            row, simulated, live = played(name, int(robots), start, arguments.seconds)
            rows.append(row)
            shown[f"{name}/{robots}, {start}"] = simulated, live
    note = (
        f"{arguments.seconds:g} s after 10 s of warm-up, seed {SEED}, at {commit()}."
        f" Load at the end {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores,"
        " which robots, gateway and emulated workers share."
    )
    conclude(RESULT, rows, aims_of(rows), note)
    plot(shown)
    return 0


def played(name: str, robots: int, start: str, seconds: float) -> tuple[Row, RunCalls, RunCalls]:
    """One fleet, simulated and live."""
    loaded = load_scenario(name).changed(seconds=seconds)
    scenario = loaded.scenario
    factory = without_limits(fleet_of(loaded.factory, robots))
    system = system_of(ROSA, factory, ProfileLibrary(), scenario.service_variation)
    tasks = tasks_of(factory, joinings(factory, system, start, SEED))
    ends_s = scenario.warm_up_s + seconds
    simulated, live = CallRecord(tasks, scenario.warm_up_s, ends_s), CallRecord(tasks)

    def say(text: str) -> None:
        print(f"\r{text}", end="", file=sys.stderr, flush=True)

    for record, outcome in (
        (simulated, execute(scenario, factory, system, start, SEED, watch=simulated.watch, meter=simulated)),
        (live, run_live(scenario, factory, system, start, SEED, say, live)),
    ):
        if outcome.served != robots:
            kind = "live" if record is live else "simulated"
            raise SystemExit(f"{outcome.served} of {robots} robots were served ({kind}), expected all")
    print(file=sys.stderr)
    action_s = {robot: task.pipeline.action_s for robot, task in tasks.items()}
    ours, theirs = (RunCalls(record, action_s, scenario.warm_up_s, ends_s) for record in (simulated, live))
    return {"scenario": name, "robots": robots, "start": start, **compared(ours, theirs)}, ours, theirs


class RunCalls:
    """The calls of one run by robot and component, those that ended after the warm-up."""

    def __init__(self, record: CallRecord, action_s: Mapping[str, float], from_s: float, to_s: float) -> None:
        """`action_s`: robot -> how long its actions take. Times are in s since the start of the run."""
        self.record = record
        sent_s = {(robot, number): at_s for at_s, robot, _, number in record.sends}
        size = {call: len(calls) for _, _, calls in record.batches for call in calls}
        ends = [end for end in record.ends if from_s <= end[0] < to_s]
        self.endings: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        self.latency_ms: defaultdict[str, list[float]] = defaultdict(list)
        self.sizes: defaultdict[str, Counter[int]] = defaultdict(Counter)
        rounds: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)  # sent, answered
        for at_s, robot, component, number, ending in ends:
            self.endings[robot, component].append(ending)
            if ending == "cancelled":
                continue
            self.latency_ms[component].append((at_s - sent_s[robot, number]) * 1000)
            if (robot, number) in size:
                self.sizes[component][size[robot, number]] += 1
            if component == SYSTEM1:
                rounds[robot].append((sent_s[robot, number], at_s))
        self.seconds = to_s - from_s
        self.wait_ms = [
            (later[0] - earlier[1] - action_s[robot]) * 1000
            for robot, each in rounds.items()
            for earlier, later in pairwise(each)
        ]

    @property
    def actions_hz(self) -> float:
        endings = [self.endings[key] for key in self.endings if key[1] == SYSTEM1]
        return sum(each.count("in_time") for each in endings) / self.seconds


def compared(simulated: RunCalls, live: RunCalls) -> Row:
    """The figures of a row, of both runs where there are two. `pairs`: calls that both runs have."""
    components = sorted({component for _, component in simulated.endings})
    same = total = 0
    for key, endings in simulated.endings.items():
        pairs = list(zip(endings, live.endings[key], strict=False))
        total += len(pairs)
        same += sum(one == other for one, other in pairs)
    counts = {
        component: (_count(simulated.endings, component), _count(live.endings, component))
        for component in components
    }
    by_robot = [
        len(live.endings[key]) / max(1, len(endings))
        for key, endings in simulated.endings.items()
        if key[1] == SYSTEM1
    ]
    alike, until_s = _same_batches(simulated.record, live.record)
    return {
        "simulated_hz": round(simulated.actions_hz, 2),
        "live_hz": round(live.actions_hz, 2),
        "calls": {component: list(pair) for component, pair in counts.items()},
        "pairs": total,
        "same_ending": round(same / max(1, total), 4),
        "slowest_robot": round(min(by_robot), 3),
        "fastest_robot": round(max(by_robot), 3),
        "p50_ms": {c: _pair(simulated.latency_ms[c], live.latency_ms[c], 50) for c in components},
        "p99_ms": {c: _pair(simulated.latency_ms[c], live.latency_ms[c], 99) for c in components},
        "latencies_apart": {
            c: round(apart(simulated.latency_ms[c], live.latency_ms[c]), 3) for c in components
        },
        "mean_ms": {
            c: [round(float(np.mean(calls.latency_ms[c])), 1) for calls in (simulated, live)]
            for c in components
        },
        "wait_ms": [round(float(np.mean(calls.wait_ms)), 1) for calls in (simulated, live)],
        "batches": {c: _shares(simulated.sizes[c], live.sizes[c]) for c in components},
        "batches_apart": {c: round(_variation(simulated.sizes[c], live.sizes[c]), 3) for c in components},
        "same_batches": alike,
        "same_until_s": round(until_s, 2),
    }


def _count(endings: Mapping[tuple[str, str], Sequence[str]], component: str) -> int:
    return sum(len(each) for key, each in endings.items() if key[1] == component)


def _pair(simulated: Sequence[float], live: Sequence[float], percent: float) -> list[float]:
    return [round(float(np.percentile(each, percent)), 1) for each in (simulated, live)]


def apart(simulated: Sequence[float], live: Sequence[float]) -> float:
    """The greatest distance of two distributions (Kolmogorov and Smirnov): 0 where equal, 1 where disjoint."""
    one, other = np.sort(simulated), np.sort(live)
    at = np.concatenate([one, other])
    shares = [np.searchsorted(each, at, side="right") / len(each) for each in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


def _shares(simulated: Counter[int], live: Counter[int]) -> dict[str, list[float]]:
    sizes = sorted({*simulated, *live})
    return {
        str(size): [round(counts[size] / counts.total(), 3) for counts in (simulated, live)] for size in sizes
    }


def _variation(simulated: Counter[int], live: Counter[int]) -> float:
    """Which share of calls would have to be in a batch of another size."""
    return sum(max(0.0, one - other) for one, other in _shares(simulated, live).values())


def _same_batches(simulated: CallRecord, live: CallRecord) -> tuple[int, float]:
    """How many first batches of all replicas hold the same calls, and when the first one of another kind begins."""
    alike, until_s = 0, float("inf")
    for replica, theirs in groupby(sorted(live.batches, key=lambda batch: batch[1]), lambda batch: batch[1]):
        ours = [batch for batch in simulated.batches if batch[1] == replica]
        pairs = zip(ours, theirs, strict=False)
        first = list(takewhile(lambda pair: set(pair[0][2]) == set(pair[1][2]), pairs))
        alike += len(first)
        if len(first) < len(ours):
            until_s = min(until_s, ours[len(first)][0])
    return alike, until_s


def aims_of(rows: Sequence[Row]) -> list[Row]:
    """What is wanted, and what came of it."""

    def each(row: Row, key: str) -> float:
        return float(max(row[key].values()))

    near = [row["live_hz"] / row["simulated_hz"] - 1 for row in rows]
    ending = min(row["same_ending"] for row in rows)
    batches = max(each(row, "batches_apart") for row in rows)
    latencies = [
        (live / simulated - 1, f"{component}'s {key[:3]} in {row['scenario']}/{row['robots']}")
        for row in rows
        for key in ("p50_ms", "p99_ms")
        for component, (simulated, live) in row[key].items()
    ]
    farthest = max(latencies, key=lambda one: abs(one[0]))
    return [
        {
            "aim": f"as many actions live as simulated, within {NEAR:.0%}",
            "value": f"{min(near):+.1%} to {max(near):+.1%}",
            "holds": max(map(abs, near)) <= NEAR,
        },
        {
            "aim": f"the k-th call of a robot ends alike in {SAME_ENDING:.0%}",
            "value": f"{ending:.2%} of calls at least",
            "holds": ending >= SAME_ENDING,
        },
        {
            "aim": f"calls in batches of another size: at most {BATCHES_APART:.0%}, every component",
            "value": f"at most {batches:.1%}",
            "holds": batches <= BATCHES_APART,
        },
        {
            "aim": f"p50 and p99 of latency as simulated, within {LATENCY_NEAR:.0%}, every component",
            "value": f"{farthest[0]:+.1%} at most: {farthest[1]}",
            "holds": abs(farthest[0]) <= LATENCY_NEAR,
        },
    ]


def plot(shown: Mapping[str, tuple[RunCalls, RunCalls]]) -> None:
    """Latency of each component as distributions: simulated and live on each other."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    components = sorted({c for pair in shown.values() for c in pair[0].latency_ms})
    figure, axes = plt.subplots(
        len(shown), len(components), figsize=(3.2 * len(components), 2.2 * len(shown)), squeeze=False
    )
    for row, (name, pair) in zip(axes, shown.items(), strict=True):
        for axis, component in zip(row, components, strict=True):
            if component not in pair[0].latency_ms:
                axis.axis("off")
                continue
            for calls, label in zip(pair, ("simulated", "live"), strict=True):
                values: Latencies = np.sort(calls.latency_ms[component])
                axis.plot(values, np.linspace(0, 1, len(values)), label=label, linewidth=1)
            axis.set_title(f"{component}, {name}", fontsize=8)
            axis.tick_params(labelsize=7)
        row[0].set_ylabel("share of calls", fontsize=8)
    for axis in axes[-1]:
        axis.set_xlabel("latency (ms)", fontsize=8)
    axes[0][0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(RESULT.with_suffix(".png"), dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    raise SystemExit(main())
