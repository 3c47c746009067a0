"""The predicted outcome of a schedule that the server's policies carry out: as text, and as plain values for JSON."""

from __future__ import annotations

from typing import Any

from rosa_contract.config.gateway import REMAINING_WORK
from rosa_contract.config.tasks import GOAL_COUPLED
from rosa_server.plan.placement import Replica
from rosa_server.scheduler.choosing.as_played import JITTER_MS, SLOWER_MS
from rosa_server.scheduler.choosing.candidates import Choice
from rosa_server.scheduler.choosing.prediction import MAX_LATE, Prediction
from rosa_server.scheduler.problem import Problem
from rosa_server.timing.batches import URGENT_S

PERMITS, PLANNED = "permits", "planned"


def outlook(choice: Choice, problem: Problem, order: str) -> dict[str, Any]:
    """Predicted rates in Hz, meet rates as shares (empty where nothing was played through), and policies by queue.

    `order`: the factory's `gateway.order`.
    """
    prediction = choice.prediction
    return {
        "action_throughput_hz": prediction.throughput_hz,
        "objective": prediction.objective,
        "rates_hz": dict(prediction.rates_hz),
        "missing": prediction.missing,
        "meet": {component: prediction.meet[component] for component in _components(problem, choice)},
        "meet_on_slower_networks": dict(prediction.slower),
        "rates": _rates(choice),
        "order": {"name": order, "by_work": by_work(problem, order)},
        "queues": {name: _queue(replicas) for name, replicas in _queues(choice).items()},
    }


def by_work(problem: Problem, order: str) -> list[str]:
    """The components whose calls go by their tasks' remaining work, as long as their deadlines are far."""
    needs = [need for cls in problem.classes for need in cls.needs if order == REMAINING_WORK]
    far = {need.component for need in needs if need.slo_ms > URGENT_S * 1000}
    return sorted(far.intersection(GOAL_COUPLED))


def render_outlook(choice: Choice, problem: Problem, order: str) -> str:
    """The same in a few lines."""
    prediction, lines = choice.prediction, ["As the server carries it out"]
    rates = ", ".join(f"{task} {hz:.2f} Hz" for task, hz in prediction.rates_hz.items())
    expected = f"{prediction.throughput_hz:.1f} actions/s expected ({rates})"
    if not prediction.meet:
        lines.append(f"  - {expected}: the schedule's own rates")
        if prediction.missing:
            lines.append(f"  - NOT PREDICTED, nor whether calls are in time: {prediction.missing}")
    elif not prediction.holds:
        late = ", ".join(f"{part} {share:.1%}" for part, share in prediction.meet.items() if share < 0.99)
        lines.append(
            f"  - {expected}: the schedule's own rates; beyond them too many calls are late ({late} in time)"
        )
    else:
        lines.append(f"  - {expected}")
        meets = ", ".join(f"{part} {prediction.meet[part]:.1%}" for part in _components(problem, choice))
        lines.append(f"  - in time: {meets}")
        lines += _slower_in_words(prediction)
    lines.append(f"  - {RATES[_rates(choice)]}")
    lines.append(f"  - {_order_in_words(problem, order)}")
    for name, replicas in _queues(choice).items():
        lines.append(f"  - {name}: {_queue_in_words(replicas)}")
    return "\n".join(lines)


def _slower_in_words(prediction: Prediction) -> list[str]:
    """What a schedule that was played through does on other networks than the one it was planned for."""
    if not prediction.slower:
        return []
    networks = f"with {SLOWER_MS:g} ms more to the server and back, or {JITTER_MS:g} ms of jitter each way"
    late = {part: share for part, share in prediction.slower.items() if share < 1 - MAX_LATE}
    if not late:
        return [f"  - {networks}: all in time as well"]
    shares = ", ".join(f"{part} {share:.1%}" for part, share in late.items())
    return [f"  - WARNING: {networks}, fewer calls are in time ({shares}); longer SLOs leave room for that"]


RATES = {
    PERMITS: "robots ask before they call (permits), and call at the schedule's rates where no answer comes",
    PLANNED: "robots keep to the schedule's rates",
}


def _order_in_words(problem: Problem, order: str) -> str:
    if order != REMAINING_WORK:
        return f"queues go by {order}"
    far = by_work(problem, order)
    if not far:
        return f"queues go by deadline, as every SLO is within {URGENT_S:g} s"
    return f"calls of {' and '.join(far)} go by remaining work until {URGENT_S:g} s before their deadlines"


def _components(problem: Problem, choice: Choice) -> list[str]:
    """In the order of the factory file."""
    named = dict.fromkeys(need.component for cls in problem.classes for need in cls.needs)
    return [component for component in named if component in choice.prediction.meet]


def _rates(choice: Choice) -> str:
    if not choice.placement.adaptive:
        return PLANNED
    return PERMITS


def _queues(choice: Choice) -> dict[str, list[Replica]]:
    found: dict[str, list[Replica]] = {}
    for replica in choice.placement.replicas.values():
        if not replica.standby:
            found.setdefault(replica.queue, []).append(replica)
    return found


def _queue(replicas: list[Replica]) -> dict[str, Any]:
    first = replicas[0]
    return {
        "servers": [replica.id for replica in replicas],
        "batch": first.batch if first.at_once is None else None,
        "at_once": first.at_once,
        "permits": first.permits,
    }


def _queue_in_words(replicas: list[Replica]) -> str:
    first = replicas[0]
    servers = f"{len(replicas)} servers with one queue" if len(replicas) > 1 else "1 server"
    if first.at_once is not None:
        return f"{servers}, up to {first.at_once} calls at a time on each"
    return f"{servers}, batches of up to {first.batch}"
