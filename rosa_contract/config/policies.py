"""How a server carries out a schedule: the section `policies` of a factory file (docs/scheduler.md)."""

from __future__ import annotations

from dataclasses import dataclass

from rosa_contract.setting import setting

SHARED, ROUTED = "shared", "routed"
ADAPTIVE, PLANNED = "adaptive", "planned"
GIVEN, FREE = "given", "free"


@dataclass(frozen=True)
class Policies:
    """How a server carries out a schedule; each key can be set to what the paper does (docs/scheduler.md)."""

    queues: str = setting(
        "shared: servers with the same model and component share one queue; routed: each robot has a fixed"
        " server, as in the paper",
        SHARED,
        choices=(SHARED, ROUTED),
    )
    batches: str = setting(
        "adaptive: batches of whatever is waiting, up to the size at which robots act fastest; planned: the"
        " schedule's batch size",
        ADAPTIVE,
        choices=(ADAPTIVE, PLANNED),
    )
    continuous: bool = setting(
        "for models with continuous batching: true: calls are handled individually, several at a time, as in the"
        " paper; false: in batches",
        True,
    )
    at_once: int | None = setting(
        "maximum number of concurrent calls per server for such models; default: as few as can carry the load",
        None,
        at_least=1,
        at_most=64,
    )
    phases: str = setting(
        "given: the server staggers its robots' first calls over one System 2 cycle, and periodic calls over"
        " their period; free: each robot calls when it is ready, as in the paper",
        GIVEN,
        choices=(GIVEN, FREE),
    )
    catch_up: float = setting(
        "number of periods that a late robot may catch up on; 0: none, as in the paper",
        1.0,
        at_least=0,
        at_most=10,
    )
    rates: str = setting(
        "adaptive: robots act faster than planned while servers have capacity; they ask before each call, unless"
        " nearly every robot that asks finds an idle server; planned: never faster",
        ADAPTIVE,
        choices=(ADAPTIVE, PLANNED),
    )


# As the paper has them. Its System 2, safety and monitor batch continuously (3.4.1, 4.1), as many calls at a time as
# vLLM takes. How a robot keeps to its rate it does not say: `catch_up` 0 is one reading, 1 another.
PUBLISHED = Policies(
    queues=ROUTED, batches=PLANNED, continuous=True, at_once=64, phases=FREE, catch_up=0.0, rates=PLANNED
)
