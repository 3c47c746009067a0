"""What no number of servers would repair, in words with the numbers that bind. refusal.py says the rest."""

from __future__ import annotations

from math import ceil, inf

from rosa_server.scheduler.placement.placement import fastest_rate_hz
from rosa_server.scheduler.problem import Need, Problem, TaskClass
from rosa_server.scheduler.profiles.catalog import Catalog


def impossible(catalog: Catalog, problem: Problem) -> list[str]:
    """SLOs and rates that a robot with servers of its own would not have either."""
    found = []
    for cls in problem.classes:
        reasons = [_need(catalog, problem.gpu_type, cls, need) for need in cls.needs]
        found += [reason for reason in reasons if reason]
        fastest = fastest_rate_hz(catalog, cls)
        if cls.min_rate_hz > fastest:
            waiting_ms = 1000 / fastest - cls.action_s * 1000
            found.append(
                f"{cls.name}: min_action_rate_hz {cls.min_rate_hz:g} cannot be reached by any number of servers: a"
                f" round takes {cls.action_s * 1000:g} ms of action and at least {waiting_ms:.0f} ms of inference,"
                f" which allows {floored(fastest)} Hz; lower it, or take faster models or GPUs"
            )
    return found


def _need(catalog: Catalog, gpu_type: str, cls: TaskClass, need: Need) -> str:
    name, statistic = f"{cls.name}.{need.component}", catalog.options.slo_statistic
    capacity = catalog.capacity_hz(need.model, need.component, need.slo_ms)
    rate = need.rate_hz(cls.min_rate_hz)
    if capacity <= 0:
        choices = catalog.configurations(need.model, need.component)
        best = min((c.latency_ms(statistic, 0.0) for c in choices), default=inf) + catalog.options.network_ms
        return (
            f"{name}: slo_ms {need.slo_ms:g} cannot be kept: {need.model} on {gpu_type} answers at {statistic}"
            f" {best:.0f} ms even under the lightest profiled load; allow more than {ceil(best)} ms, or take a faster"
            " model or GPU"
        )
    if rate > capacity * (1 + 1e-9):
        what = "min_action_rate_hz" if need.is_goal else "freq_hz"
        most = capacity / need.calls_per_action if need.is_goal else capacity
        return (
            f"{name}: one robot asks {rate:.4g} req/s within {statistic} {need.slo_ms:g} ms, and one {gpu_type} serves"
            f" {floored(capacity)}; lower {what} to {floored(most)}, or raise slo_ms"
        )
    return ""


def floored(value: float) -> str:
    """Two decimals, never more than `value`: a number to put into a file must hold there."""
    return f"{int(value * 100) / 100:g}"
