"""Every claim of the ROSA paper's evaluation beside what the fleet simulator and our scheduler say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.paper.executed import EVERYWHERE, PARTITIONS, SIZES, WORKLOADS
from benchmarks.paper.published import FIGURE_11, LIBRARY, TABLE_3, WITHIN, Row, allocation, workload
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.search.solve import solve
from rosa_sim.fleet.systems import BASELINES, PUBLISHED, READINGS, ROSA

Point = tuple[str, str, int]  # workload, system, robots
Points = Mapping[Point, Row]
SHARED = ("equal_partition", "weighted_partition")
# Points at which robots that wait for late answers, as the paper's do, make another picture.
WAITED: tuple[Point, ...] = (
    *((name, system, 32) for name in ("p3", "p4") for system in SHARED),
    ("p4", f"{PUBLISHED}, uncapped", 64),
)
NOTHING = 0.02  # of the raw actions: a collapse leaves no more than this share qualified
NOISE = 0.03
RATES = {("p4", 8): 23.9, ("p4", 32): 89.4, ("p4", 64): 78.8, ("p2", 32): 106.9, ("p3", 32): 106.9}


def claims_of(points: Points, waited: Points, figure_11: Sequence[Row]) -> list[Row]:
    """One row per claim: `claim`, `published`, `section`, `as published`, `today`, `holds`, `remark`.

    `holds` is about ROSA as published. A gain holds when it is at least the published one less `WITHIN`.
    """
    hz = _Rates(points)
    return [
        _gain("P4: best rate over one GPU per model, up to", 12.06, "4.2", hz.over_gpu_per_model),
        _one_gpu_per_robot(hz),
        _shared_gain(hz),
        _mix_gain(hz, "mix2", 2.21),
        _mix_gain(hz, "mix4", 2.30),
        _gain("P2, 32 robots: over the best shared system", 1.23, "4.2", hz.over_shared_on_p2),
        _gain("P4, 8 robots: equal partition over ROSA, which is capped", 29.5 / 23.9, "4.2", hz.equal_at_8),
        *(_collapse(points, waited, name, system) for name in ("p3", "p4") for system in SHARED),
        _gain("P4, 32 robots: uncapped over capped", 107.3 / 89.4, "4.3", hz.uncapped_at_32),
        _capped_at_64(hz, waited),
        *(_servers(figure_11, baseline, highest) for baseline, highest in FIGURE_11.items()),
        _static_gain(hz, 16, 1.26),
        _static_gain(hz, 32, 2.20),
        _table_3(),
        *(_rate(hz, name, robots, published) for (name, robots), published in RATES.items()),
    ]


class _Rates:
    """Qualified actions/s."""

    def __init__(self, points: Points) -> None:
        self._points = points

    def __call__(self, name: str, system: str, robots: int) -> float:
        return float(str(self._points[name, system, robots]["qualified_hz"]))

    def best(self, name: str, system: str) -> float:
        return max(self(name, system, robots) for robots in SIZES)

    def best_of(self, name: str, systems: Sequence[str]) -> float:
        return max(self.best(name, system) for system in systems)

    def over_gpu_per_model(self, ours: str) -> float:
        return self.best("p4", ours) / self.best("p4", "gpu_per_model")

    def over_shared_on_p2(self, ours: str) -> float:
        return self("p2", ours, 32) / max(self("p2", system, 32) for system in SHARED)

    def equal_at_8(self, ours: str) -> float:
        return self("p4", "equal_partition", 8) / self("p4", ours, 8)

    def uncapped_at_32(self, ours: str) -> float:
        return self("p4", f"{ours}, uncapped", 32) / self("p4", ours, 32)


def _row(claim: str, published: str, section: str, ours: str, today: str, holds: bool, remark: str) -> Row:
    return {
        "claim": claim,
        "published": published,
        "section": section,
        "as published": ours,
        "today": today,
        "holds": "yes" if holds else "**no**",
        "remark": remark,
    }


def _gain(claim: str, published: float, section: str, gain: Callable[[str], float], remark: str = "") -> Row:
    ours, today = gain(PUBLISHED), gain(ROSA)
    holds = ours >= published * (1 - WITHIN)
    return _row(claim, f"{published:.2f}x", section, f"{ours:.2f}x", f"{today:.2f}x", holds, remark)


def _figure(claim: str, published: float, section: str, ours: float, holds: bool, remark: str) -> Row:
    return _row(claim, f"{published:g}", section, f"{ours:.3g}", "-", holds, remark)


def _one_gpu_per_robot(hz: _Rates) -> Row:
    ours = hz.best("p4", "gpu_per_robot")
    remark = (
        "System 1 and System 2 of one robot never run at once, so its GPU is fast enough; ROSA's best rate is"
        f" {hz.best('p4', PUBLISHED) / max(ours, 1e-9):.2f}x of it, today"
        f" {hz.best('p4', ROSA) / max(ours, 1e-9):.2f}x"
    )
    claim = "P4: one GPU per robot has no qualified point, actions/s"
    return _figure(claim, 0.0, "4.2", ours, ours == 0.0, remark)


def _mix_gain(hz: _Rates, name: str, published: float) -> Row:
    def gain(ours: str) -> float:
        return hz.best(name, ours) / hz.best_of(name, SHARED)

    return _gain(f"{name.capitalize()}: best rate over the best shared system", published, "4.2", gain)


def _static_gain(hz: _Rates, robots: int, published: float) -> Row:
    def gain(ours: str) -> float:
        return hz("p4", ours, robots) / max(hz("p4", static, robots) for static in PARTITIONS)

    return _gain(f"P4, {robots} robots: allocation over the best static one", published, "4.3", gain)


def _shared_gain(hz: _Rates) -> Row:
    def highest(ours: str) -> tuple[float, str]:
        return max((hz.best(name, ours) / hz.best_of(name, SHARED), name.upper()) for name in WORKLOADS)

    remark = f"most at {highest(PUBLISHED)[1]}, today at {highest(ROSA)[1]}"
    claim = "best rate over the best shared system, up to"
    return _gain(claim, 2.44, "1, 4.2", lambda ours: highest(ours)[0], remark)


def _collapse(points: Points, waited: Points, name: str, system: str) -> Row:
    point = (name, system, 32)
    ours, late = points[point], waited[point]
    qualified, raw = float(str(ours["qualified_hz"])), float(str(ours["raw_hz"]))
    remark = (
        f"the gateway answers expired calls unserved, so {_system1(ours):.0%} of System 1's calls are in time; robots"
        f" that wait for late answers: {late['qualified_hz']:g} of {late['raw_hz']:.1f} actions/s, System 1 in time in"
        f" {_system1(late):.0%}, median {_median(late):.0f} ms"
    )
    if (name, system) == ("p4", "equal_partition"):
        remark += " (published: 534.5)"
    claim = f"{name.upper()}, 32 robots: {system} has no qualified actions, actions/s"
    return _figure(claim, 0.0, "4.2", qualified, qualified <= NOTHING * raw, remark)


def _capped_at_64(hz: _Rates, waited: Points) -> Row:
    late = waited["p4", f"{PUBLISHED}, uncapped", 64]
    remark = (
        "published: 24.8 of 145.5 uncapped, System 1 in time in 17 %; here"
        f" {hz('p4', f'{PUBLISHED}, uncapped', 64):.1f} of robots that give up late calls,"
        f" {late['qualified_hz']:.1f} of {late['raw_hz']:.1f} and {_system1(late):.0%} of robots that wait for them:"
        f" the profiles leave more room below System 1's SLO than the paper's GPUs did"
    )
    claim = "P4, 64 robots: capped over uncapped"
    return _gain(
        claim, 3.18, "4.3", lambda ours: hz("p4", ours, 64) / hz("p4", f"{ours}, uncapped", 64), remark
    )


def _servers(figure_11: Sequence[Row], baseline: str, highest: float) -> Row:
    times = max(float(str(row[f"{baseline}, times ROSA's"])) for row in figure_11)
    holds = abs(times / highest - 1) <= WITHIN
    claim = f"GPUs of a rate-controlled {baseline} over ROSA's, up to"
    remark = "of the scheduler, as in the paper (Figure 11)"
    return _row(claim, f"{highest:.2f}x", "4.3", f"{times:.2f}x", "-", holds, remark)


def _table_3() -> Row:
    same = sum(
        allocation(solve(workload("p4", robots), LIBRARY, Options.paper())) == shares
        for robots, shares in TABLE_3.items()
    )
    claim = f"Table 3: servers of P4 at {', '.join(map(str, TABLE_3))} robots"
    ours = f"{same} of {len(TABLE_3)}"
    return _row(claim, f"{len(TABLE_3)} allocations", "4.3", ours, "-", same == len(TABLE_3), "")


def _rate(hz: _Rates, name: str, robots: int, published: float) -> Row:
    ours, today = hz(name, PUBLISHED, robots), hz(name, ROSA, robots)
    claim = f"{name.upper()}, {robots} robots: qualified actions/s, within {WITHIN:.0%}"
    holds = abs(ours / published - 1) <= WITHIN
    return _row(
        claim, f"{published:g}", "4.3" if robots == 64 else "4.2", f"{ours:.1f}", f"{today:.1f}", holds, ""
    )


def aims_of(claims: Sequence[Row], points: Points) -> list[Row]:
    """How many claims hold, and where today's ROSA is behind anything else that was executed."""
    holding = sum(row["holds"] == "yes" for row in claims)
    return [
        {
            "aim": "the paper's claims hold for ROSA as published",
            "value": f"{holding} of {len(claims)}",
            "holds": holding == len(claims),
        },
        _not_behind(points, "ROSA as published, either reading", tuple(READINGS)),
        _not_behind(points, "the best of the paper's baselines", BASELINES),
    ]


def _not_behind(points: Points, whom: str, systems: Sequence[str]) -> Row:
    hz = _Rates(points)
    over = {}
    for name in WORKLOADS:
        for robots in SIZES:
            other = max(hz(name, system, robots) for system in systems)
            over[f"{name.upper()} with {robots} robots"] = hz(name, ROSA, robots) / other if other else 1.0
    lowest, highest = min(over, key=lambda where: over[where]), max(over, key=lambda where: over[where])
    level = sum(ratio >= 1 - NOISE for ratio in over.values())
    value = f"{level} of {len(over)}; least {over[lowest]:.2f}x at {lowest}, most {over[highest]:.2f}x at {highest}"
    return {
        "aim": f"today's ROSA acts at least as often as {whom}, less {NOISE:.0%}",
        "value": value,
        "holds": level == len(over),
    }


def throughput_rows(points: Points) -> list[Row]:
    """Qualified actions/s of every system (Figures 6 to 8), then those that ran on P4 alone (Figures 10 and 12)."""
    rows: list[Row] = []
    for name in WORKLOADS:
        for robots in SIZES:
            row: Row = {"Figures 6 to 8, qualified actions/s": name.upper(), "robots": robots}
            row |= {system: points[name, system, robots]["qualified_hz"] for system in EVERYWHERE}
            rows.append(row | {"limit": points[name, ROSA, robots]["limit_hz"]})
    extra = list(dict.fromkeys(system for _, system, _ in points if system not in EVERYWHERE))
    for robots in SIZES:
        row = {"Figures 10 and 12, qualified actions/s": "P4", "robots": robots}
        rows.append(row | {system: points["p4", system, robots]["qualified_hz"] for system in extra})
    return rows


def _system1(row: Row) -> float:
    meet = row["meet"]
    assert isinstance(meet, dict)
    return float(meet.get("system1", 0.0))


def _median(row: Row) -> float:
    medians = row["p50_ms"]
    assert isinstance(medians, dict)
    return float(medians["system1"])
