"""What a viewer is told of a running server and its robots, made of the dashboard's model. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from rosa_server.dashboard.model import FleetModel

FLEET, EVENTS, DECISIONS = "/rosa/fleet", "/rosa/events", "/rosa/decisions"
COMPONENT = ("component", "slo_ms", "last_ms", "p99_ms", "missed", "in_time", "measured_by")


def status_topic(robot: str) -> str:
    return f"/{robot}/status"


def pictures_topic(robot: str, camera: str) -> str:
    return f"/{robot}/{camera}"


class News:
    """What has changed since it was asked last."""

    def __init__(self, model: FleetModel) -> None:
        self._model, self._rows, self._line = model, 0, 0

    def due(self, now_s: float) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """(topic, message): the fleet, robots that have changed, what happened and what persons decided."""
        model = self._model
        yield FLEET, model.totals(now_s)
        since, self._rows = self._rows, model.robots.version
        for one in model.robots:
            if one.version > since and one.row:
                yield status_topic(one.robot), robot_message(one.row)
        line, self._line = self._line, model.line
        for number, event in model.events:
            if number > line:
                yield EVENTS, event
        for number, audit in model.audits:
            if number > line:
                yield DECISIONS, audit


def schema_of(value: Any) -> dict[str, Any]:
    """A JSON schema of what a topic's messages look like, made of its first one; viewers complete paths with it."""
    if isinstance(value, Mapping):
        return {"type": "object", "properties": {str(key): schema_of(one) for key, one in value.items()}}
    if isinstance(value, list | tuple | deque):
        return {"type": "array", "items": schema_of(value[0]) if value else {}}
    for kind, name in ((bool, "boolean"), (int | float, "number"), (str, "string")):
        if isinstance(value, kind):
            return {"type": name}
    return {}


def robot_message(row: Mapping[str, Any]) -> dict[str, Any]:
    """A robot's row with its components by name, as paths of plots need them."""
    components = [dict(zip(COMPONENT, one, strict=True)) for one in row["deadlines"]]
    for one in components:
        known = one["in_time"] > 0 and one["slo_ms"] > 0
        one["left"] = round(1 - one["p99_ms"] / one["slo_ms"], 3) if known else None
    return {**{key: value for key, value in row.items() if key != "deadlines"}, "components": components}
