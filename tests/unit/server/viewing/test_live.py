"""What viewers are told of a running server: each change once, and nothing that no JSON can hold."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from rosa_contract.wire import codec
from rosa_contract.wire.status import HAS_AUDITS, HAS_NEWS, Audit, ComponentStatus, Status
from rosa_server.dashboard.model import FleetModel
from rosa_server.viewing.live import DECISIONS, EVENTS, FLEET, News, schema_of, status_topic
from tests.unit.server.serving.watching.test_hub import Watched

ROOT = Path(__file__).parents[4]
COMPONENTS = (ComponentStatus("system1", 300.0, 80.0, 120.0, 9, 8, 1, 0, 0),)


def running() -> tuple[Watched, FleetModel]:
    told, model = Watched(), FleetModel()
    told.stage.open("r1", "r2")
    audits = (Audit(3, "resume", "anna", "it is clear", True, ""),)
    [frame] = codec.encode(Status("executing", "", True, 1, 1, False, COMPONENTS, None, audits=audits))
    told.hub.reported("r1", bytes(frame), None, HAS_NEWS | HAS_AUDITS)
    told.hub.happened(told.stage.now_s, "robot_joined", robot="r2", task="pick")
    for number, message in enumerate(told.run(3.0)):
        model.hear(message, number / 100)
    model.refresh(10.0)
    return told, model


def by_topic(news: News) -> dict[str, Any]:
    return {topic: json.loads(json.dumps(message, allow_nan=False)) for topic, message in news.due(10.0)}


def test_each_change_is_told_once() -> None:
    _, model = running()
    news = News(model)
    first = by_topic(news)
    assert set(first) >= {FLEET, status_topic("r1"), status_topic("r2"), EVENTS, DECISIONS}
    assert first[FLEET]["robots"] == 2
    [component] = first[status_topic("r1")]["components"]
    assert (component["component"], component["slo_ms"], component["left"]) == ("system1", 300.0, 0.6)
    assert first[DECISIONS]["decided_by"] == "anna"
    assert set(by_topic(news)) == {FLEET}, "nothing has changed since"


def test_a_schema_describes_a_topics_first_message() -> None:
    assert schema_of({"a": 1, "b": [{"c": "x"}], "d": None, "e": True, "f": []}) == {
        "type": "object",
        "properties": {
            "a": {"type": "number"},
            "b": {"type": "array", "items": {"type": "object", "properties": {"c": {"type": "string"}}}},
            "d": {},
            "e": {"type": "boolean"},
            "f": {"type": "array", "items": {}},
        },
    }


def test_the_layout_for_a_fleet_shows_topics_and_fields_that_there_are() -> None:
    _, model = running()
    told = by_topic(News(model))
    text = (ROOT / "configs" / "foxglove" / "fleet.json").read_text()
    paths = set(re.findall(r'"(/[\w/]+)((?:\.\w+|\[\d*\])*)"', text))
    assert len(paths) > 4
    for topic, rest in paths:
        found: Any = told[topic]
        for name, _ in re.findall(r"\.(\w+)|(\[\d*\])", rest):
            if name:
                assert name in found, f"{topic} has no {name}"
                found = found[name]
            else:
                found = found[0]

    def panels(node: Any) -> list[str]:
        return [node] if isinstance(node, str) else [*panels(node["first"]), *panels(node["second"])]

    layout = json.loads(text)
    assert sorted(panels(layout["layout"])) == sorted(layout["configById"])
