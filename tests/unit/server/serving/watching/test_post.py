"""The watch socket: it never waits, nobody else enters its folder, and a decision is answered to who has sent it."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from rosa_contract.config.factory import parse_factory
from rosa_contract.errors import CodecError, VersionError
from rosa_contract.wire.messages import SCHEMA_VERSION, Bye, Decide, Decided
from rosa_contract.wire.packing import pack, unpack
from rosa_contract.wire.status import HAS_ALERT, Audit, OpenAlert
from rosa_contract.wire.watching import Answer, Asked, Watch, decode_answer, decode_ask, encode_ask
from rosa_server.serving.base.log import LINES_AT_ONCE
from rosa_server.serving.watching.hub import ABOUT, DECIDED, EVENTS, ROBOTS, STATE, STATUS, Hub
from rosa_server.serving.watching.place import LEFT_AFTER_S, WatchError, watch_endpoint, watched_gateways
from rosa_server.serving.watching.post import ANSWER_WITHIN_S, AUDITS_AT_ONCE, MAX_QUESTIONS, WatchPost
from rosa_server.serving.watching.watchers import MAX_UNREAD, MAX_WATCHERS
from tests.unit.server.serving.core.stage import FACTORY, Stage, hello

PATIENCE_S = 30.0


def decide(number: int, robot: str, alert_id: int, choice: str, decided_by: str, why: str) -> bytes:
    return encode_ask(Asked(b"", number, robot, alert_id, choice, decided_by, why))


class Desk:
    """A post over a real socket with a core behind it; time moves by hand."""

    def __init__(self, folder: Path) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.stage = Stage()
        self.stage.open("r1", "r2")
        self.endpoint = watch_endpoint("auto", "tcp://127.0.0.1:5570", folder)
        self.post = WatchPost(
            Hub(parse_factory(FACTORY.replace("QUEUE", "9")), {}), self.context, self.endpoint
        )
        self.said: list[tuple[bytes, Decide]] = []
        self._sockets: list[zmq.Socket[bytes]] = []

    def watcher(self, says: bytes = encode_ask(Watch(b""))) -> zmq.Socket[bytes]:
        socket = self.context.socket(zmq.DEALER)
        socket.linger = 0
        socket.connect(self.endpoint)
        socket.send(says)
        self._sockets.append(socket)
        return socket

    def run(self, seconds: float = 0.0) -> None:
        self.stage.now_s += seconds
        self.said += self.post.step(self.stage.now_s, self.stage.core)

    def until_watched(self, count: int = 1) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while len(self.post._watchers or ()) < count:
            assert time.monotonic() < end_s
            self.run()
            time.sleep(0.005)

    def until_said(self, count: int) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while len(self.said) < count:
            assert time.monotonic() < end_s
            self.run()
            time.sleep(0.005)

    def answer(self, socket: zmq.Socket[bytes]) -> Answer:
        """The next answer to a decision of this watcher."""
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s:
            self.run()
            if socket.poll(10):
                topic, *rest = socket.recv_multipart()
                if topic == DECIDED:
                    return decode_answer(rest[0])
        raise AssertionError("no answer came")

    def close(self) -> None:
        for one in self._sockets:
            one.close()
        self.post.close()
        self.context.term()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    one = Desk(tmp_path / "private")
    yield one
    one.close()


def test_who_comes_second_hears_at_once_what_the_server_says_of_itself(desk: Desk) -> None:
    """Time stands still: nothing is due for the first."""
    for count in (1, 2, 3):
        one = desk.watcher()
        desk.until_watched(count)
        desk.run()
        heard = set()
        while not {ABOUT, STATE, ROBOTS} <= heard:
            assert one.poll(1000 * PATIENCE_S), heard
            heard.add(one.recv_multipart()[0])


def test_a_decision_reaches_its_robot_and_the_answer_who_has_decided(desk: Desk) -> None:
    anna, ben = desk.watcher(), desk.watcher()
    desk.until_watched(2)
    desk.stage.core.on_report(desk.stage.now_s, b"r1")
    anna.send(decide(7, "r1", 3, "resume", "anna", "it is clear"))
    desk.until_said(1)
    ben.send(decide(7, "r1", 3, "abort", "ben", "enough"))
    desk.until_said(2)
    (to, first), (_, second) = desk.said
    assert (to, first.alert_id, first.choice, first.decided_by, first.why) == (
        b"r1",
        3,
        "resume",
        "anna",
        "it is clear",
    )
    desk.post.decided(b"r2", Decided(first.number, True))  # another robot cannot answer for it
    desk.post.decided(b"r1", Decided(second.number, False, "alert_settled", "anna decided resume 0.1 s ago"))
    desk.post.decided(b"r1", Decided(first.number, True))
    desk.post.decided(b"r1", Decided(first.number, False, "again", "twice"))
    assert desk.answer(anna).accepted
    told = desk.answer(ben)
    assert (told.number, told.accepted, told.cause) == (7, False, "alert_settled")


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, bool]]:
    """(who, what, taken) of the decisions in the server's log."""
    lines = [record.fields for record in caplog.records if record.getMessage() == "operator_decided"]  # type: ignore[attr-defined]
    return [(one["by"], one["choice"], one["accepted"]) for one in lines]


def test_a_decision_that_came_over_ros_is_in_the_servers_log(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rosa.server")
    desk.post.audited(0.0, "r1", [Audit(3, "resume", "anna", "it is clear", True, "")])
    desk.post.audited(0.0, "r1", [Audit(3, "abort", "ben", "enough", False, "alert 3 is settled")])
    assert logged(caplog) == [("anna", "resume", True), ("ben", "abort", False)]


@pytest.mark.parametrize("report_first", [False, True])
def test_a_decision_from_here_is_in_the_log_once_whatever_comes_first(
    desk: Desk, caplog: pytest.LogCaptureFixture, report_first: bool
) -> None:
    caplog.set_level("INFO", "rosa.server")
    desk.watcher().send(decide(1, "r1", 3, "resume", "anna", "it is clear"))
    desk.stage.core.on_report(desk.stage.now_s, b"r1")
    desk.until_said(1)
    told = [
        lambda: desk.post.decided(b"r1", Decided(desk.said[0][1].number, True)),
        lambda: desk.post.audited(0.0, "r1", [Audit(3, "resume", "anna", "it is clear", True, "")]),
    ]
    for tell in reversed(told) if report_first else told:
        tell()
    assert logged(caplog) == [("anna", "resume", True)]
    told[1]()
    assert len(logged(caplog)) == 2, "another one with the same words is another decision"


def test_a_robot_that_makes_up_decisions_cannot_fill_the_log(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rosa.server")
    for number in range(1000):
        desk.post.audited(0.0, "r1", [Audit(number, "resume", "anna", "", True, "")])
    assert len(logged(caplog)) == AUDITS_AT_ONCE
    for number in range(1000):
        desk.post.audited(0.0, f"other{number}", [Audit(number, "resume", "anna", "", True, "")])
    assert len(logged(caplog)) == LINES_AT_ONCE


def test_a_robot_that_makes_up_decisions_leaves_out_none_of_others(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rosa.server")
    for number in range(10_000):
        desk.post.audited(number / 1000, "r1", [Audit(number, "resume", "anna", "", True, "")])
    desk.post.audited(10.0, "r2", [Audit(3, "abort", "ben", "enough", True, "")])
    assert logged(caplog)[-1] == ("ben", "abort", True)


def test_a_line_that_others_left_no_room_for_costs_a_robot_nothing(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rosa.server")
    for number in range(40):  # all lines that robots can cause at once
        desk.post.audited(0.0, f"other{number}", [Audit(number, "resume", "anna", "", True, "")])
    for number in range(20):
        desk.post.audited(0.0, "r1", [Audit(number, "resume", "anna", "", True, "")])
    caplog.clear()
    for number in range(100, 120):
        desk.post.audited(1.0, "r1", [Audit(number, "abort", "ben", "", True, "")])
    assert len(logged(caplog)) == AUDITS_AT_ONCE


def test_a_robot_that_makes_up_decisions_does_not_hide_one_that_was_made_here(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    """Its report comes before its answer, and no line is left for it: then the answer is logged."""
    caplog.set_level("INFO", "rosa.server")
    desk.watcher().send(decide(1, "r1", 3, "resume", "anna", "it is clear"))
    desk.stage.core.on_report(desk.stage.now_s, b"r1")
    desk.until_said(1)
    made_up = [Audit(number, "abort", "ben", "", True, "") for number in range(100)]
    desk.post.audited(0.0, "r1", [*made_up, Audit(3, "resume", "anna", "it is clear", True, "")])
    desk.post.decided(b"r1", Decided(desk.said[0][1].number, True))
    assert logged(caplog)[-1] == ("anna", "resume", True)


@pytest.mark.parametrize(("robot", "cause"), [("nobody", "robot_not_here"), ("r2", "takes_no_decisions")])
def test_a_decision_that_no_robot_can_take_is_refused_at_once(desk: Desk, robot: str, cause: str) -> None:
    anna = desk.watcher()
    anna.send(decide(1, robot, 3, "resume", "anna", ""))
    assert desk.answer(anna).cause == cause
    assert desk.said == []


def test_a_robot_that_does_not_answer_is_named(desk: Desk) -> None:
    anna = desk.watcher()
    desk.stage.core.on_report(desk.stage.now_s, b"r1")
    anna.send(decide(1, "r1", 3, "resume", "anna", ""))
    desk.until_said(1)
    desk.run(ANSWER_WITHIN_S + 0.1)
    assert desk.answer(anna).cause == "no_answer"


def test_decisions_that_wait_for_their_robots_are_bounded(desk: Desk) -> None:
    anna = desk.watcher()
    desk.stage.core.on_report(desk.stage.now_s, b"r1")
    for number in range(MAX_QUESTIONS + 1):
        anna.send(decide(number, "r1", 3, "resume", "anna", ""))
    told = desk.answer(anna)
    assert (told.number, told.cause) == (MAX_QUESTIONS, "overloaded")
    assert len(desk.said) == MAX_QUESTIONS


def test_a_watcher_that_does_not_read_delays_nobody_and_what_it_missed_is_counted(desk: Desk) -> None:
    desk.watcher()
    desk.until_watched()
    message = [STATE, bytes(1000)]
    assert desk.post._watchers is not None
    for _ in range(20 * MAX_UNREAD):
        desk.post._watchers.tell(message)
    assert desk.post._watchers.dropped > 0


def test_so_many_may_watch_and_who_falls_silent_makes_room(desk: Desk) -> None:
    for _ in range(MAX_WATCHERS + 3):
        desk.watcher()
    desk.until_watched(MAX_WATCHERS)
    desk.run()
    assert len(desk.post._watchers or ()) == MAX_WATCHERS
    desk.run(10.0)
    assert len(desk.post._watchers or ()) == 0
    desk.run()
    assert not desk.post.hub.watched


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\xff" * 10,
        pack({"v": SCHEMA_VERSION, "type": "request"}),
        pack({"v": SCHEMA_VERSION, "type": "decide", "number": 1}),
        pack({"v": SCHEMA_VERSION, "type": ["watch"]}),
        bytes(10_000),
    ],
)
def test_what_cannot_be_read_is_dropped(desk: Desk, frame: bytes) -> None:
    with pytest.raises(CodecError):
        decode_ask(b"w", frame)
    anna = desk.watcher()
    anna.send(frame)
    anna.send_multipart([b"a", b"b"])
    again = desk.watcher()
    again.send(decide(2, "nobody", 3, "resume", "anna", ""))
    assert desk.answer(again).number == 2


@pytest.mark.parametrize("fields", [{"t": "watch"}, {"v": SCHEMA_VERSION + 1, "type": "watch"}])
def test_a_watcher_of_another_release_is_told_the_version_of_this_one(
    desk: Desk, fields: dict[str, object]
) -> None:
    with pytest.raises(VersionError, match=f"this side speaks {SCHEMA_VERSION}"):
        decode_ask(b"w", pack(fields))
    other = desk.watcher(pack(fields))
    end_s = time.monotonic() + PATIENCE_S
    while not other.poll(50):
        assert time.monotonic() < end_s, "it was told nothing"
        desk.run()
    topic, body = other.recv_multipart()
    assert (topic, unpack(body, "news", 1 << 16, 64)["v"]) == (ABOUT, SCHEMA_VERSION)
    assert not desk.post.hub.watched


def test_robots_that_come_and_go_are_told_once(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.run()
    desk.stage.core.on_robot(desk.stage.now_s, b"r1", Bye())
    visits = [(one.event, one.robot) for one in desk.stage.core.visits]
    assert visits == [("robot_left", "r1")]
    desk.run()
    assert not desk.stage.core.visits


def test_a_robot_that_comes_again_at_once_is_told_of_in_the_order_of_what_happened(desk: Desk) -> None:
    """Its alert is still there then; otherwise somebody would be told that it has ended, and that it has begun."""
    watcher = desk.watcher()
    desk.until_watched()
    core, alert = desk.stage.core, OpenAlert(3, "arm_fault", "a fault", ("resume",))

    def says(robot: str, frame: bytes) -> None:
        desk.post.reported(desk.stage.now_s, core, robot, frame, alert, HAS_ALERT, ())

    desk.run(1.0)
    says("r1", b"before")
    says("r2", b"last")
    core.on_gone(desk.stage.now_s, b"r1")
    core.on_robot(desk.stage.now_s, b"again", hello("r1", token=desk.stage.tokens["r1"]))
    says("r1", b"after")
    says("r2", b"very last")
    core.on_robot(desk.stage.now_s, b"r2", Bye())
    desk.run()
    assert desk.post.hub.alerts == {"r1": alert}
    desk.run(0.1)
    desk.run(0.1)
    told, end_s = list[str](), time.monotonic() + PATIENCE_S
    while watcher.poll(200) or not {"r1 after", "r2 robot_left"} <= {*told}:
        assert time.monotonic() < end_s, told
        if not watcher.poll(0):
            continue
        topic, frame = watcher.recv_multipart()
        news = unpack(frame, "news", 1 << 20, 1000)
        if topic == STATUS:
            told += [f"{robot} {said.decode()}" for robot, _, said in news["reports"]]
        if topic == EVENTS:
            told += [f"{one['robot']} {one['event']}" for one in news["events"]]
    told = told[told.index("r1 before") :]
    assert [one for one in told if one.startswith("r1")] == [
        "r1 before",
        "r1 robot_left",
        "r1 robot_joined",
        "r1 after",
    ]
    assert [one for one in told if one.startswith("r2")] == ["r2 last", "r2 very last", "r2 robot_left"]


def test_no_figures_stay_of_a_robot_that_is_taken_out_with_a_call_open(desk: Desk) -> None:
    desk.stage.send("r1")
    desk.stage.core.remove(desk.stage.now_s, "r1", "its wheel is off")
    desk.run()  # a gateway looks at who has left, then sends its answers
    desk.stage.settle()
    [answer] = desk.stage.answers
    desk.post.hub.answered(answer)
    assert answer.cause == "robot_left" and list(desk.post.hub.margins()) == []
    assert desk.post.hub.statuses[answer.status] == 1, "it is an answer like any other"


def test_the_folder_of_the_socket_is_private_or_refused(tmp_path: Path) -> None:
    made = tmp_path / "a" / "b"
    assert watch_endpoint("auto", "tcp://0.0.0.0:5571", made) == f"ipc://{made}/5571.watch"
    assert made.stat().st_mode & 0o777 == 0o700
    os.chmod(made, 0o755)
    with pytest.raises(WatchError) as error:
        watch_endpoint("auto", "tcp://0.0.0.0:5571", made)
    assert error.value.cause == "not_private"
    with pytest.raises(WatchError) as error:
        watch_endpoint("tcp://127.0.0.1:5571", "tcp://0.0.0.0:5571", made)
    assert error.value.cause == "bad_endpoint"
    assert watch_endpoint("", "tcp://0.0.0.0:5571", made) == ""


def test_gateways_of_this_user_are_found_by_their_port(desk: Desk, tmp_path: Path) -> None:
    assert watched_gateways(tmp_path / "private") == {"5570": desk.endpoint}


def test_what_a_killed_gateway_has_left_is_no_gateway_and_goes_away(desk: Desk, tmp_path: Path) -> None:
    folder = tmp_path / "private"
    for name in ("5571", "5572"):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(folder / f"{name}.watch"))
    long_ago = time.time() - LEFT_AFTER_S - 1
    os.utime(folder / "5571.watch", (long_ago, long_ago))
    os.utime(folder / "5570.watch", (long_ago, long_ago))
    assert watched_gateways(folder) == {"5570": desk.endpoint}
    assert {path.name for path in folder.iterdir()} == {"5570.watch", "5572.watch"}, (
        "5572 may be about to listen"
    )
    desk.post.close()
    assert {path.name for path in folder.iterdir()} == {"5572.watch"}, "one that ends leaves nothing"


def test_each_comparison_counts_by_itself(desk: Desk) -> None:
    first = desk.post.compare(("gpu0/0.1", "gpu0/0.2"))
    first["gpu0/0.1"].count(False, False, 20.0)
    desk.post.compare(("gpu2/0.1", "gpu2/0.2"))
    assert desk.post.compare(("gpu0/0.1", "gpu0/0.2"))["gpu0/0.1"].answers == 1
    desk.post.compare_no_more(("gpu0/0.1", "gpu0/0.2"))
    assert set(desk.post.hub.compared) == {"gpu2/0.1", "gpu2/0.2"}
