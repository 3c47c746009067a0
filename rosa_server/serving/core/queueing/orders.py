"""The policy that a factory file chooses."""

from __future__ import annotations

from rosa_contract.config.gateway import (
    EARLIEST_DEADLINE,
    FIRST_COME,
    KAIROS,
    MIN_ATTAINED_SERVICE,
    REMAINING_WORK,
    Gateway,
)
from rosa_server.serving.core.queueing.lengths import TaskLengths
from rosa_server.serving.core.queueing.order import (
    EarliestDeadline,
    FirstCome,
    Kairos,
    LeastAttainedService,
    Order,
    RemainingWork,
    Turnover,
)


def order_of(gateway: Gateway, lengths: TaskLengths | None = None, turnover: Turnover | None = None) -> Order:
    """`lengths`, `turnover`: what is known of tasks and of the fleet, for the policy that looks at it."""
    if gateway.order == KAIROS:
        return Kairos(gateway.order_buckets, gateway.order_ageing_s)
    if gateway.order == REMAINING_WORK:
        known = lengths if lengths is not None else TaskLengths()
        fleet = turnover if turnover is not None else Turnover()
        return RemainingWork(known, fleet, gateway.order_age_weight)
    plain: dict[str, type[Order]] = {
        EARLIEST_DEADLINE: EarliestDeadline,
        FIRST_COME: FirstCome,
        MIN_ATTAINED_SERVICE: LeastAttainedService,
    }
    return plain[gateway.order]()
