"""Whatever bytes come, the gateway says what was wrong with them and goes on serving the others."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import msgpack
import numpy as np
import pytest

from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.images import EncodedImage
from rosa_contract.wire.packing import pack
from tests.system.server_harness import FRONT, JOINTS, Robot, Server, robot, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def panda(server: Server) -> Iterator[Robot]:
    with robot(server) as one:
        yield one.join()
        one.request(999)  # after every story the server still serves this robot
        while getattr(last := one.receive(), "request_id", 0) != 999:
            pass
        assert last.status == "ok", last
        one.send(m.Bye())


def refusal(one: Robot) -> m.Refused:
    message = one.receive()
    assert isinstance(message, m.Refused), message
    return message


@pytest.mark.parametrize(
    ("frames", "cause"),
    [
        ([b""], "not_msgpack"),
        ([b"\xc1"], "not_msgpack"),
        ([b"garbage"], "not_msgpack"),
        ([b"", b"", b""], "not_msgpack"),
        ([msgpack.packb([1, 2])], "bad_field"),
    ],
)
def test_garbage_is_refused_and_the_cause_says_why(panda: Robot, frames: list[bytes], cause: str) -> None:
    panda.send_frames(frames)
    assert refusal(panda).cause == cause


def test_a_truncated_request_is_refused(panda: Robot) -> None:
    header, image = codec.encode(m.Request(1, "system1", 100, "", JOINTS, {"front": FRONT}))
    panda.send_frames([header[:-5], image])
    assert refusal(panda).cause == "not_msgpack"


def test_another_schema_version_is_refused_and_both_are_named(panda: Robot) -> None:
    panda.send_frames([msgpack.packb({"v": 99, "t": "hello"})])
    answer = refusal(panda)
    assert answer.cause == "version_mismatch"
    assert "speaks 99" in answer.reason
    assert f"speaks {m.SCHEMA_VERSION}" in answer.reason


def test_an_oversized_message_is_refused_and_the_limit_is_named(panda: Robot) -> None:
    panda.send_frames([*codec.encode(m.HealthQuery()), bytes(250_000)])  # less than the doorman lets it hold
    answer = refusal(panda)
    assert answer.cause == "too_large"
    assert "max_message_mb" in answer.reason


def test_a_frame_of_many_times_the_limit_ends_the_connection_and_not_the_server(server: Server) -> None:
    with robot(server, "flood") as flood:
        flood.send_frames([bytes(8_000_000)])
        with pytest.raises(TimeoutError):
            flood.receive(1.0)
    with robot(server, "calm") as calm:
        calm.join()


def test_what_only_the_server_says_is_refused(panda: Robot) -> None:
    panda.send(m.Welcome({}))
    assert refusal(panda).cause == "unexpected_message"


def test_a_request_before_hello_is_refused(server: Server) -> None:
    with robot(server, "shy") as shy:
        shy.request(1)
        assert refusal(shy).cause == "hello_required"


def test_nan_in_the_state_is_an_invalid_request(panda: Robot) -> None:
    header, image = codec.encode(m.Request(5, "system1", 5000, "", JOINTS, {"front": FRONT}))
    fields = msgpack.unpackb(header)
    fields["state"]["joint_position"][2] = np.full(7, np.nan, np.float32).tobytes()
    panda.send_frames([pack(fields), image])
    answer = panda.answer()
    assert (answer.request_id, answer.status, answer.cause) == (5, "invalid", "not_finite")


def test_an_image_that_is_none_is_an_invalid_request(panda: Robot) -> None:
    panda.request(6, images={"front": EncodedImage("jpeg", 8, 8, b"\xff\xd8 not a jpeg")})
    answer = panda.answer()
    assert (answer.request_id, answer.status, answer.cause) == (6, "invalid", "bad_image")


def test_a_thousand_random_messages_leave_the_server_alive(server: Server, panda: Robot) -> None:
    chance = random.Random(7)
    good = codec.encode(m.Request(1, "system1", 1, "", JOINTS, {"front": FRONT}))
    with robot(server, "broken", source="127.0.0.7") as broken:
        for _ in range(1000):
            frames = [bytearray(frame) for frame in good]
            for _ in range(chance.randint(1, 8)):
                frame = chance.choice(frames)
                if frame:
                    frame[chance.randrange(len(frame))] = chance.randrange(256)
            broken.send_frames(frames[: chance.randint(1, 2)])
        panda.send(m.HealthQuery())
        while not isinstance(panda.receive(), m.HealthReport):
            pass
        # Connections take turns: panda may be answered while most of the thousand still wait.
        end_s = time.monotonic() + 30.0
        while "bad_messages" not in {line["cause"] for line in server.events("connection_cut_off")}:
            assert time.monotonic() < end_s, "the sender of damaged messages is cut off for their number"
            time.sleep(0.05)


def test_anybody_may_ask_for_health(server: Server, panda: Robot) -> None:
    with robot(server, "nobody") as nobody:
        nobody.send(m.HealthQuery())
        report = nobody.receive()
    assert isinstance(report, m.HealthReport)
    assert report.ready
    assert "r1" in report.robots


def test_the_log_is_json_only(server: Server, tmp_path: Path) -> None:
    assert server.events("server_started")
    assert all(line.startswith(("{", "ROSA is ready")) for line in server.log().splitlines())
