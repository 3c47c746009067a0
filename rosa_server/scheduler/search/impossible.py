"""Refusals that more servers would not cure. refusal.py has those that they would."""

from __future__ import annotations

from math import ceil

from rosa_server.scheduler.placement.schedule import Refusal
from rosa_server.scheduler.placement.servers import fastest_rate_hz
from rosa_server.scheduler.problem import Need, Problem, TaskClass
from rosa_server.scheduler.profiles.catalog import Catalog


def impossible(catalog: Catalog, problem: Problem) -> list[Refusal]:
    """SLOs and rates that a robot would not get on servers of its own either."""
    found = []
    for cls in problem.classes:
        refusals = [_need(catalog, problem.gpu_type, cls, need) for need in cls.needs]
        found += [refusal for refusal in refusals if refusal is not None]
        fastest = fastest_rate_hz(catalog, cls)
        if cls.min_rate_hz > fastest:
            waiting_ms = 1000 / fastest - cls.action_s * 1000
            words = (
                f"{cls.name}: min_action_rate_hz {cls.min_rate_hz:g} cannot be reached with any number of servers: a"
                f" round takes {cls.action_s * 1000:g} ms of action and at least {waiting_ms:.0f} ms of inference,"
                f" which allows {floored(fastest)} Hz; lower it, or take faster models or GPUs"
            )
            found.append(Refusal("rate_unreachable", words))
    return found


def _need(catalog: Catalog, gpu_type: str, cls: TaskClass, need: Need) -> Refusal | None:
    name, statistic = f"{cls.name}.{need.component}", catalog.options.slo_statistic
    capacity = catalog.capacity_hz(need.model, need.component, need.slo_ms)
    rate = need.rate_hz(cls.min_rate_hz)
    if capacity <= 0:
        choices = catalog.configurations(need.model, need.component)
        if not choices:
            words = (
                f"{name}: no configuration in the profile of {need.model} on {gpu_type} may be used; profile it in"
                " batches of fixed sizes, or allow others with --dynamic-batching"
            )
            return Refusal("no_batching", words)
        best = min(c.latency_ms(statistic, 0.0) for c in choices) + catalog.options.network_ms
        words = (
            f"{name}: slo_ms {need.slo_ms:g} cannot be met: the {statistic} of {need.model} on {gpu_type} is"
            f" {best:.0f} ms even under the lightest profiled load; allow more than {ceil(best)} ms, or take a faster"
            " model or GPU"
        )
        return Refusal("slo_unreachable", words)
    if rate > capacity * (1 + 1e-9):
        what = "min_action_rate_hz" if need.is_goal else "freq_hz"
        limit = capacity / need.calls_per_action if need.is_goal else capacity
        words = (
            f"{name}: one robot asks for {rate:.4g} req/s within {statistic} {need.slo_ms:g} ms, and one {gpu_type}"
            f" serves {floored(capacity)}; lower {what} to {floored(limit)}, or raise slo_ms"
        )
        return Refusal("robot_exceeds_server", words)
    return None


def floored(value: float) -> str:
    """Two decimals, rounded down: the number is meant to be put into a factory file, where it must hold."""
    return f"{int(value * 100) / 100:g}"
