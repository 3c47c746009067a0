"""What a gateway tells is what the page shows: the hub of the one is read by the model of the other."""

from __future__ import annotations

from rosa_contract.wire import codec
from rosa_contract.wire.status import ComponentStatus, OpenAlert, Status
from rosa_server.dashboard.model import FleetModel
from tests.unit.server.serving.watching.test_hub import Watched

ALERT = OpenAlert(17, "slo_missed", "no answer within 300 ms", ("resume", "abort"))


def test_everything_that_a_gateway_tells_can_be_read() -> None:
    told, model = Watched(), FleetModel()
    told.stage.open("r1", "r2")
    told.stage.send("r1")
    told.stage.wait(0.05)
    told.run_batch()
    components = (ComponentStatus("system1", 300.0, 80.0, 120.0, 9, 8, 1, 0, 0),)
    [frame] = codec.encode(Status("waiting_for_human", "late", True, 1, 1, False, components, ALERT))
    told.hub.reported("r1", bytes(frame), ALERT)
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
