"""Messages of every kind, and what tests of the wire compare."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rosa_contract.errors import CodecError
from rosa_contract.wire import codec, status
from rosa_contract.wire import messages as m
from rosa_contract.wire.horizon import Horizon
from rosa_contract.wire.images import encode_image
from rosa_contract.wire.overlap import Overlap
from rosa_contract.wire.progress import Progress

RNG = np.random.default_rng(0)
PICTURE = RNG.integers(0, 255, (96, 128, 3), dtype=np.uint8)


def request(encoding: str = "jpeg") -> m.Request:
    return m.Request(
        request_id=7,
        component="system1",
        budget_ms=200.0,
        prompt="pick the cube",
        state={
            "joint_position": np.arange(7, dtype=np.float32),
            "gripper_width": np.array([0.08], np.float32),
        },
        images={"front": encode_image(PICTURE, encoding), "wrist": encode_image(PICTURE, encoding)},
    )


STATUS = m.Status(
    "waiting_for_human",
    "the arm reports a fault",
    True,
    12,
    2,
    True,
    (status.ComponentStatus("system1", 300.0, 80.5, 120.25, 9, 7, 1, 1, 0),),
    status.OpenAlert(17, "arm_fault", "the arm reports a fault", ("resume", "abort")),
    (status.EndedCall("system1", 7, "missed", 300.5, 12.0),),
    (status.TakenDecision("stop_and_call_human", "arm_fault", "a fault", "", 30.0),),
    (status.Audit(16, "resume", "anna", "it is clear", False, "alert 16 is settled", 5.0),),
    "cell-4:/data/run.mcap",
    "pick the red cup",
)

MESSAGES: list[m.Message] = [
    m.Hello(
        "panda0",
        "pick",
        {"front": m.CameraInfo(height=96, width=128, encoding="jpeg")},
        {"joint_position": 7},
    ),
    m.Welcome({"system1": "rosa/policy"}),
    m.Refused("unknown_task", "no task 'pik'"),
    m.Welcome({"system1": "policy"}, {"system1": 2.0}, {"system1": ("front",)}, "token"),
    m.Welcome({"system1": "policy"}, {"system1": 2.0}, {}, "token", 1.0, {"system1": 250.0}),
    m.Hello("r1", "pick", {}, {}, "token"),
    m.Hello("r1", "pick", {}, {}, actions=("joint_velocity", "tool_step_delta")),
    m.Bye(),
    request(),
    replace(request(), horizon=Horizon("threshold", t=0.4, min=2, max=12)),
    replace(request(), horizon=Horizon("static", steps=8)),
    replace(request(), observation=(1 << 63) - 1),
    replace(request(), overlap=Overlap(np.arange(24, dtype=np.float32).reshape(3, 8), 2, 0.05)),
    m.Response(7, m.OK, "", "", 1.0, 2.0, 4, m.Output({"actions": np.ones((16, 8), np.float32)}, "", "")),
    m.Response(
        7,
        m.OK,
        output=m.Output({"actions": np.ones((16, 8), np.float32)}, horizon=4, horizon_reason="5: 1.6"),
    ),
    m.Response(7, m.EXPIRED, "budget_spent", "spent 3 ms too much"),
    m.Welcome({"system1": "policy"}, cancels=True),
    m.Cancel((1 << 63) - 1),
    m.Welcome({"system1": "policy"}, tasks=True),
    replace(request(), progress=Progress((1 << 63) - 1, 12, 180.5, "pick the cube")),
    m.TaskEnds((1 << 63) - 1, "timed_out"),
    m.Response(7, m.CANCELLED, "cancelled", "its robot cancelled it"),
    m.HealthQuery(),
    m.HealthReport(True, {"w0": "ready"}, {"rosa/policy": 3}, ["panda0"]),
    m.WorkerReady("w0", "rosa/policy", 8, {"front": (96, 128)}, {"joint_position": 7}),
    m.WorkerReady("w0", "rosa/policy", 8, {}, {}, at_once=8, shares=True),
    m.WorkerReady("w0", "rosa/policy", 8, {"front": (96, 128)}, {}, resizes=("front",), unused=("side",)),
    m.WorkerReady("w0", "rosa/policy", 8, {}, {}, unused=()),
    m.WorkerReady("w0", "rosa/policy", 8, {}, {}, actions="tool_pose"),
    m.WorkerReady("w0", "rosa/policy", 8, {}, {}, batch_sizes=(1, 2, 4, 8)),
    m.Execute(3, [1, 2], [codec.encode(request()), codec.encode(request())]),
    m.Execute(3, [1], [codec.encode(request())], [m.Sender("panda0", 120.5, 3.25, "4:17")]),
    m.Executed(3, [1, 2], 12.5, [("", ""), ("bad_output", "NaN")], [codec.encode_output(m.Output()), b""]),
    m.Executed(3, [1], 12.5, [("", "")], [b""], {"prefills": 3, "held_bytes": 1 << 40}),
    m.Executed(3, [1], 12.5, [("", "")], [b""], decode_ms=[7.25]),
    m.CancelTickets([3, 4]),
    m.Welcome({"system1": "policy"}, status_hz=2.0),
    m.Status("idle"),
    STATUS,
    m.Decide(1, 17, "resume", "anna", "it is clear"),
    m.Decided(1, True),
    m.Decided(2, False, "alert_settled", "alert 17 is settled: anna decided resume 0.2 s ago"),
    m.Drain(),
]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, bytes | bytearray | memoryview):
        return bytes(a) == bytes(b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if hasattr(a, "__dataclass_fields__"):
        return type(a) is type(b) and all(same(getattr(a, n), getattr(b, n)) for n in a.__dataclass_fields__)
    return bool(a == b)


@contextlib.contextmanager
def refused(cause: str, words: str | None = None) -> Iterator[None]:
    """The contract's error for this cause."""
    with pytest.raises(CodecError, match=words) as error:
        yield
    assert error.value.cause == cause
