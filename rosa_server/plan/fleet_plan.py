"""The schedule that all gateways of a fleet run, with what belongs to it: as an object, and as JSON on the way and on a
disk. One with a higher epoch follows one with a lower one, and no two have the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any

from rosa_contract.config.strict import Reader
from rosa_contract.errors import CodecError, ConfigError
from rosa_server.plan.placement import Placement, Replica

MAX_PLAN_BYTES = 16 << 20  # as the largest array; 10,000 robots need about four
MAX_DEPTH = 32  # of maps and lists in a schedule's file, which has six


@dataclass(frozen=True, eq=False)
class FleetPlan:
    """`placement`: whole, as no single gateway sees it; its epoch is that of the plan. `server_on`: server -> node.
    `home`: slot -> the node whose gateway gives it out, of every slot that there has ever been. `closed`: slots that
    nobody is given any more, as a later plan lacks them. `schedule`: as a schedule's file has it, for whoever plans
    next; it was read from `file`."""

    placement: Placement
    server_on: Mapping[str, str]
    home: Mapping[str, str]
    closed: tuple[str, ...] = ()
    schedule: Mapping[str, Any] = field(default_factory=dict)
    file: str = ""

    @property
    def epoch(self) -> int:
        return self.placement.epoch

    def follows(self, before: FleetPlan) -> FleetPlan:
        """The same, as the next one after `before`."""
        return replace(self, placement=replace(self.placement, epoch=before.epoch + 1))


@lru_cache(maxsize=2)  # each other gateway is told the same, and it is written down with each slot
def plan_bytes(plan: FleetPlan) -> bytes:
    return json.dumps(plain(plan)).encode()


def plan_from(raw: bytes | memoryview) -> FleetPlan:
    """What `plan_bytes` has written. Raises `CodecError`."""
    if len(raw) > MAX_PLAN_BYTES:
        raise CodecError("too_large", f"plan: expected at most {MAX_PLAN_BYTES} bytes, got {len(raw)}")
    try:
        content = json.loads(bytes(raw))
    except (ValueError, RecursionError) as error:
        raise CodecError("bad_field", f"plan: expected JSON: {error!s:.100}") from None
    return plan_of(content)


def plan_of(content: Any) -> FleetPlan:
    """The same of JSON's values. Raises `CodecError`."""
    reader = Reader("plan")
    try:
        found = reader.section(FleetPlan, "", content)
        reader.finish()
        assert isinstance(found, FleetPlan)
        replicas = {name: _numbered(one) for name, one in found.placement.replicas.items()}
    except (ConfigError, ValueError, RecursionError) as error:
        raise CodecError("bad_field", f"plan: {error!s:.300}") from None
    found = replace(found, placement=replace(found.placement, replicas=replicas))
    if _deeper(found.schedule, MAX_DEPTH):  # it is written again, level by level
        raise CodecError(
            "bad_field", f"plan: schedule: expected at most {MAX_DEPTH} maps or lists in each other"
        )
    if wrong := _wrong(found):
        raise CodecError("bad_field", f"plan: {wrong}")
    return found


def _numbered(one: Replica) -> Replica:
    """JSON's keys are text; those of times are sizes of batches. Raises `ValueError`."""
    mixed = {name: _sizes(times) for name, times in one.mixed_ms.items()}
    return replace(one, service_ms=_sizes(one.service_ms), mixed_ms=mixed)


def _sizes(times: Mapping[Any, float]) -> dict[int, float]:
    return {int(size): ms for size, ms in times.items()}


def _deeper(value: Any, limit: int) -> bool:
    """Whether maps and lists are nested deeper than that."""
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return limit < 0 or any(_deeper(one, limit - 1) for one in inside)


def _wrong(plan: FleetPlan) -> str:
    """What leads nowhere in it."""
    placement = plan.placement
    replicas, routes = placement.replicas, placement.routes
    if routes is None or placement.epoch < 0:
        return "expected the routes of a schedule, and its epoch"
    for name, one in replicas.items():
        if one.id != name or one.server not in plan.server_on or one.workers < 1:
            return f"replica {name:.60}: expected its own name, a server on a node, and a worker"
    for slot, each in routes.items():
        if slot not in plan.home or not slot.rpartition("/")[2].isdecimal():
            return f"slot {slot:.60}: expected TASK/NUMBER, and its home"
        if not set(each.values()) <= replicas.keys():
            return f"slot {slot:.60}: expected routes to replicas of the plan"
    if not set().union(placement.standbys, *placement.standbys.values()) <= replicas.keys():
        return "standbys: expected replicas of the plan"
    return ""


def plain(value: Any) -> Any:
    """As JSON has it. Raises `TypeError` for what looks another way in another process."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"JSON does not have {type(value).__name__}")
