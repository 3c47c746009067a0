"""Random faults break no promise, the same seed does the same again, and every kind of defect is noticed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rosa_client.runtime import checks, ladder, responses
from rosa_client.runtime.calls import ComponentCalls, Ending
from rosa_client.runtime.commands import MoveTo
from rosa_client.runtime.machines.task_machine import State
from rosa_client.runtime.runtime import RobotRuntime
from rosa_server.serving.core.dispatch.dispatcher import Dispatcher
from rosa_server.serving.core.dispatch.lane import RequestQueue
from rosa_server.serving.core.workers import worker_state
from rosa_sim.chaos import night
from rosa_sim.chaos.__main__ import main
from rosa_sim.chaos.night import version
from rosa_sim.chaos.plan import KINDS, Fault, Plan, plan_of
from rosa_sim.chaos.run import Verdict, run, shrink
from rosa_sim.chaos.watch import ServerWatch
from tests.examples import examples

Patch = pytest.MonkeyPatch
SLOW = Fault(2.0, "worker_slow", 4.0, 30.0)
SLOW_VERDICTS = Fault(2.0, "worker_slow", 4.0, 30.0, (5, 6, 7))
LATE = Fault(1.0, "message_delay", 6.0, 0.0735)  # both ways: just about the SLO of System 1


def plan(*faults: Fault, **fields: Any) -> Plan:
    return replace(Plan(1, "p4", 4, 8.0, faults, control_period_s=0.01), **fields)


@pytest.mark.slow
@pytest.mark.prove
@pytest.mark.parametrize("seed", range(examples(3, 12)))
def test_every_promise_holds_whatever_goes_wrong(seed: int) -> None:
    verdict = run(plan_of(seed, seconds=15.0, robots=4))
    assert not verdict.rule, f"{verdict.words}\n{verdict.plan}"
    assert verdict.counts["answer ok"] > 100


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_fault_happens_and_every_promise_holds(kind: str) -> None:
    amount = KINDS[kind][2] * 0.7
    faulty = run(plan(Fault(2.0, kind, 3.0, amount), standby=1))
    assert not faulty.rule, faulty.words
    assert faulty.counts[kind] == 1
    assert (faulty.events, faulty.counts) != (quiet().events, quiet().counts)


@cache
def quiet() -> Verdict:
    """The same fleet on a day without faults."""
    return run(plan(standby=1))


@pytest.mark.slow
def test_the_same_plan_does_the_same_again() -> None:
    first, second = run(plan_of(3, 10.0, 4)), run(plan_of(3, 10.0, 4))
    assert (first.events, first.counts, first.robot_hours) == (
        second.events,
        second.counts,
        second.robot_hours,
    )
    assert plan_of(3) != plan_of(4)


def test_a_plan_is_read_as_it_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan_of(5).save(path, rule="ends_once")
    assert Plan.load(path) == plan_of(5)


# -- the watches can fail ----------------------------------------------------------------------------------------------


def answers_twice(patch: Patch) -> None:
    usual = Dispatcher.actions
    patch.setattr(Dispatcher, "actions", lambda self: [a for a in usual(self) for _ in (1, 2)])


def answers_nothing_that_expired(patch: Patch) -> None:
    patch.setattr(Dispatcher, "_expire", lambda self, now_s, state: state.queue.expire(now_s))


def runs_what_has_expired(patch: Patch) -> None:
    patch.setattr(RequestQueue, "expire", lambda self, now_s: [])
    # The same defect leaves requests waiting too long, which is noticed at once; here it is about running them.
    patch.setattr(ServerWatch, "ticked", lambda *_: None)


def gives_more_than_credit(patch: Patch) -> None:
    patch.setattr(worker_state, "CREDITS", 3)


def queues_without_limit(patch: Patch) -> None:
    patch.setattr(RequestQueue, "full_for", lambda self, key: False)


def gives_a_worker_what_it_does_not_host(patch: Patch) -> None:
    patch.setattr(ServerWatch, "worker", _with_model(ServerWatch.worker, "another model"))


def plays_late_results(patch: Patch) -> None:
    """Between two control periods nobody but the answer itself asks whether it is late."""

    def answer(self: RobotRuntime, now_s: float, response: Any) -> Any:
        for calls in self.calls.values():
            if calls.request_id == response.request_id:
                responses.use(self.mission, calls, response, now_s)
        return self.mission.take()

    patch.setattr(RobotRuntime, "answer", answer)


def looks_at_deadlines_late(patch: Patch) -> None:
    usual = checks.check_deadlines
    patch.setattr(checks, "check_deadlines", lambda core, now_s: usual(core, now_s - 0.1))


def goes_on_after_a_miss(patch: Patch) -> None:
    patch.setattr(ladder, "fall_back", lambda *_: None)
    patch.setattr(checks, "violate", lambda *_: None)


def takes_every_answer(patch: Patch) -> None:
    usual = ComponentCalls.answer

    def answer(self: ComponentCalls, request_id: int, now_s: float) -> Ending:
        ending = usual(self, request_id, now_s)
        return Ending.IN_TIME if ending is Ending.LATE else ending

    patch.setattr(ComponentCalls, "answer", answer)


def moves_while_a_human_is_asked(patch: Patch) -> None:
    usual = RobotRuntime.tick

    def tick(self: RobotRuntime, now_s: float, inputs: Any) -> Any:
        moves = [MoveTo(self.sequence, "home")] if self.state is State.WAITING_FOR_HUMAN else []
        return usual(self, now_s, inputs) + moves

    patch.setattr(RobotRuntime, "tick", tick)


def never_ends_a_task(patch: Patch) -> None:
    patch.setattr("rosa_client.runtime.responses.finish", lambda *_: None)


def _with_model(usual: Callable[..., None], model: str) -> Callable[..., None]:
    return lambda self, worker_id, _, *rest: usual(self, worker_id, model, *rest)


HURRY = Fault(1.0, "robot_hasty", 5.0, 100.0)
MUTANTS: list[tuple[Callable[[Patch], None], Plan, str]] = [
    (answers_twice, plan(SLOW, HURRY), "one_answer"),
    (answers_nothing_that_expired, plan(SLOW, HURRY), "one_answer"),
    (runs_what_has_expired, plan(SLOW, HURRY), "expired_never_runs"),
    (gives_more_than_credit, plan(SLOW, HURRY, robots=16), "credit"),
    (queues_without_limit, plan(SLOW, HURRY, robots=16, queue_limit=1), "bounded_queues"),
    (gives_a_worker_what_it_does_not_host, plan(), "its_model"),
    (plays_late_results, plan(LATE, robots=16, jitter_ms=20.0), "nothing_late"),
    (takes_every_answer, plan(SLOW), "raised RuntimeError"),
    (looks_at_deadlines_late, plan(SLOW), "stop_within_a_period"),
    (goes_on_after_a_miss, plan(SLOW_VERDICTS), "stop_within_a_period"),
    (moves_while_a_human_is_asked, plan(SLOW), "still_after_escalation"),
    (never_ends_a_task, plan(), "every_task_ends"),
]


@cache
def rule_without_a_defect(faults: Plan) -> str:
    """Several defects have the same plan. Not to be asked after a defect was put in."""
    return run(faults).rule


@pytest.mark.slow
@pytest.mark.parametrize(("mutate", "faults", "rule"), MUTANTS, ids=lambda one: getattr(one, "__name__", ""))
def test_a_defect_is_noticed(
    mutate: Callable[[Patch], None], faults: Plan, rule: str, monkeypatch: Patch
) -> None:
    assert not rule_without_a_defect(faults), "without the defect nothing is broken"
    mutate(monkeypatch)
    assert run(faults).rule == rule


@pytest.mark.slow
def test_a_failing_plan_shrinks_to_what_matters(monkeypatch: Patch) -> None:
    queues_without_limit(monkeypatch)
    noise = [Fault(0.5 * n, "message_delay", 0.3, 0.01, (n,)) for n in range(6)]
    failed = run(plan(*noise, SLOW, HURRY, robots=8, queue_limit=1))
    small = shrink(failed)
    assert failed.rule == small.rule == "bounded_queues"
    assert len(small.plan.faults) <= 2
    assert small.plan.robots <= 4
    assert run(small.plan).words == small.words


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_night_goes_on_where_it_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--processes", "1", "--folder", str(tmp_path)]
    assert main(["--robot-hours", "0.01", *short]) == 0
    first = json.loads((tmp_path / "summary.json").read_text())
    assert main(["--robot-hours", str(first["robot_hours"] + 0.001), *short]) == 0
    second = json.loads((tmp_path / "summary.json").read_text())
    assert second["next_seed"] == first["next_seed"] + 1
    assert second["robot_hours"] > first["robot_hours"]
    assert second["hours_of"] == {version(): second["robot_hours"]}
    assert "goes on after" in capsys.readouterr().out


@pytest.mark.slow
def test_hours_of_another_version_of_the_decisions_stay_and_are_counted_apart(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    short = ["--processes", "1", "--folder", str(tmp_path)]
    assert main(["--robot-hours", "0.01", *short]) == 0
    first = json.loads((tmp_path / "summary.json").read_text())
    monkeypatch.setattr(night, "version", lambda: "another")
    assert main(["--robot-hours", str(first["robot_hours"] + 0.001), *short]) == 0
    second = json.loads((tmp_path / "summary.json").read_text())
    assert second["next_seed"] == first["next_seed"] + 1
    assert second["hours_of"][version()] == first["robot_hours"]
    assert sum(second["hours_of"].values()) == pytest.approx(second["robot_hours"], abs=0.01)


@pytest.mark.slow
def test_a_failing_plan_is_replayed_from_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Patch
) -> None:
    path = tmp_path / "plan.json"
    plan(SLOW, HURRY).save(path)
    assert main(["replay", str(path)]) == 0
    answers_twice(monkeypatch)
    assert main(["--folder", str(tmp_path), "replay", str(path), "--shrink"]) == 1
    out = capsys.readouterr().out
    assert "BROKEN" in out
    assert Plan.load(tmp_path / "minimal-1.json").seconds < Plan.load(path).seconds


@pytest.mark.parametrize(
    "text", ["", "{}", '{"plan": {"faults": []}}', '{"plan": {"faults": [{"kind": "x"}]}}']
)
def test_a_file_that_is_no_plan_is_one_error(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    assert main(["replay", str(path)]) == 2
    assert "plan.json" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends them, asked by prctl")
def test_no_process_outlives_a_run_that_is_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rosa_sim.chaos", "--processes", "2", "--folder", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as chaos:
        try:
            children = Path(f"/proc/{chaos.pid}/task/{chaos.pid}/children")
            until(lambda: len(children.read_text().split()) == 2)
            workers = [Path("/proc", pid) for pid in children.read_text().split()]
            chaos.terminate()
            chaos.wait(30)
            until(lambda: not any(worker.exists() for worker in workers))
        finally:
            with suppress(ProcessLookupError):
                os.killpg(chaos.pid, signal.SIGKILL)


def until(done: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end_s
        time.sleep(0.05)
