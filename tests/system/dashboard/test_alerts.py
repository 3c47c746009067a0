"""An alert leaves the building: a webhook that is down at first and a program hear of it, without a browser."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rosa_contract.wire import messages as m
from rosa_contract.wire.status import OpenAlert
from tests.system.dashboard.page import dashboard
from tests.system.dashboard.test_watching import until
from tests.system.server_harness import robot, serving
from tests.unit.server.dashboard.test_hooks import Somebody

ALERT = OpenAlert(17, "slo_missed", "no answer within 300 ms", ("resume", "abort"))


def status(alert: OpenAlert | None) -> m.Status:
    state = "executing" if alert is None else "waiting_for_human"
    return m.Status(state, "", True, 3, 1, False, (), alert)


def test_an_alert_is_told_to_a_webhook_that_was_down_and_to_a_program(tmp_path: Path) -> None:
    somebody, told = Somebody(), tmp_path / "told"
    somebody.status = 503
    program = f'{sys.executable} -c \'import os; open("{told}", "a").write(os.environ["ROSA_EVENT"] + " ")\''

    def heard() -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in somebody.heard]

    socket = tmp_path / "private" / "watch"
    try:
        with (
            serving(tmp_path, gateway=f', watch: "ipc://{socket}"') as server,
            robot(server, "panda0") as panda,
            dashboard(f"ipc://{socket}", tmp_path, "--webhook", somebody.url, "--on-alert", program),
        ):
            panda.join()

            def report(alert: OpenAlert | None) -> bool:
                panda.send(status(alert))
                return True

            until(lambda: report(ALERT) and told.exists() and len(somebody.heard) >= 1, "the first telling")
            somebody.status = 200
            until(lambda: report(ALERT) and len(somebody.heard) >= 2, "the telling again")
            assert {one["key"] for one in heard()} == {"alert_opened:panda0:17"}
            until(lambda: report(None) and heard()[-1]["event"] == "alert_ended", "the end")
            until(lambda: told.read_text().split() == ["alert_opened", "alert_ended"], "the program")
            log = (tmp_path / "dashboard.log").read_text()
        assert '"alert_told_again_later"' in log and '"alert_told"' in log
    finally:
        somebody.close()
