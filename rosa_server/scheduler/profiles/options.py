"""The options of the scheduler; a schedule's file records those that are not the defaults."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any


@dataclass(frozen=True)
class Options:
    """The choices that a solver leaves open. `Options.paper()` is the published scheduler; the defaults add ours."""

    slo_statistic: str = "p99"  # which percentile must stay within slo_ms
    any_arrivals: bool = (
        True  # SLOs hold whenever calls come; else as the server's phases and permits let them come
    )
    admission: bool = (
        False  # robots beyond the planned ones have to be admitted, where a schedule allows that
    )
    loop_statistic: str = "mean"  # latency in equation (4); "p99" is 4.2's "P99-safe prediction"
    dynamic_batching: bool = False  # also use servers that run what waits, up to b
    batch_sizes: tuple[int, ...] = ()  # only these static batches; none = all profiled
    share_components: bool = False  # components of one model may share a server
    share_gpus: bool = False  # models may take turns on one GPU
    packing: str = "level"  # "isolated": ROSA 3.4.3's isolated packing and compaction; "level": ours
    search: str = (
        "relaxation"  # "frontier": ROSA 3.4.3's search; "relaxation": ours, from a linear program's optimum
    )
    fair_share: float = 0.5  # a class without min_action_rate_hz gets at least this part of the common rate
    network_ms: float = 0.0  # to the server and back: taken from every SLO and added to every round
    tolerance: float = (
        0.005  # of the objective: smaller gains are not searched for, and balanced rates may cost this
    )
    time_budget_s: float = 20.0  # for the search, where the caller gives a clock
    standby: int = 0  # servers kept as hot standby

    @classmethod
    def paper(cls, **changes: Any) -> Options:
        """The scheduler as the paper describes it."""
        return replace(cls(packing="isolated", search="frontier", fair_share=0.0), **changes)

    def changes(self) -> dict[str, Any]:
        """What differs from the default, as plain values for a schedule's file."""
        usual = Options()
        differing = {f.name: getattr(self, f.name) for f in fields(self)}
        plain = {name: list(v) if isinstance(v, tuple) else v for name, v in differing.items()}
        return {name: value for name, value in plain.items() if differing[name] != getattr(usual, name)}
