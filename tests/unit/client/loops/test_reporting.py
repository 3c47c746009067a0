"""What a robot tells its gateway of itself: at the rate that was asked for, and at once where a person is needed."""

from __future__ import annotations

from itertools import pairwise

import pytest

from rosa_client.loops.reporting import Reporter, audit_of
from rosa_client.runtime.commands import Alert, Decision
from rosa_contract.config.prompts import Instruction
from rosa_contract.wire import codec
from rosa_contract.wire.status import MAX_WORDS, Status
from tests.unit.client.runtime.stage import Stage


class Told:
    """A stage whose robot reports; `reports` keeps when and what."""

    def __init__(self, rate_hz: float = 1.0) -> None:
        self.stage = Stage()
        self.reporter = Reporter("cell-4:/data/run.mcap")
        self.rate_hz = rate_hz
        self.reports: list[tuple[float, Status]] = []
        self._seen = 0

    def run(self, seconds: float) -> list[Status]:
        first = len(self.reports)
        for _ in range(round(seconds / 0.01)):
            self.stage.run(0.01)
            for at_s, command in self.stage.events[self._seen :]:
                self.reporter.hear(command, at_s)
            self._seen = len(self.stage.events)
            report = self.reporter.due(self.stage.runtime, self.rate_hz, self.stage.now_s)
            if report is not None:
                self.reports.append((self.stage.now_s, report))
        return [report for _, report in self.reports[first:]]

    def until_alert(self) -> Status:
        self.stage.start()
        for _ in range(3000):
            for report in self.run(0.01):
                if report.alert is not None:
                    return report
        raise AssertionError("no alert was reported")


def test_a_gateway_that_does_not_ask_hears_nothing() -> None:
    told = Told(rate_hz=0.0)
    told.stage.start()
    assert told.run(5.0) == []


@pytest.mark.parametrize("rate_hz", [1.0, 5.0])
def test_a_robot_without_a_task_reports_as_often_as_it_was_asked_to(rate_hz: float) -> None:
    told = Told(rate_hz)
    assert len(told.run(10.0)) == pytest.approx(10 * rate_hz, abs=1)
    assert {(report.state, report.running, report.alert) for _, report in told.reports} == {
        ("idle", False, None)
    }


def test_each_report_says_where_the_robot_is_recorded() -> None:
    told = Told()
    assert {report.recording for report in told.run(3.0)} == {"cell-4:/data/run.mcap"}
    told.reporter = Reporter("cell-4:/" + "long/" * MAX_WORDS + "run.mcap")
    [frame] = codec.encode(told.run(3.0)[-1])
    report = codec.decode_robot(codec.read_robot_header([frame]), [frame])
    assert isinstance(report, Status)
    assert len(report.recording) == MAX_WORDS and report.recording.endswith("/run.mcap")


def test_a_report_says_what_the_robot_is_told_while_it_has_a_task() -> None:
    told = Told()
    told.stage.start(told=Instruction("pick the red cup"))
    assert {report.told for report in told.run(2.0)} == {"pick the red cup"}
    told.stage._note(told.stage.runtime.cancel(told.stage.now_s, "enough"))
    assert {report.told for report in told.run(2.0)} == {""}


def test_an_alert_is_reported_at_once_with_what_may_be_decided() -> None:
    told = Told(rate_hz=0.1)
    report = told.until_alert()
    alert = told.stage.of(Alert)[0]
    assert isinstance(alert, Alert)
    assert report.alert is not None
    assert (report.alert.alert_id, report.alert.cause) == (alert.alert_id, alert.cause)
    assert tuple(report.alert.choices) == alert.choices
    assert (report.state, report.reason) == ("waiting_for_human", alert.reason)
    raised_s = next(at_s for at_s, command in told.stage.events if isinstance(command, Alert))
    assert told.reports[-1][0] - raised_s <= 0.11


def test_every_call_that_ended_is_told_once_with_its_age() -> None:
    told = Told(rate_hz=2.0)
    told.until_alert()
    calls = [call for _, report in told.reports for call in report.calls]
    assert len({call.request_id for call in calls}) == len(calls) == 3
    assert {call.ending for call in calls} == {"missed"}
    assert all(0.0 <= call.age_ms <= 500.0 for call in calls)
    last = told.reports[-1][1].components[0]
    assert (last.name, last.sent, last.missed, last.consecutive_missed) == ("system1", 3, 3, 3)


def test_a_decision_of_a_person_is_reported_at_once_and_once() -> None:
    told = Told(rate_hz=0.1)
    told.until_alert()
    told.run(0.2)
    assert told.stage.decide("abort") is None
    told.reporter.audited(audit_of(1, "abort", "anna", "enough", True, ""), told.stage.now_s)
    audits = [audit for report in told.run(3.0) for audit in report.audits]
    assert [(one.decided_by, one.choice, one.accepted) for one in audits] == [("anna", "abort", True)]
    assert told.reports[-1][1].alert is None


def test_a_storm_of_news_is_bounded_and_fits_into_one_message() -> None:
    told = Told(rate_hz=1.0)
    told.run(0.5)
    for number in range(1000):
        told.reporter.hear(Decision("hold", "slo_missed", "ä" * 1000, "system1"), told.stage.now_s)
        told.reporter.audited(
            audit_of(number, "x" * 500, "y" * 500, "z" * 500, False, "r" * 500), told.stage.now_s
        )
    [report] = [report for report in told.run(0.6) if report.decisions]
    assert max(len(one.reason) for one in report.decisions) == MAX_WORDS
    frames = codec.encode(report)
    assert codec.decode_robot(codec.read_robot_header(frames), frames) == report


def test_reports_are_never_closer_than_a_tenth_of_a_second() -> None:
    told = Told(rate_hz=10.0)
    told.stage.start()
    for number in range(300):
        told.stage.emergency_stop = number % 2 == 0
        told.run(0.01)
    times = [at_s for at_s, _ in told.reports]
    assert len(times) >= 10
    assert min(b - a for a, b in pairwise(times)) >= 0.1 - 1e-9
