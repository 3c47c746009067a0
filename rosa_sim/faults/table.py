"""All injected faults: what each one does and what the robot promises.

Promises are those of `configs/pick_place.yaml` (System 1: 500 ms, `stop_and_resend`; three misses in a row call a
human) and of `configs/robots/panda.yaml` (a sensor may be 500 ms old). Sources: ROSA 3.2 and 3.3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

from rosa_contract.errors import ContractError
from rosa_contract.wording import nearest

LINK, WORKER, GATEWAY, SENSORS, ARM, CONTROLLER, CLOCK, RUNTIME = (
    "link",
    "worker",
    "gateway",
    "sensors",
    "arm",
    "controller",
    "clock",
    "runtime",
)

SLO = "max_consecutive_slo_violation"
NEVER = (math.inf, math.inf)


class UnknownFault(ContractError):
    """No such fault; the text lists the known ones and suggests the nearest."""


@dataclass(frozen=True)
class Fault:
    """One fault. Times are seconds from the moment it is turned on."""

    place: str  # where it is switched on
    does: str  # in words
    promise: str  # what the robot does about it, in words
    causes: tuple[
        str, ...
    ] = ()  # causes of decisions that show that the robot noticed; empty: nothing to notice
    action: str = "stop_and_resend"  # the fallback that runs; empty: none
    alert: str = ""  # the cause of the alert, if it comes to one
    calls_within_s: tuple[float, float] = NEVER  # no alert for a shorter fault, always one for a longer fault
    detect_s: float = 2.0  # noticed at the latest after this
    seconds: float = 1.4  # how long benchmarks leave it on: at least two calls, even if the first is late
    shown_s: float = 4.0  # how long demonstrations leave it on
    still_rad: float = 2e-3  # no joint moves further while the robot waits for a human
    into_s: float = 0.35  # it begins at most this long after a chunk of 0.4 s began to play
    returns: bool = True  # works again as soon as it is lifted; otherwise something must be started again
    settings: Mapping[str, Any] = field(default_factory=dict)  # settings for the injector

    def escalates(self, lasted_s: float) -> str:
        """ "never", "always" or "maybe", for a fault that lasted so long."""
        soonest_s, latest_s = self.calls_within_s
        return "never" if lasted_s < soonest_s else "always" if lasted_s > latest_s else "maybe"


class _Called(TypedDict):
    """What several faults share, as fields of `Fault`: the alert that it comes to."""

    alert: str
    calls_within_s: tuple[float, float]


class _Missed(_Called):
    causes: tuple[str, ...]


class _Blind(_Missed):
    seconds: float
    shown_s: float


class _Mismeasured(_Missed):
    place: str
    action: str
    detect_s: float
    still_rad: float


class _Unharmed(TypedDict):
    action: str
    seconds: float
    detect_s: float


# Three calls of System 1 in a row, 500 ms each; the third may be sent into the last moment of the fault. At the latest
# three of the monitor, 1 s each: its own misses stop the robot too, and a call of System 1 that a stop cancels is not
# a missed one.
_CALLS = (1.0, 3.9)
_MISSES: _Missed = {"causes": ("slo_missed", SLO), "alert": SLO, "calls_within_s": _CALLS}
_SOME_MISSES: _Missed = {**_MISSES, "calls_within_s": (1.0, math.inf)}
# A negative answer comes at once, but the next call waits for the deadline of the one before.
_REFUSED: _Called = {"alert": SLO, "calls_within_s": (0.9, 2.6)}
# A sensor is too old after 0.5 s, and a human is called when it stays so for another 3 s.
_BLIND: _Blind = {
    "causes": ("sensor_stale", "sensor_silent"),
    "alert": "sensor_silent",
    "calls_within_s": (2.9, 4.3),
    "seconds": 5.0,
    "shown_s": 5.0,
}
_BLIND_LATER: _Blind = {**_BLIND, "calls_within_s": (2.9, 4.9)}  # it may begin while the arm stands still
# The measurement is wrong; nothing that is measured moves the arm, and a human is called at once. The controller would
# follow anything, at any speed.
_MISMEASURED: _Mismeasured = {
    "place": CONTROLLER,
    "causes": ("arm_fault",),
    "action": "stop_and_call_human",
    "alert": "arm_fault",
    "calls_within_s": (0.0, 1.0),
    "detect_s": 1.0,
    "still_rad": 0.025,  # following.OFF_RAD, plus what the servo gives way
}
_STAMPS_STAND: _Mismeasured = {
    **_MISMEASURED,
    "causes": ("sensor_stale", "arm_fault"),
    "action": "stop_and_resend",
    "still_rad": 0.5,  # how far it went while nobody saw it is seen only when the stamps go on
    "calls_within_s": (0.9, 1.8),
    "detect_s": 1.5,
}
_UNHARMED: _Unharmed = {"action": "", "seconds": 1.4, "detect_s": math.inf}

FAULTS: dict[str, Fault] = {
    "link_drop": Fault(
        LINK,
        "half of all messages are lost, both ways",
        "a call that is not answered in time stops the arm and is sent again; three in a row call a human",
        **_SOME_MISSES,
        detect_s=4.0,
        seconds=2.0,
        settings={"kind": "drop", "probability": 0.5},
    ),
    "link_delay": Fault(
        LINK,
        "every message arrives 400 ms late, both ways",
        "every System 1 answer is late: the arm stops and the answer is discarded; three in a row call a human",
        **_MISSES,
        settings={"kind": "delay", "seconds": 0.4},
    ),
    "link_jitter": Fault(
        LINK,
        "every message arrives up to 900 ms late, at random",
        "late answers are discarded and the arm stops; three in a row call a human",
        **_SOME_MISSES,
        detect_s=4.0,
        seconds=2.0,
        settings={"kind": "jitter", "seconds": 0.9},
    ),
    "link_duplicate": Fault(
        LINK,
        "every message arrives twice",
        "no effect: each call ends once; a second answer is ignored",
        **_UNHARMED,
        settings={"kind": "duplicate"},
    ),
    "link_reorder": Fault(
        LINK,
        "messages arrive out of order; a message is held back for up to 80 ms",
        "no effect: answers are matched to calls by number, not by order",
        **_UNHARMED,
        settings={"kind": "reorder", "probability": 0.5, "seconds": 0.08},
    ),
    "link_corrupt": Fault(
        LINK,
        "bytes in every message are changed, both ways",
        "a damaged message is not used: the call fails, the arm stops, the robot asks again; three call a human",
        causes=("slo_missed", "server_invalid", "server_failed", "invalid_actions", SLO),
        alert=SLO,
        calls_within_s=_CALLS,
        detect_s=4.0,
        seconds=2.0,
        settings={"kind": "corrupt"},
    ),
    "link_partition_up": Fault(
        LINK,
        "no message from the robot reaches the server",
        "every call misses its deadline and the arm stops; it continues by itself if the link recovers before the third"
        " miss in a row, which calls a human",
        **_MISSES,
        seconds=0.6,  # too short for three misses; `link_partition_down` covers the alert
        shown_s=5.0,
        settings={"kind": "partition_up"},
    ),
    "link_partition_down": Fault(
        LINK,
        "no message from the server reaches the robot",
        "every call misses its deadline and the arm stops; the third miss in a row calls a human",
        **_MISSES,
        seconds=4.0,
        shown_s=5.0,
        settings={"kind": "partition_down"},
    ),
    "worker_killed": Fault(
        WORKER,
        "the System 1 worker gets SIGKILL",
        "calls miss their deadline or are refused, and the arm stops; the server restarts the worker by itself",
        causes=("slo_missed", "server_unavailable", "server_failed", "server_expired", SLO),
        alert=SLO,
        calls_within_s=(0.9, math.inf),
        seconds=0.5,
        shown_s=0.5,
        returns=False,
    ),
    "worker_stopped": Fault(
        WORKER,
        "the System 1 worker gets SIGSTOP, and SIGCONT when the fault ends",
        "calls miss their deadline and the arm stops; three misses in a row call a human; later answers are discarded",
        causes=("slo_missed", "server_unavailable", "server_failed", "server_expired", SLO),
        alert=SLO,
        calls_within_s=_CALLS,
        seconds=4.0,  # longer than the three misses that call a human
        returns=False,  # the gateway kills a worker whose batch does not end, and starts it again
    ),
    "worker_slow": Fault(
        WORKER,
        "System 1 answers 700 ms late",
        "its answers miss their deadline and are discarded, and the arm stops; three in a row call a human",
        causes=("slo_missed", "server_expired", SLO),
        alert=SLO,
        calls_within_s=_CALLS,
        settings={"spoil": "slow", "seconds": 0.7},
    ),
    "worker_nan": Fault(
        WORKER,
        "System 1's action chunk contains a NaN",
        "the worker refuses to send it; the arm stops and the robot asks again; three in a row call a human",
        **_REFUSED,
        causes=("server_failed", "invalid_actions", SLO),
        settings={"spoil": "nan"},
    ),
    "worker_wrong_shape": Fault(
        WORKER,
        "System 1's action chunk lacks a column",
        "the robot rejects the chunk, stops the arm and asks again; three in a row call a human",
        **_REFUSED,
        causes=("invalid_actions", "server_failed", SLO),
        settings={"spoil": "wrong_shape"},
    ),
    "worker_out_of_range": Fault(
        WORKER,
        "System 1's action chunk exceeds the joint limits",
        "the robot rejects the chunk, never clips it, stops the arm and asks again; three in a row call a human",
        **_REFUSED,
        causes=("invalid_actions", SLO),
        seconds=2.8,
        settings={"spoil": "out_of_range"},
    ),
    "server_killed": Fault(
        GATEWAY,
        "the server and all its workers get SIGKILL; it is started again when the fault ends",
        "calls miss their deadline and the arm stops; three in a row call a human; then the robot says hello again",
        **_MISSES,
        seconds=1.0,
        returns=False,
    ),
    "camera_frozen": Fault(
        SENSORS,
        "one camera sends no new frames",
        "the arm stops when the newest frame is older than 500 ms; 3 s later a human is called",
        **_BLIND,
        settings={"frozen": True},
    ),
    "camera_repeats": Fault(
        SENSORS,
        "one camera repeats the same picture with fresh stamps",
        "the same picture while the arm moves counts as none: the arm stops after 500 ms; 3 s later a human is called",
        **_BLIND_LATER,
        settings={"repeats": True},
    ),
    "camera_late": Fault(
        SENSORS,
        "one camera's frames arrive 1 s late, stamped with the time they were taken",
        "the arm stops, since a frame may be at most 500 ms old, counted from its stamp; 3 s later a human is called",
        **_BLIND,
        settings={"late": True, "seconds": 1.0},
    ),
    "joint_state_stale": Fault(
        SENSORS,
        "the last joint state is repeated with its old stamp",
        "the arm stops when the newest joint state is older than 500 ms; 3 s later a human is called",
        **_BLIND,
        settings={"stale": True},
    ),
    "arm_fault": Fault(
        ARM,
        "the arm's driver reports a fault and stops moving",
        "a human is called at once; when the arm recovers, it stays within 0.02 rad of its position",
        causes=("arm_fault",),
        action="stop_and_call_human",
        alert="arm_fault",
        calls_within_s=(0.0, 0.5),
        detect_s=0.5,
        seconds=0.8,
        still_rad=0.025,  # chunk_player.OFF_RAD, plus what the servo gives way
    ),
    "second_publisher": Fault(
        does="another node publishes zeros as the arm's joint states, ten times a second",
        promise="they are ignored: the arm stops, and a human is told which nodes publish",
        seconds=3.0,
        **_MISMEASURED,
    ),
    "frozen_stamps": Fault(
        does="the arm's last joint state is published again and again with its old stamp",
        promise="it is not new: the arm stops when the newest state is older than 500 ms; after 1 s a human is called",
        seconds=3.0,
        **_STAMPS_STAND,
    ),
    "wrong_sample": Fault(
        does="one joint state is 0.5 rad off",
        promise="it is ignored: the arm stops, and a human is called",
        **_MISMEASURED,
    ),
    "joint_jump": Fault(
        does="the measured first joint jumps by 0.5 rad and back, five times a second",
        promise="neither position is trusted while it jumps: the arm stops, and a human is called",
        seconds=2.0,
        **_MISMEASURED,
    ),
    "clock_jump": Fault(
        CLOCK,
        "ROS time (/clock) jumps 30 s ahead, and back when the fault ends",
        "deadlines and the watchdog use a monotonic clock; at worst the arm stops until the sensors' stamps are right",
        action="",
        causes=(),
        alert="sensor_silent",
        calls_within_s=(2.9, math.inf),
        detect_s=math.inf,
        settings={"ahead_s": 30.0},
    ),
    "runtime_stopped": Fault(
        RUNTIME,
        "the robot's runtime gets SIGSTOP for 1 s, in mid-motion",
        "the arm holds by itself 100 ms after the last command; the runtime then observes and asks again",
        causes=("arm_cut_short", "slo_missed"),
        alert="",
        detect_s=0.5,
        seconds=1.0,
        shown_s=1.0,
        into_s=0.15,  # later than this the chunk ends before the arm can notice
    ),
    "emergency_stop": Fault(
        ARM,
        "someone presses the emergency stop, and releases it when the fault ends",
        "the arm holds at once by itself and refuses every command; a human has to release it and decide",
        causes=("emergency_stop",),
        action="stop_and_call_human",
        alert="emergency_stop",
        calls_within_s=(0.0, 0.5),
        detect_s=0.5,
        seconds=0.8,
    ),
}


def fault(name: str) -> Fault:
    """The fault called `name`. Raises `UnknownFault`."""
    if name not in FAULTS:
        known = ", ".join(FAULTS)
        raise UnknownFault(f"no fault {name!r}{nearest(name, FAULTS)}; known: {known}")
    return FAULTS[name]


def listing() -> str:
    """The table for people."""
    lines = []
    for name, entry in FAULTS.items():
        lines += [f"{name:<22}{entry.does}", f"{'':<22}promised: {entry.promise}"]
    return "\n".join(lines)
