"""What a gateway tells is what the page shows: the hub of the one is read by the model of the other."""

from __future__ import annotations

from dataclasses import replace

from rosa_contract.wire import codec
from rosa_contract.wire.status import (
    HAS_ALERT,
    HAS_AUDITS,
    HAS_NEWS,
    Audit,
    ComponentStatus,
    EndedCall,
    OpenAlert,
    Status,
)
from rosa_server.dashboard.memory import timeline
from rosa_server.dashboard.model import FleetModel
from rosa_server.dashboard.notices import Notices
from rosa_server.dashboard.robots import Robots
from rosa_server.serving.watching.hub import STATE, Hub
from tests.unit.server.serving.watching.test_hub import Watched

CALLS = (EndedCall("system1", 7, "in_time", 80.0, 100.0),)
ALERT = OpenAlert(17, "slo_missed", "no answer within 300 ms", ("resume", "abort"))


def test_everything_that_a_gateway_tells_can_be_read() -> None:
    told, model = Watched(), FleetModel()
    told.stage.open("r1", "r2")
    told.stage.send("r1")
    told.stage.wait(0.05)
    told.run_batch()
    components = (ComponentStatus("system1", 300.0, 80.0, 120.0, 9, 8, 1, 0, 0),)
    [frame] = codec.encode(Status("waiting_for_human", "late", True, 1, 1, False, components, ALERT))
    told.hub.reported("r1", bytes(frame), ALERT, HAS_ALERT)
    told.hub.happened(told.stage.now_s, "robot_joined", robot="r2", task="pick")
    for number, message in enumerate(told.run(3.0)):
        model.hear(message, number / 100)
        assert model.problem == ""
    model.refresh(10.0)
    rows = {one.robot: one.row for one in model.robots}
    assert set(rows) == {"r1", "r2"}
    assert {row["task"] for row in rows.values()} == {"pick"}
    assert rows["r1"]["alert"]["id"] == 17 and rows["r2"]["alert"] is None
    assert rows["r1"]["deadlines"][0][:2] == ["system1", 300.0]
    totals = model.totals(10.0)
    assert totals["robots"] == 2 and totals["servers"] and totals["problem"] == ""
    epoch = told.stage.core.router.placement.epoch
    assert totals["epoch"] == epoch and {one["epoch"] for one in totals["servers"]} == {epoch}


def test_a_page_hears_of_a_row_only_what_has_changed() -> None:
    robots = Robots()
    calls = ["system1", 300.0, 9, 8, 200.0, 180.0]
    robots.listed(
        10.0, 1.0, [["r1", "pick", "pick 1", 0.0, True, [calls]], ["r2", "pick", "", 0.0, True, []]]
    )
    robots.refresh(10.0)
    whole, _ = robots.changes(0)
    assert [row["robot"] for row in whole] == ["r1", "r2"]
    assert all(row == {**one.row} for row, one in zip(whole, robots, strict=True))
    seen = robots.version
    robots.listed(11.0, 2.0, [["r1", "pick", "pick 1", 0.0, True, [[*calls[:2], 11, 10, 200.0, 180.0]]]])
    robots.refresh(11.0)
    [patch], _ = robots.changes(seen)
    assert set(patch) == {"robot", "deadlines", "rate_hz"}
    late, _ = robots.changes(seen - 1)  # who had not heard of r2 yet
    assert {row["robot"]: set(row) >= {"task", "state"} for row in late} == {"r1": False, "r2": True}
    robots.left("r1")
    robots.listed(12.0, 3.0, [["r1", "pick", "pick 1", 0.0, True, []]])
    robots.refresh(12.0)
    [again], gone = robots.changes(robots.version - 1)
    assert again == robots.get("r1").row and gone == [], "a robot that comes again comes whole"


def test_a_state_of_which_nothing_was_heard_is_not_drawn_as_if_it_had_lasted() -> None:
    robots = Robots()

    def say(now_s: float, state: str) -> None:
        components = (ComponentStatus("system1", 300.0, 80.0, 120.0, 9, 8, 1, 0, 0),)
        [frame] = codec.encode(Status(state, "", True, 1, 1, False, components, calls=CALLS))
        robots.reported(now_s, "r1", HAS_NEWS, bytes(frame))

    for now_s in (10.0, 11.0, 12.0):
        say(now_s, "executing")
    say(40.0, "waiting_for_human")  # its server was dead meanwhile
    one = robots.get("r1")
    assert one is not None

    def states(now_s: float) -> list[tuple[float, str]]:
        told = timeline(one.memory.reports(now_s), now_s, one.memory.gaps(now_s))["states"]
        return [(now_s - ago_s, state) for ago_s, state in told]

    heard = [(10.0, "executing"), (12.0, "silent"), (40.0, "waiting_for_human")]
    assert states(41.0) == heard
    assert states(50.0) == [*heard, (40.0, "silent")], "and nothing is heard now"


def test_how_long_a_robot_has_waited_goes_on_when_a_decision_is_refused() -> None:
    robots = Robots()
    audits = (Audit(17, "abort", "ben", "", False, "anna was first"),)
    for now_s, held in ((10.0, HAS_ALERT), (14.0, HAS_ALERT | HAS_NEWS | HAS_AUDITS)):
        told = Status("waiting_for_human", alert=ALERT, audits=audits if held & HAS_AUDITS else ())
        robots.reported(now_s, "r1", held, bytes(codec.encode(told)[0]))
        robots.refresh(now_s)
    one = robots.get("r1")
    assert one is not None and one.row["alert"]["since_s"] == 10.0


def test_a_new_alert_has_waited_since_it_came_though_no_report_was_between() -> None:
    robots = Robots()
    for now_s, number in ((10.0, 17), (300.0, 18)):
        told = Status("waiting_for_human", alert=replace(ALERT, alert_id=number))
        robots.reported(now_s, "r1", HAS_ALERT, bytes(codec.encode(told)[0]))
        robots.refresh(now_s)
    one = robots.get("r1")
    assert one is not None and (one.row["alert"]["id"], one.row["alert"]["since_s"]) == (18, 300.0)


def test_a_gateway_that_is_started_again_on_its_machine_makes_no_figure_negative() -> None:
    """Its counters begin at zero, and its clock, which is the machine's, goes on."""
    told, model = Watched(), FleetModel()
    told.stage.open("r1")
    for _ in range(3):
        told.stage.send("r1")
        told.stage.wait(0.05)
        told.run_batch()
        told.run(1.0)
    before = list(told.heard)
    told.hub = Hub(told.hub.factory, told.hub.about)
    told.hub.watch(True)
    for now_s, messages in ((1.0, before), (2.0, told.run(2.0))):
        for message in messages:
            model.hear(message, now_s)
    assert {one["utilisation"] for one in model.totals(2.0)["servers"]} == {0.0}
    for now_s in (3.0, 4.0):
        told.stage.send("r1")
        told.stage.wait(0.05)
        told.run_batch()
        for message in told.run(1.0):
            model.hear(message, now_s)
    model.refresh(4.0)
    one = model.robots.get("r1")
    assert one is not None and one.row["rate_hz"] > 0.0, "of what it has counted itself"


def test_the_chart_goes_on_when_the_gateways_machine_was_started_again() -> None:
    """Its clock begins anew then, so that it says a smaller time than before."""
    told, model = Watched(), FleetModel()
    told.stage.open("r1")
    for now_s, start_s in enumerate((90_000.0, 200.0)):
        told.stage.now_s = start_s
        told.hub = Hub(told.hub.factory, told.hub.about)
        told.hub.watch(True)
        before = len(model.history)
        for message in told.run(5.0):
            model.hear(message, float(now_s))
        assert len(model.history) - before >= 3


def test_an_alert_does_not_end_because_its_server_was_away_for_longer_than_a_robot_may_be() -> None:
    """The robot still waits, and comes back after its server; with the same key, nobody would be told a second time."""
    told, model, notices = Watched(), FleetModel(), Notices()
    told.stage.open("r1")
    [frame] = codec.encode(Status("waiting_for_human", "late", alert=ALERT))
    told.hub.reported("r1", bytes(frame), ALERT, HAS_ALERT)
    news = []

    def look(now_s: float) -> None:
        model.refresh(now_s)
        rows = [one.row for one in model.robots if one.row]
        news.extend(one.event for one in notices.look(rows, model.silent_s(now_s), model.wall_s(now_s)))

    for now_s in (10.0, 110.0):  # nothing in between
        for message in told.run(1.0):
            if now_s == 10.0 or message[0] == STATE:  # no robot has come back yet
                model.hear(message, now_s)
        look(now_s)
        look(now_s + 50.0)
    assert news == ["alert_opened", "server_silent", "server_back", "server_silent"]
