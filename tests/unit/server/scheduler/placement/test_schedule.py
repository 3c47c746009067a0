"""A schedule survives its file, a refusal with its causes too."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rosa_contract.errors import ConfigError
from rosa_server.scheduler.placement.schedule import CAUSES, Refusal, Schedule, schedule_from
from rosa_server.scheduler.problem import StreamClass
from rosa_server.scheduler.search.solve import solve
from tests.unit.server.scheduler.factories import LIBRARY, factory, pool, task


def reread(schedule: Schedule) -> Schedule:
    return schedule_from(json.loads(json.dumps(schedule.to_dict())))


def test_a_schedule_is_read_as_it_was_written() -> None:
    schedule = solve(factory("paper/mix4"), LIBRARY)
    again = reread(schedule)
    assert again == schedule
    assert all(isinstance(key, StreamClass) for server in again.servers for key in server.streams)


def test_a_refusal_is_read_as_it_was_written() -> None:
    refused = solve(pool(2, task("kit", 60, "12sm", min_rate_hz=2.0)), LIBRARY)
    assert refused.reasons
    assert reread(refused) == refused


def test_causes_are_a_closed_list() -> None:
    with pytest.raises(ValueError, match="cause: expected one of slo_unreachable"):
        Refusal("bad_weather", "it rains")
    document = solve(pool(2, task("kit", 60, "12sm", min_rate_hz=2.0)), LIBRARY).to_dict()
    document["reasons"][0]["cause"] = "bad_weather"
    with pytest.raises(ConfigError, match=r"reasons\[0\]\.cause: must be one of"):
        schedule_from(document)
    assert all(words for words in CAUSES.values())


@pytest.mark.parametrize("key", ["kit", "/system1", "kit/", ""])
def test_streams_of_no_task_or_component_are_refused(key: str) -> None:
    document = solve(factory("paper/p4"), LIBRARY).to_dict()
    document["servers"][0]["streams"] = {key: 1}
    with pytest.raises(ConfigError, match=r"servers\[0\]\.streams"):
        schedule_from(document)


def test_the_page_lists_every_cause() -> None:
    page = (Path(__file__).resolve().parents[5] / "docs" / "scheduler.md").read_text(encoding="utf-8")
    section = page.split("\n## Refusals\n")[1].split("\n## ")[0]
    listed = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE))
    assert {cause: words.replace("`", "") for cause, words in listed.items()} == CAUSES
