"""Following a request through client, gateway and worker: the hooks fit the code, and the stamps are put together."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from time import monotonic, sleep

import pytest

from benchmarks.transport import path
from benchmarks.transport.stamps import STAGES, Notes, around, paths, stamp_gateway, stamp_worker
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_server.serving.core.dispatch.core import ServingCore
from rosa_server.serving.edge.intake import Intake
from rosa_server.serving.edge.workers.desk import WorkerDesk
from rosa_server.serving.edge.workers.links import WorkerLinks
from rosa_server.serving.gateway import Gateway
from rosa_server.serving.worker.batch_worker import BatchWorker
from rosa_server.serving.worker.gateway_end import GatewayEnd
from tests.unit.server.serving.worker.test_ahead import stage

LIMIT_S = 30.0
HOOKED = (
    (Intake, "read"), (ServingCore, "on_request"), (WorkerDesk, "dispatch"), (WorkerLinks, "shared"),
    (ServingCore, "on_executed"), (Gateway, "_answer"), (GatewayEnd, "read"), (BatchWorker, "_execute"),
)  # fmt: skip


def test_the_hooks_are_around_methods_that_exist_and_nothing_is_hooked_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = [getattr(owner, name) for owner, name in HOOKED]
    assert all(plain.__name__ == name for plain, (_, name) in zip(before, HOOKED, strict=True))
    for plain, (owner, name) in zip(before, HOOKED, strict=True):
        monkeypatch.setattr(owner, name, plain)  # put back at the end
    stamp_gateway(Notes())
    stamp_worker(Notes())
    after = [getattr(owner, name) for owner, name in HOOKED]
    assert all(one is not other for one, other in zip(before, after, strict=True))


def test_a_batch_that_is_read_while_the_model_runs_is_followed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name in HOOKED[-2:]:
        monkeypatch.setattr(owner, name, getattr(owner, name))  # put back at the end
    notes = Notes()
    stamp_worker(notes)
    with stage(monkeypatch) as here:
        here.send(2, "second")
        assert here.backend.runs.wait(LIMIT_S)
        here.send(3, "third")
        end_s = monotonic() + LIMIT_S
        while 3 not in notes.of_ticket:
            assert monotonic() < end_s, "it is read beside the model, which still runs the second one"
            sleep(0.01)
        for number in (2, 3):
            here.let_go()
            assert here.answer().batch_id == number
    assert {ticket: list(times) for ticket, times in notes.of_ticket.items()} == {
        ticket: ["hand over", "decode", "infer"] for ticket in (1, 2, 3)
    }


def test_a_hook_passes_on_what_goes_in_and_out() -> None:
    class Adder:
        def add(self, one: int, other: int = 1) -> int:
            return one + other

    seen = []
    around(
        Adder,
        "add",
        lambda began_s, ended_s, given, result: seen.append((ended_s >= began_s, given[1:], result)),
    )
    assert Adder().add(2, other=5) == 7
    assert seen == [(True, (2, 5), 7)]


def test_the_gateway_finds_a_request_by_the_number_in_its_header() -> None:
    frames = codec.encode(m.Request(70, "system1", 100.0))
    assert codec.read_robot_header(frames)["request_id"] == 70


def notes_of(request: int, ticket: int, folder: Path) -> dict[int, tuple[float, float, float, float]]:
    """A request that each stage takes a millisecond of, as three processes note it."""
    at = {stage: (index + 1) / 1000 for index, stage in enumerate(STAGES)}
    gateway, worker = Notes(), Notes()
    gateway.of_request[request] = {stage: at[stage] for stage in ("send", "read", "decide", "wait", "answer")}
    gateway.of_ticket[ticket] = {"back": at["back"]}
    gateway.tickets[ticket] = request
    worker.of_ticket[ticket] = {stage: at[stage] for stage in ("hand over", "decode", "infer")}
    gateway.write(folder, "gateway")
    worker.write(folder, "worker")
    return {request: (0.0, at["encode"], at["receive"], at["open"])}


def test_stages_of_three_processes_become_one_path(tmp_path: Path) -> None:
    trips = notes_of(70, 3, tmp_path)
    [(number, stamps)] = paths(trips, tmp_path)
    assert number == 70
    assert [round(1000 * (b - a), 6) for a, b in pairwise(stamps)] == [1.0] * len(STAGES)


def test_a_request_that_one_process_did_not_note_is_not_followed(tmp_path: Path) -> None:
    trips = notes_of(70, 3, tmp_path)
    next(tmp_path.glob("worker*")).unlink()
    assert dict(paths(trips, tmp_path)) == {}


def test_what_the_stamps_cost_and_whom_they_miss_is_judged(tmp_path: Path) -> None:
    trips = notes_of(70, 3, tmp_path)
    rows = path.rows_of(60, {16: trips}, {16: trips}, {16: 0.003}, tmp_path)
    assert [aim["holds"] for aim in path.judge(rows)] == [True, True, False], (
        "3 ms of the gateway are too many"
    )
    rows = path.rows_of(60, {16: {**trips, 71: trips[70]}}, {16: trips}, {16: 0.0001}, tmp_path)
    assert not path.judge(rows)[0]["holds"], "one of two is not followed"
    assert "hand over" in path.table(rows)


@pytest.mark.parametrize("kilobytes", path.PICTURES)
def test_pictures_are_about_as_large_as_said(kilobytes: int) -> None:
    made = path.picture(kilobytes)
    assert 0.9 < len(made.data) / (1000 * kilobytes) < 1.1
    assert (made.height, made.width) == path.PICTURES[kilobytes]
