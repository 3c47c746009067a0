"""Why a robot has no server is told with the server's address, wherever it is read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rosa_client.loops.loop import RobotLoop, with_server
from rosa_client.motion.refusal import Refusal
from rosa_client.runtime.commands import Alert, CallEnded, Command, Decision, Send, TaskEnded
from rosa_client.sensing.picture_quality import PictureQuality
from rosa_contract.config.cameras import CameraSpec
from rosa_contract.wire.images import encode_image
from rosa_contract.wire.messages import OK, Decide, Decided, Request, Response
from rosa_contract.wire.progress import Progress
from rosa_contract.wire.status import Audit
from tests.unit.client.runtime.stage import SYSTEM2, Stage

AT = "tcp://gpu-box:5570"


@pytest.mark.parametrize(
    ("ready", "reason", "told"),
    [
        (False, "unknown_task: no task 'x'", f"{AT}: unknown_task: no task 'x'"),
        (False, f"no answer from a gateway at {AT} yet", f"no answer from a gateway at {AT} yet"),
        (True, "", ""),
    ],
)
def test_a_reason_names_the_server_once(ready: bool, reason: str, told: str) -> None:
    link: Any = SimpleNamespace(ready=ready, endpoint=AT, reason=reason)
    assert with_server(link) == told


def test_calls_with_one_number_are_about_one_observation_and_those_with_another_observe_again() -> None:
    sent: list[Request] = []
    looks = iter(range(10))
    link: Any = SimpleNamespace(send=lambda request, now_s: sent.append(request) or True, reason="")
    body: Any = SimpleNamespace(
        observe=lambda: ({"look": np.array([next(looks)])}, {}), publish=lambda message: None
    )
    core: Any = SimpleNamespace()
    loop = RobotLoop(core, link, body)
    loop._carry([call(1, 7), call(2, 7)], 0.0)
    loop._carry([call(3, 7)], 0.05)
    loop._carry([call(4, 8)], 0.1)
    assert [request.observation for request in sent] == [7, 7, 7, 8]
    assert [int(request.state["look"][0]) for request in sent] == [0, 0, 0, 1]


def call(request_id: int, observation: int, component: str = "system1") -> Send:
    return Send(request_id, component, 100.0, "", observation=observation)


def test_what_system_2_has_seen_is_what_system_1_acts_on_also_when_others_have_looked_since() -> None:
    """As the core asks where calls share observations: safety and the monitor look while System 2 plans."""
    stage = Stage(
        SYSTEM2,
        "    safety: {model: s, slo_ms: 200, freq_hz: 10, fallback: stop_and_replan}",
        pipeline="share_observation_ms: 450",
    )
    stage.good = {"safety": "safe"}
    stage.start()
    planned = stage.send_of("system2")
    stage.run(0.25)
    stage.answer(planned, text="open")
    stage.run(0.05)
    asked = [one for _, one in stage.events if isinstance(one, Send)]
    acts = next(one for one in asked if one.component == "system1")
    looks_between = {one.observation for one in asked[asked.index(planned) + 1 : asked.index(acts)]}
    assert acts.observation == planned.observation and len(looks_between) == 2
    sent: list[Request] = []
    looks = iter(range(100))
    link: Any = SimpleNamespace(send=lambda request, now_s: sent.append(request) or True, reason="")
    body: Any = SimpleNamespace(
        observe=lambda: ({"look": np.array([next(looks)])}, {}), publish=lambda message: None
    )
    core: Any = SimpleNamespace()
    loop = RobotLoop(core, link, body)
    for one in asked:
        loop._carry([one], 0.0)
        assert len(loop._seen) <= 2, "no more is kept than may be named again"
    shown = {(request.observation, int(request.state["look"][0])) for request in sent}
    assert len(shown) == len({number for number, _ in shown}), "one number, one look"


def test_the_server_is_told_of_a_cancelled_call_before_the_next_request_and_of_no_other_ending() -> None:
    told: list[object] = []
    link: Any = SimpleNamespace(
        send=lambda request, now_s: told.append(request.request_id) or True,
        cancel=lambda request_id, now_s: told.append(("cancel", request_id)),
        reason="",
    )
    published: list[Command] = []
    body: Any = SimpleNamespace(observe=lambda: ({}, {}), publish=published.append)
    core: Any = SimpleNamespace()
    ends = [
        CallEnded("system1", 1, "cancelled", 10.0, 100.0),
        CallEnded("safety", 2, "missed", 10.0, 100.0),
        CallEnded("monitor", 3, "in_time", 10.0, 100.0),
    ]
    RobotLoop(core, link, body)._carry([*ends, Send(4, "system1", 100.0, "")], 0.0)
    assert told == [("cancel", 1), 4]
    assert published == [*ends, Send(4, "system1", 100.0, "")]


def test_the_core_hears_from_which_state_an_answer_of_system_1_begins() -> None:
    """That of its own call's observation, also when another component has looked since; none for any other answer."""
    states = iter([{"joint_position": np.array([0.1, 0.2])}, {"joint_position": np.array([0.3, 0.4])}])
    heard: list[Any] = []
    link: Any = SimpleNamespace(
        send=lambda request, now_s: True,
        poll=lambda timeout_s, now_s: [Response(number, OK) for number in (3, 4, 5)],
        answered=lambda now_s, response: None,
        asked=deque(),
        reason="",
    )
    body: Any = SimpleNamespace(observe=lambda: (next(states), {}), publish=lambda command: None)
    core: Any = SimpleNamespace(answer=lambda now_s, response, seen: heard.append(seen) or [])
    loop = RobotLoop(core, link, body)
    first, second = (
        Send(4, "system1", 100.0, "", observation=1),
        Send(5, "monitor", 100.0, "", observation=2),
    )
    loop._carry([first, second], 0.0)
    with pytest.raises(AttributeError):  # the body senses nothing
        loop._period(0.0)
    assert heard[0] is None and heard[2] is None
    assert heard[1]["joint_position"].tolist() == [0.1, 0.2]


def test_the_server_is_told_that_a_task_is_over_and_where_it_was() -> None:
    told: list[object] = []
    link: Any = SimpleNamespace(
        send=lambda request, now_s: told.append(request.progress) or True,
        task_ends=lambda task, outcome, now_s: told.append((task, outcome)),
        reason="",
    )
    published: list[Command] = []
    body: Any = SimpleNamespace(observe=lambda: ({}, {}), publish=published.append)
    core: Any = SimpleNamespace()
    progress, ended = Progress(3, 7, 120.0, "pick"), TaskEnded("done", "the monitor says done", 3)
    RobotLoop(core, link, body)._carry([Send(4, "system1", 100.0, "", progress=progress), ended], 0.0)
    assert told == [progress, (3, "done")]
    assert published[-1:] == [ended]


class ServerLink:
    """A link whose server has asked something."""

    ready, status_hz, reason, rates_hz, catch_up = True, 0.0, "", {}, 0.0
    first_call_s, permits, permit_s = {}, (), {}
    endpoint = AT

    def __init__(self, *asked: Decide) -> None:
        self.asked = deque(asked)
        self.answers: list[Decided] = []
        self.proves_server = True

    def poll(self, timeout_s: float, now_s: float) -> list[Any]:
        return []

    def decided(self, answer: Decided, now_s: float) -> None:
        self.answers.append(answer)

    def task_ends(self, task: int, outcome: str, now_s: float) -> None:
        pass


def body_of(stage: Stage, audits: list[Audit], arm: Any = None) -> Any:
    return SimpleNamespace(
        sense=stage.inputs,
        act=lambda order: None,
        publish=lambda command: None,
        audit=audits.append,
        ask_arm=arm,
        report=lambda core, now_s, link: None,
    )


def test_a_decision_from_the_server_is_judged_and_recorded_as_one_that_comes_over_ros() -> None:
    stage, audits = Stage(), []
    stage.start()
    stage.run_until(Alert)
    link: Any = ServerLink(
        Decide(1, 1, "dance", "anna", "music"),
        Decide(2, 1, "abort", "anna", "enough"),
        Decide(3, 1, "resume", "ben", "it is clear"),
    )
    loop = RobotLoop(stage.runtime, link, body_of(stage, audits))
    loop._period(0.0)
    assert [(one.number, one.accepted, one.cause) for one in link.answers] == [
        (1, False, "unknown_choice"),
        (2, True, ""),
        (3, False, "alert_settled"),
    ]
    assert "anna decided abort" in link.answers[2].reason
    over_ros = loop.decide(1, "resume", "carla", "me too")
    loop._period(0.0)
    refused = over_ros.result(timeout=0)
    assert refused is not None and refused.cause == "alert_settled"
    assert [(one.decided_by, one.accepted, one.why) for one in audits] == [
        ("anna", False, "music"),
        ("anna", True, "enough"),
        ("ben", False, "it is clear"),
        ("carla", False, "me too"),
    ]


def test_over_a_link_without_keys_only_a_stop_is_taken_from_the_server() -> None:
    stage, audits, orders = Stage(), [], []

    def arm(choice: str, decided_by: str, why: str, answered: Callable[[Refusal | None], None]) -> None:
        orders.append(choice)
        answered(None)

    stage.start()
    stage.run_until(Alert)
    link: Any = ServerLink(
        Decide(1, 1, "resume", "mallory", "go"),
        Decide(2, 0, "release_emergency_stop", "mallory", "go"),
        Decide(3, 0, "emergency_stop", "anna", "smoke"),
    )
    link.proves_server = False
    loop = RobotLoop(stage.runtime, link, body_of(stage, audits, arm))
    loop._period(0.0)
    loop._period(0.0)
    assert [(one.number, one.accepted, one.cause) for one in link.answers] == [
        (1, False, "unproven_server"),
        (2, False, "unproven_server"),
        (3, True, ""),
    ]
    assert orders == ["emergency_stop"]
    assert [(one.decided_by, one.accepted) for one in audits] == [("mallory", False)] * 2, (
        "both are on record"
    )
    assert stage.runtime.alert is not None, "the alert still waits for a person"


@pytest.mark.parametrize("refusal", [None, Refusal("no_arm", "the arm node does not answer")])
def test_a_stop_from_the_server_goes_to_the_arm_and_its_answer_back(refusal: Refusal | None) -> None:
    stage, asked = Stage(), []

    def arm(choice: str, decided_by: str, why: str, answered: Callable[[Refusal | None], None]) -> None:
        asked.append((choice, decided_by, why))
        answered(refusal)

    link: Any = ServerLink(Decide(5, 0, "emergency_stop", "anna", "smoke"))
    loop = RobotLoop(stage.runtime, link, body_of(stage, [], arm))
    loop._period(0.0)
    loop._period(0.0)
    assert asked == [("emergency_stop", "anna", "smoke")]
    [answer] = link.answers
    assert (answer.number, answer.accepted, answer.cause) == (
        5,
        refusal is None,
        "" if refusal is None else refusal.cause,
    )


def test_on_a_slow_link_smaller_pictures_leave_and_it_is_told_why() -> None:
    """And all calls about one observation carry the same ones."""
    sent: list[Request] = []
    answers: deque[Response] = deque()
    link: Any = SimpleNamespace(
        send=lambda request, now_s: sent.append(request) or True,
        poll=lambda timeout_s, now_s: [answers.popleft()] if answers else [],
        answered=lambda now_s, response: None,
        asked=deque(),
        reason="",
    )
    published: list[Command] = []
    small = np.random.default_rng(0).integers(0, 255, (12, 16, 3), dtype=np.uint8)
    picture = encode_image(small.repeat(8, 0).repeat(8, 1))
    body: Any = SimpleNamespace(observe=lambda: ({}, {"front": picture}), publish=published.append)
    core: Any = SimpleNamespace(answer=lambda now_s, response, seen: [])
    pictures = PictureQuality({"front": CameraSpec(128, 96, min_quality=10)})
    loop = RobotLoop(core, link, body, pictures=pictures)
    began_s = loop._clock.now_s()
    for number in (1, 2):
        loop._carry([Send(number, "system1", 100.0, "", observation=number)], began_s)
        pictures._sent[number] = began_s, 1e-9  # no way is that short
        answers.append(Response(number, OK))
        with pytest.raises(AttributeError):  # the body senses nothing
            loop._period(0.0)
    loop._carry(
        [Send(3, "system1", 100.0, "", observation=3), Send(4, "monitor", 100.0, "", observation=3)], 0.0
    )
    [decision] = [one for one in published if isinstance(one, Decision)]
    assert (decision.action, decision.cause) == ("lower_pictures", "slow_link")
    sizes = [len(request.images["front"].data) for request in sent]
    assert sizes[0] == sizes[1] == len(picture.data) > sizes[2] == sizes[3]
