"""The Grafana dashboard and the alert rules ask for metrics and labels that the server has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from rosa_server.serving.edge.metrics import Metrics

ROOT = Path(__file__).parents[2]
BOARD = json.loads((ROOT / "deploy" / "grafana" / "rosa.json").read_text())
RULES = yaml.safe_load((ROOT / "deploy" / "prometheus" / "rosa.rules.yml").read_text())["groups"][0]["rules"]
OF_PROMETHEUS = {"le", "job"}


def served() -> dict[str, set[str]]:
    """Series -> its labels."""
    found: dict[str, set[str]] = {}
    registry = Metrics().registry
    for family in registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = set(getattr(registry._names_to_collectors[name], "_labelnames", ()))
        names = (
            [f"{name}_{part}" for part in ("bucket", "sum", "count")]
            if family.type == "histogram"
            else [name]
        )
        found |= dict.fromkeys(names, labels)
    return found


QUESTIONS = [
    *(target["expr"] for panel in BOARD["panels"] for target in panel.get("targets", ())),
    *(rule["expr"] for rule in RULES),
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_is_asked_for_is_served(question: str) -> None:
    series = served()
    named = set(re.findall(r"\brosa_\w+", question))
    assert named <= set(series), named - set(series)
    assert named or question.startswith("up{")
    asked = set(re.findall(r"(\w+)(?:=~|!~|!=|=)\"", question))
    for group in re.findall(r"by \(([^)]*)\)", question):
        asked |= {label.strip() for label in group.split(",")}
    assert asked - OF_PROMETHEUS <= set().union(*(series[name] for name in named), set())
    assert question.count("(") == question.count(")")


def test_every_label_in_the_words_of_a_rule_is_one_of_its_series() -> None:
    series = served()
    for rule in RULES:
        labels = set().union(*(series[name] for name in re.findall(r"\brosa_\w+", rule["expr"])), set())
        assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= labels, rule["alert"]
    names = [rule["alert"] for rule in RULES]
    assert len(names) == len(set(names))


def test_every_panel_has_its_place() -> None:
    panels = BOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
