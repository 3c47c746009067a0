"""Requests that do not fit: what is compared with what the model takes, and what an answer says."""

from __future__ import annotations

import numpy as np
import pytest

from rosa_contract.errors import CodecError
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.images import EncodedImage
from tests.unit.server.serving.core.stage import STATE, Stage, request


def test_an_unknown_component_is_invalid_and_the_answer_lists_the_known_ones() -> None:
    stage = Stage().open()
    stage.send(component="sistem1")
    (answer,) = stage.answers
    assert (answer.status, answer.cause) == ("invalid", "unknown_component")
    assert "system1, safety, monitor" in answer.reason


def test_made_up_component_names_leave_nothing_behind() -> None:
    stage = Stage().open()
    for number in range(50):
        stage.send(request_id=number, component=f"made-up-{number}")
    session = stage.core.sessions.get(b"r1")
    assert session is not None
    assert stage.count() == {"invalid": 50}
    assert not session.newest


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"images": {}}, "camera_missing"),
        ({"images": {"front": EncodedImage("rgb8", 6, 4, bytes(72))}}, "wrong_image_shape"),
        ({"state": {}}, "state_missing"),
        ({"state": {"joint_position": np.zeros(4, np.float32)}}, "wrong_state_shape"),
    ],
)
def test_a_request_that_does_not_fit_the_model_is_invalid(changes: dict[str, object], cause: str) -> None:
    stage = Stage().open()
    stage.send_as(b"r1", request(**changes))
    (answer,) = stage.answers
    assert (answer.status, answer.cause) == ("invalid", cause)


def test_a_request_with_a_missing_image_frame_is_invalid() -> None:
    stage = Stage().open()
    frames = codec.encode(request())[:1]
    stage.core.on_request(stage.now_s, b"r1", codec.read_header(frames), frames)
    stage.settle()
    assert stage.count() == {"invalid": 1}


@pytest.mark.parametrize("field", ["request_id", "component", "budget_ms"])
@pytest.mark.parametrize("value", [None, -1, "", float("nan"), [], True, 1 << 70, "x" * 200])
def test_a_header_that_cannot_be_answered_raises_the_contracts_error(field: str, value: object) -> None:
    stage = Stage().open()
    header = {
        "v": m.SCHEMA_VERSION,
        "type": "request",
        "request_id": 1,
        "component": "system1",
        "budget_ms": 100.0,
        "state": {},
        "images": [],
        field: value,
    }
    with pytest.raises(CodecError) as error:
        stage.core.on_request(stage.now_s, b"r1", header, [b""])
    assert error.value.cause == "bad_field"


def test_a_model_behind_an_adapter_takes_pictures_of_any_size_up_to_its_limit() -> None:
    stage = Stage().open()
    ready = m.WorkerReady("p1", "policy", 4, {"front": (8, 8)}, STATE, resizes=("front",))
    stage.core.on_ready(stage.now_s, ready)
    stage.send_as(b"r1", request(1, images={"front": EncodedImage("rgb8", 6, 4, bytes(72))}))
    assert stage.answers == [], "it is with a worker"
    stage.send_as(b"r1", request(2, images={"front": EncodedImage("rgb8", 9, 4, bytes(108))}))
    assert [answer.cause for answer in stage.answers][-1] == "wrong_image_shape"
    assert "up to (8, 8)" in stage.answers[-1].reason
