"""`rosa plan` makes a schedule, `rosa serve --schedule` runs it, and real robots find what was planned."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from rosa_contract.wire import messages as m
from rosa_contract.wire.images import EncodedImage
from tests.system.schedule.plans import planned, rosa_plan
from tests.system.server_harness import PATIENCE_S, ROOT, Robot, Server, robot, serving


def wait_for(server: Server, event: str, **fields: str) -> dict[str, Any]:
    """The first log line of an event with these fields."""
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        for line in server.events(event):
            if all(line[key] == value for key, value in fields.items()):
                return line
        time.sleep(0.05)
    raise AssertionError(f"no {event} with {fields}:\n{server.log()}")


def ask(robots: Sequence[tuple[Robot, str]], number: int) -> dict[tuple[str, str], float]:
    """One call of every stream at once: (robot, component) -> ms until it was answered `ok`."""
    sent_s = {}
    for one, component in robots:
        sent_s[one.name, component] = time.monotonic()
        one.request(number, component=component, budget_ms=10_000, images={})
    took = {}
    for one, component in robots:
        answer = one.answer()
        assert (answer.request_id, answer.status) == (number, "ok"), answer
        took[one.name, component] = (time.monotonic() - sent_s[one.name, component]) * 1000
    return took


def test_a_killed_server_is_replaced_by_its_standby_and_other_streams_are_untouched(tmp_path: Path) -> None:
    with planned(tmp_path, "--standby", "1") as (server, plan), ExitStack() as stack:
        assert [one["model"] for one in plan["servers"] if not one["standby"]].count("emulated/policy") == 2
        server.start()
        tasks = {"p0": "pick", "p1": "pick", "s0": "sort"}
        cameras: dict[str, Any] = {}
        robots = {
            name: stack.enter_context(robot(server, name)).join(task, cameras=cameras)
            for name, task in tasks.items()
        }
        for name in tasks:
            welcome = robots[name].hello(tasks[name], cameras=cameras)
            assert isinstance(welcome, m.Welcome)
            assert welcome.rates_hz == plan["rates_hz"][tasks[name]]
        # Slots are given in the order of arrival.
        slots = {"p0": "pick/0", "p1": "pick/1", "s0": "sort/0"}
        streams = [(robots[name], "system1") for name in robots]
        ask(streams, 1)
        wait_for(server, "worker_ready", worker="standby0/emulated/policy/0.1")

        failed = plan["routing"]["pick/0"]["system1"]
        hit = {name for name, slot in slots.items() if plan["routing"][slot]["system1"] == failed}
        assert hit != set(slots), "somebody uses another server, or nothing would be seen"
        os.kill(wait_for(server, "worker_started", worker=f"{failed}/0.1")["pid"], signal.SIGKILL)
        ask(streams, 2)
        ask([(robots["p0"], "safety"), (robots["p1"], "safety")], 3)
        assert not [line for line in server.events("worker_ready") if line["worker"] == f"{failed}/0.2"], (
            "the answers came before the failed worker was back"
        )
        moved = wait_for(server, "streams_moved", of=failed)
        assert moved["to"] == "standby0/emulated/policy"
        assert "SIGKILL" in moved["reason"]
        assert {line["of"] for line in server.events("streams_moved")} == {failed}

        wait_for(server, "worker_ready", worker=f"{failed}/0.2")
        wait_for(server, "streams_moved", of=failed, to=failed)
        ask(streams, 4)


def test_robots_beyond_the_plan_are_admitted_until_something_binds_and_faster_when_others_leave(
    tmp_path: Path,
) -> None:
    with planned(tmp_path) as (server, plan), ExitStack() as stack:
        server.start()
        for place in {place for routes in plan["routing"].values() for place in routes.values()}:
            wait_for(server, "worker_ready", worker=f"{place}/0.1")  # else some are refused as `not_ready`
        names = iter(f"r{number}" for number in range(100))
        welcomed = [stack.enter_context(robot(server, next(names))).join(cameras={})]
        refused = None
        while refused is None:
            one = stack.enter_context(robot(server, next(names)))
            answer = one.hello(cameras={})
            if isinstance(answer, m.Welcome):
                welcomed.append(one)
                assert answer.rates_hz["system1"] >= 2
                slowest_hz = answer.rates_hz["system1"]
            else:
                refused = answer
        assert len(welcomed) > 2, f"two were planned, and the servers are not full with them: {refused}"
        assert len(welcomed) < 40
        assert refused.cause == "not_admitted"
        assert "the 2 planned slots of task pick are taken" in refused.reason
        assert "req/s" in refused.reason or "longer rounds" in refused.reason
        admitted = server.events("robot_admitted")
        assert len(admitted) == len(welcomed) - 2

        *leaving, one, other = welcomed  # the planned ones leave too: it is the number that counts
        for left in leaving:
            left.send(m.Bye())
        wanted = plan["rates_hz"]["pick"]
        assert slowest_hz < wanted["system1"]
        for staying in (one, other):
            while (told := staying.receive()).rates_hz["system1"] < wanted["system1"] * (1 - 1e-6):
                assert isinstance(told, m.Welcome)
            assert told.rates_hz == wanted, "as many robots as planned are here, at the planned rates"


def test_the_shipped_cell_runs_from_its_plan(tmp_path: Path) -> None:
    shipped = (ROOT / "configs" / "pick_place.yaml").read_text().replace("{", "{{").replace("}", "}}")
    factory = shipped + 'gateway: {{bind: "tcp://127.0.0.1:{port}", metrics_port: {metrics_port}}}\n'
    with serving(
        tmp_path, factory=factory, arguments=["--schedule", str(tmp_path / "plan.json")], wait=True
    ) as server:
        plan = rosa_plan(server.config)
        server.start()
        pixels = {name: EncodedImage("rgb8", 96, 96, bytes(96 * 96 * 3)) for name in ("front", "wrist")}
        state = {"joint_position": np.zeros(7, np.float32), "gripper_width": np.zeros(1, np.float32)}
        with robot(server) as panda:
            cameras = dict.fromkeys(pixels, m.CameraInfo(height=96, width=96, encoding="rgb8"))
            panda.join("pick_and_place", cameras=cameras, state={"joint_position": 7, "gripper_width": 1})
            for number, component in enumerate(("system1", "monitor")):
                panda.request(number, component=component, images=pixels, state=state)
                answer = panda.answer()
                assert (answer.request_id, answer.status) == (number, "ok"), answer
        replicas = server.events("server_started")[0]["replicas"]
        assert replicas == {one["id"]: one["model"] for one in plan["servers"]}


def test_a_plan_that_does_not_fit_is_refused_with_its_dotted_path(tmp_path: Path) -> None:
    with planned(tmp_path) as (server, plan):
        del plan["routing"]["pick/1"]["safety"]
        plan["servers"][0]["batch"] = 0
        (tmp_path / "plan.json").write_text(json.dumps(plan))
        server.start()
        assert server.process is not None
        assert server.process.wait(PATIENCE_S) == 2
        assert "servers[0].batch: must be >= 1, got 0" in server.log()
        plan["servers"][0]["batch"] = 1
        (tmp_path / "plan.json").write_text(json.dumps(plan))
        server.start()
        assert server.process.wait(PATIENCE_S) == 2
        assert "routing.pick/1.safety: is missing" in server.log()
