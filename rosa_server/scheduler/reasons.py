"""Why a factory cannot be served, in words with the numbers that bind."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from rosa_server.scheduler.catalog import Catalog, Load
from rosa_server.scheduler.packing import Kind, Packer
from rosa_server.scheduler.placement import demands_of, fastest_rate_hz, kinds_of
from rosa_server.scheduler.problem import Problem


def refusal(catalog: Catalog, problem: Problem, servers: int) -> tuple[str, ...]:
    """Reasons why `problem` does not fit on `servers` active servers at its minimum rates."""
    rates = {cls.name: cls.min_rate_hz for cls in problem.classes}
    reasons = [*impossible(catalog, problem)]
    if reasons:
        return tuple(reasons)
    lines, total = [], 0.0
    for kind in kinds_of(problem, catalog.options.share_components):
        packer = Packer(catalog, kind, demands_of(problem, kind, rates))
        fewest = packer.fewest()
        total += fewest
        lines.append(need_line(catalog, problem, kind, packer, fewest))
    if total > servers:
        reasons.append(f"{int(total)} servers are needed, {servers} are there: " + "; ".join(lines))
    else:
        reasons.append(
            f"minimum action rates ({_rates(rates)}) are not reached within equation (4) on {servers} servers: waiting"
            f" makes rounds too long; lower min_action_rate_hz or add servers ({'; '.join(lines)})"
        )
    return tuple(reasons)


def impossible(catalog: Catalog, problem: Problem) -> list[str]:
    """What no number of servers would repair."""
    found = []
    hardware = problem.gpu_type
    for cls in problem.classes:
        for need in cls.needs:
            choices = catalog.configurations(need.model, need.component)
            rate = need.rate_hz(cls.min_rate_hz)
            capacity = catalog.capacity_hz(need.model, need.component, need.slo_ms)
            statistic = catalog.options.slo_statistic
            best = (
                min((c.latency_ms(statistic, 0.0) for c in choices), default=inf) + catalog.options.network_ms
            )
            if capacity <= 0:
                found.append(
                    f"{cls.name}.{need.component}: slo_ms {need.slo_ms:g} cannot be kept: {need.model} on {hardware}"
                    f" answers at {statistic} {best:.0f} ms even under the lightest profiled load"
                )
            elif rate > capacity * (1 + 1e-9):
                found.append(
                    f"{cls.name}.{need.component}: one robot asks {rate:g} req/s at {statistic} {need.slo_ms:g} ms, one"
                    f" {hardware} serves {capacity:.3g}"
                )
        fastest = fastest_rate_hz(catalog, cls)
        if cls.min_rate_hz > fastest:
            found.append(
                f"{cls.name}: min_action_rate_hz {cls.min_rate_hz:g} cannot be reached: a round of"
                f" {cls.action_s * 1000:g} ms action and {1000 / fastest - cls.action_s * 1000:.0f} ms inference allows"
                f" {fastest:.2f} Hz"
            )
    return found


def need_line(catalog: Catalog, problem: Problem, kind: Kind, packer: Packer, fewest: float) -> str:
    """`safety needs 2 servers at 64 robots: 128 req/s at p99 500 ms, one NVIDIA H200 serves 92`."""
    demands: list[Load] = packer.demands
    robots = sum(d.streams for d in demands) if len(kind.components) == 1 else problem.robots
    rate = sum(d.streams * d.rate_hz for d in demands)
    slo = min(d.slo_ms for d in demands)
    serves = min(catalog.capacity_hz(kind.model, d.component, d.slo_ms) for d in demands)
    plural = "" if fewest == 1 else "s"
    return (
        f"{'+'.join(kind.components)} needs {int(fewest)} server{plural} at {robots} robots: {rate:.4g} req/s at"
        f" {catalog.options.slo_statistic} {slo:g} ms, one {problem.gpu_type} serves {serves:.3g}"
    )


def _rates(rates: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {rate:g} Hz" for name, rate in rates.items())
