"""The operator's panel with real nodes: RViz's clicks, the shell, two operators at once, a panel that comes late.

One bring-up for all stories: panda0 calls a human again and again, panda1 works. The stories stand in their order.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import rclpy
from rosa_interfaces.msg import OperatorAudit
from rosa_interfaces.srv import OperatorDecision

from rosa_client.bringup.bringup import Bringup, node_command
from rosa_client.bringup.graph import NodeSpec
from rosa_client.runtime.choices import ALERT_NUMBERS, first_alert
from tests.system.domains import own_domain
from tests.system.operator.place import ROOT, Floor, Rviz, begin, place
from tests.system.services import known_by, node_of

pytestmark = pytest.mark.slow
LATE, EASY = "panda0", "panda1"
WAITING = "waiting_for_human"
LATE_PANEL = "late_panel"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bringup, Floor, Rviz]]:
    """Two robots at work, watched from the floor and in RViz."""
    with place(tmp_path_factory.mktemp("operator")) as bringup:
        begin()
        floor, rviz = Floor((LATE, EASY)), Rviz("rviz")
        try:
            rviz.connect()
            floor.start(EASY, "easy")
            floor.start(LATE, "late")
            yield bringup, floor, rviz
        finally:
            floor.close()
            rviz.close()
            rclpy.try_shutdown()


@pytest.fixture
def floor(running: tuple[Bringup, Floor, Rviz]) -> Floor:
    dead = running[0].supervisor.ended().keys() - {LATE_PANEL}
    assert not dead, f"{dead}; {running[0].failure()}"
    return running[1]


@pytest.fixture
def rviz(running: tuple[Bringup, Floor, Rviz]) -> Rviz:
    return running[2]


def open_alert(rviz: Rviz, robot: str = LATE, after: int = 0) -> int:
    """The number of the alert whose choices stand above a robot, once it is a newer one than `after`."""

    def number() -> int:
        found = [re.fullmatch(r"decide/(\d+)/resume", name) for name in rviz.offered(robot)]
        return max([int(match[1]) for match in found if match and int(match[1]) > after], default=0)

    return int(rviz.until(number, f"choices above {robot} after alert {after}"))


def settled(floor: Floor) -> int:
    """The number of the newest alert of the late robot that somebody has answered."""
    return max((audit.alert_id for audit in floor.audits[LATE]), default=0)


def operator(*words: str) -> subprocess.CompletedProcess[str]:
    """`rosa operator ...` in a process of its own."""
    return at_once(words)[0]


def at_once(*commands: Sequence[str]) -> list[subprocess.CompletedProcess[str]]:
    """Several of them side by side; patient, as machines that test are busy."""
    begun = []
    for words in commands:
        patience = () if "--wait" in words else ("--wait", "20")
        command = [sys.executable, "-m", "rosa_server.cli", "operator", *words, *patience]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        pipe = subprocess.PIPE
        begun.append(
            subprocess.Popen(command, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe, text=True)
        )
    try:
        said = [process.communicate(timeout=90) for process in begun]
    finally:
        for process in begun:
            process.kill()
    return [
        subprocess.CompletedProcess(process.args, process.returncode, out, err)
        for process, (out, err) in zip(begun, said, strict=True)
    ]


def test_the_panel_finds_every_robot_by_its_topics(rviz: Rviz) -> None:
    rviz.until(lambda: {"/panda0", "/panda1", "/"} <= set(rviz.markers), "a board for each and one for all")
    places = {marker.pose.position.y for marker in rviz.markers.values()}
    assert len(places) == 3, "none stands in another"
    rviz.until(lambda: "panda1: easy" in rviz.text("panda1/state"), "what panda1 does")
    assert "emergency_stop" in rviz.offered(EASY)
    rviz.until(lambda: "server: up" in rviz.text("panda1/lights"), "its lights")
    rviz.until(lambda: ("panda1/path", 0) in rviz.drawn, "the path of a chunk")


def test_one_robot_calls_a_human_and_is_resumed_while_the_other_works(floor: Floor, rviz: Rviz) -> None:
    number = open_alert(rviz)
    assert (first_alert(time.time()) - number) % ALERT_NUMBERS < 600, "numbers go on from the time of day"
    assert floor.until(lambda: floor.status[LATE].state == WAITING, "the robot to wait")
    assert f"ALERT {number}" in rviz.words(LATE)
    before, seen = floor.status[EASY].round, len(floor.states[EASY])
    floor.pause(1.5)
    assert floor.status[LATE].state == WAITING, "nothing moves without a decision"
    assert floor.status[EASY].round > before
    rviz.press(LATE, f"decide/{number}/resume")
    audit = floor.audit(LATE, lambda a: a.alert_id == number)
    assert (audit.accepted, audit.choice, audit.decided_by) == (True, "resume", "anna (/rviz)")
    assert "panel" in audit.why
    rviz.until(
        lambda: "resume by anna (/rviz): accepted" in rviz.text("panda0/state"), "the outcome above it"
    )
    assert open_alert(rviz, after=number), "it went on, and calls again"
    floor.pause(0.5)
    assert WAITING not in floor.states[EASY][seen:]


def test_the_menu_decides_like_the_button(floor: Floor, rviz: Rviz) -> None:
    number = open_alert(rviz, after=settled(floor))
    rviz.select(LATE, rviz.entry(LATE, "resume"))
    audit = floor.audit(LATE, lambda a: a.alert_id == number)
    assert audit.accepted
    assert "menu" in audit.why
    assert open_alert(rviz, after=number), "it went on, and calls again"


def test_a_click_on_a_menu_of_a_settled_alert_is_not_taken_for_the_next(floor: Floor, rviz: Rviz) -> None:
    number = open_alert(rviz, after=settled(floor))
    old = rviz.entry(LATE, "resume")
    rviz.press(LATE, f"decide/{number}/resume")
    newer = open_alert(rviz, after=number)
    rviz.select(LATE, old)
    audit = floor.audit(LATE, lambda a: a.alert_id == number and not a.accepted)
    assert f"the open one is {newer}" in audit.reason
    assert floor.status[LATE].state == WAITING
    rviz.until(lambda: "refused, alert" in rviz.text("panda0/state"), "the refusal above the robot")


def test_two_operators_at_once_the_first_wins_and_the_second_is_told(floor: Floor, rviz: Rviz) -> None:
    number = open_alert(rviz)
    other = Rviz("other_rviz")
    other.connect()
    try:
        rviz.press(LATE, f"decide/{number}/resume")
        other.press(LATE, f"decide/{number}/retry")

        def answers() -> list[OperatorAudit]:
            return [audit for audit in floor.audits[LATE] if audit.alert_id == number]

        floor.until(lambda: len(answers()) == 2, "both to be answered")
        winner, loser = answers()
        assert (winner.accepted, loser.accepted) == (True, False)
        assert f"{winner.decided_by} decided {winner.choice}" in loser.reason
        assert {winner.decided_by, loser.decided_by} == {"anna (/rviz)", "anna (/other_rviz)"}
    finally:
        other.close()


def test_two_clients_that_ask_in_the_same_instant_get_one_yes(floor: Floor, rviz: Rviz) -> None:
    number = open_alert(rviz, after=settled(floor))
    name = f"/{LATE}/runtime_node/operator_decision"
    clients = [floor.node.create_client(OperatorDecision, name) for _ in range(2)]
    floor.until(lambda: all(client.service_is_ready() for client in clients), name)
    with known_by(floor.node, node_of(name)) as known:
        floor.until(known, "the robot to know both")
    futures = [
        client.call_async(OperatorDecision.Request(alert_id=number, choice="resume", decided_by=who))
        for client, who in zip(clients, ("ben", "carla"), strict=True)
    ]
    floor.until(lambda: all(future.done() for future in futures), "both answers")
    results = [future.result() for future in futures]
    assert sorted(result.accepted for result in results) == [False, True]
    (told,) = [result.reason for result in results if not result.accepted]
    assert "is settled: " in told
    assert "decided resume" in told
    for client in clients:
        floor.node.destroy_client(client)


def test_a_panel_that_starts_late_sees_the_open_alert(
    running: tuple[Bringup, Floor, Rviz], rviz: Rviz
) -> None:
    number = open_alert(rviz, after=settled(running[1]))
    running[1].pause(1.0)  # the alert is old news by now
    late = NodeSpec("operator_node", "operator_node", "/late", {})
    running[0].supervisor.start(LATE_PANEL, node_command(late))
    screen = Rviz("late_rviz", "/late/operator")
    try:
        screen.connect()
        assert open_alert(screen) == number
        screen.until(lambda: f"ALERT {number}" in screen.words(LATE), "its words")
        screen.until(lambda: "by ben" in screen.words(LATE) or "by carla" in screen.words(LATE), "the audit")
    finally:
        screen.close()
        running[0].supervisor.kill(LATE_PANEL)


def listed() -> dict[str, dict[str, Any]]:
    """What `rosa operator list` finds; on a busy machine a first look may miss a robot."""
    for _ in range(5):
        found = operator("list", "--json")
        assert found.returncode == 0, found.stderr
        robots = {entry["robot"]: entry for entry in json.loads(found.stdout)}
        if {LATE, EASY} <= set(robots) and robots[LATE]["alert"] is not None:
            break
    return robots


def test_the_shell_lists_decides_and_audits(floor: Floor, rviz: Rviz) -> None:
    number = open_alert(rviz)
    robots = listed()
    assert robots[LATE]["alert"]["id"] == number
    assert robots[EASY]["alert"] is None
    said, wrong = at_once(["list", LATE], ["decide", LATE, "dance", "--why", "for fun", "--by", "dora"])
    assert said.stdout.startswith(f"{LATE}: "), said.stderr
    assert EASY not in said.stdout
    assert f"ALERT {number}" in said.stdout
    assert "decide: rosa operator decide panda0 CHOICE --why" in said.stdout
    assert "CHOICE: resume | retry | return_to_safe_state | abort" in said.stdout
    assert wrong.returncode == 1
    assert f"{LATE}: alert {number} (" in wrong.stderr, "which alert it was about"
    assert "expected one of resume" in wrong.stderr
    right = operator("decide", LATE, "resume", "--alert", str(number), "--why", "seen to it", "--by", "dora")
    assert right.returncode == 0, right.stderr
    audit = floor.audit(LATE, lambda a: a.decided_by == "dora" and a.accepted)
    assert (audit.alert_id, audit.why) == (number, "seen to it")
    told = operator("audit", LATE)
    assert f'alert {number}: resume by dora: accepted; why: "seen to it"' in told.stdout
    assert "dance by dora: refused" in told.stdout


def test_the_shell_explains_what_it_did_not_find(floor: Floor) -> None:
    nobody, idle = at_once(
        ["decide", "panda7", "resume", "--why", "x", "--wait", "5"],
        ["decide", EASY, "resume", "--why", "x", "--wait", "5"],
    )
    assert nobody.returncode == 2
    assert "no robot 'panda7'; found: panda0, panda1" in nobody.stderr
    assert idle.returncode == 2
    assert "panda1 waits for no decision: it is " in idle.stderr


def test_the_emergency_stop_of_the_panel_latches_until_it_is_released(floor: Floor, rviz: Rviz) -> None:
    rviz.press(EASY, "emergency_stop")
    floor.until(lambda: floor.status[EASY].state == WAITING, "panda1 to stop")
    expected = ["emergency_stop", "abort", "release_emergency_stop"]  # the alert and the latch are two topics
    rviz.until(lambda: [name.rpartition("/")[2] for name in rviz.offered(EASY)] == expected, "a release")
    rviz.until(lambda: "EMERGENCY STOP IS LATCHED" in rviz.words(EASY), "it to be said")
    rviz.press(EASY, "release_emergency_stop")
    audit = floor.audit(EASY, lambda a: a.choice == "release_emergency_stop")
    assert (audit.accepted, audit.decided_by) == (True, "anna (/rviz)")
    floor.pause(1.0)
    assert floor.status[EASY].state == WAITING, "a release alone moves nothing"
    number = open_alert(rviz, EASY)
    before = floor.status[EASY].round
    rviz.press(EASY, f"decide/{number}/resume")
    floor.until(lambda: floor.status[EASY].round > before, "panda1 to work again")


def test_the_shell_stops_all_and_releases_one(floor: Floor, rviz: Rviz) -> None:
    stopped = operator("stop", "all")
    assert stopped.returncode == 0, stopped.stderr
    for name in (LATE, EASY):
        rviz.until(lambda name=name: "release_emergency_stop" in rviz.offered(name), f"{name} to be stopped")
    released = operator("release", EASY, "--why", "the cell is empty", "--by", "dora")
    assert released.returncode == 0, released.stderr
    assert floor.audit(EASY, lambda a: a.decided_by == "dora").why == "the cell is empty"
    rviz.until(lambda: "release_emergency_stop" not in rviz.offered(EASY), "panda1 to be released")
    assert "release_emergency_stop" in rviz.offered(LATE), "and only that one"
    # On a busy machine the shell may find this robot only when it looks again.
    latched = "EMERGENCY STOP is latched: rosa operator release panda0"
    floor.until(lambda: latched in operator("list").stdout, "the shell to list the stopped robot")


def test_an_open_menu_is_left_alone_while_nothing_changes(floor: Floor, rviz: Rviz) -> None:
    """RViz closes the menu of a marker that is sent again."""
    rviz.pause(0.5)
    rviz.replaced.clear()
    rviz.pause(3.0)
    assert rviz.replaced == []


def test_a_runtime_that_dies_is_shown_as_silent_and_its_arm_can_still_be_stopped(
    running: tuple[Bringup, Floor, Rviz], rviz: Rviz
) -> None:
    running[0].supervisor.kill("panda1/runtime_node")
    rviz.until(lambda: "no sign of life" in rviz.text("panda1/state"), "the silence to be said")
    rviz.press(EASY, "emergency_stop")
    rviz.until(lambda: "EMERGENCY STOP IS LATCHED" in rviz.words(EASY), "the arm to be stopped")
    number = 99
    rviz.press(EASY, f"decide/{number}/resume")
    # DDS believes in a killed node for some seconds; what is asked then is not answered.
    honest = ("does not answer", "no answer within 5 s")
    rviz.until(lambda: any(text in rviz.words(EASY) for text in honest), "an honest answer")


def test_the_shell_says_where_it_looked_when_nobody_is_there(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rosa_server.cli", "operator", "list", "--wait", "1"]
    with own_domain() as domain:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
        )
    assert done.returncode == 2
    assert "no robot found within 1 s" in done.stderr
    assert f"ROS_DOMAIN_ID (here {domain})" in done.stderr
