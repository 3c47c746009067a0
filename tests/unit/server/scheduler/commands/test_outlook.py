"""`rosa plan` says what comes of a schedule when the server's policies carry it out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rosa_server.cli import main
from rosa_server.scheduler.placement.schedule import load_schedule

P4 = Path(__file__).resolve().parents[5] / "configs" / "paper" / "p4.yaml"


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["plan", str(P4), *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.slow
def test_with_full_servers_robots_ask_before_they_call(capsys: pytest.CaptureFixture[str]) -> None:
    out = planned(capsys, "--what-if", "robots=96")
    assert "ask before they call (permits)" in out
    assert "2 servers with one queue, up to" in out, "System 2 and the monitor share servers"


@pytest.mark.slow
def test_json_has_the_prediction_and_is_still_a_schedule(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(planned(capsys, "--json"))
    told = json.loads(path.read_text())["prediction"]
    schedule = load_schedule(path)
    assert told["rates"] == "permits"
    assert told["action_throughput_hz"] > 1.05 * schedule.action_throughput_hz
    assert told["rates_hz"]["assemble_kit"] * 32 == pytest.approx(told["action_throughput_hz"])
    assert set(told["meet"]) == {"system1", "system2", "safety", "monitor"}
    assert min(told["meet"].values()) >= 0.99
    assert sum(len(queue["servers"]) for queue in told["queues"].values()) == 8
    assert told["order"] == {"name": "remaining_work", "by_work": []}, "every SLO is short"


def test_as_published_robots_keep_to_the_schedule(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    factory = tmp_path / "published.yaml"
    published = (
        "{queues: routed, batches: planned, continuous: false, phases: free, catch_up: 0, rates: planned}"
    )
    factory.write_text(f"{P4.read_text()}\npolicies: {published}\n")
    assert main(["plan", str(factory)]) == 0
    out = capsys.readouterr().out
    assert "robots keep to the schedule's rates" in out and "expected (assemble_kit 3.14 Hz)" in out


@pytest.mark.slow
def test_it_says_what_the_queues_go_by(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "queues go by deadline, as every SLO is within 5 s" in planned(capsys)
    patient, ordered = tmp_path / "patient.yaml", tmp_path / "ordered.yaml"
    text = P4.read_text()
    patient.write_text(re.sub(r"(    system2:.*?slo_ms: )\d+", r"\g<1>20000", text, flags=re.DOTALL))
    assert patient.read_text() != text
    assert main(["plan", str(patient)]) == 0
    assert "calls of system2 go by remaining work until 5 s before" in capsys.readouterr().out
    ordered.write_text(f"{text}\ngateway: {{order: first_come}}\n")
    assert main(["plan", str(ordered)]) == 0
    assert "queues go by first_come" in capsys.readouterr().out
