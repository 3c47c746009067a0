"""From recorded messages to what a timeline shows: spans, calls and marks of each robot. Nothing is drawn here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from rosa_client.recording.bag import Recorded
from rosa_contract.fallbacks import FALLBACK_NAMES, FallbackAction

TOPICS = (
    *("calls", "decisions", "robot_status", "arm_status", "operator_alert", "operator_audit", "fault"),
    "world_state",  # of a simulated cell
)
ANOTHER_SCENE_S = 3.0  # within this time an arm node has noticed that its simulated arm stands elsewhere
SILENT_S = 0.6  # an older status says nothing about now; it comes at 10 Hz or more
SILENT = "silent"
ARM_STATES = {0: "holding", 1: "playing", 2: "moving"}
OUTCOMES = ("done", "failed", "aborted", "canceled", "timed_out")
QUIET = ("start", "execute", "plan", *OUTCOMES)  # decisions that other lanes show
# Causes as an operator would say them; others are shown as they are written in the code.
WORDS = {
    "slo_missed": "no answer in time",
    "late_result": "answer came too late",
    "invalid_actions": "unusable actions",
    "chunk_is_over": "the time of the actions has passed",
    "invalid_verdict": "an unknown verdict",
    "sensor_stale": "a sensor is late",
    "sensor_silent": "a sensor is silent",
    "sensor_fault": "a sensor cannot be used",
    "unsafe": "the safety check says unsafe",
    "max_consecutive_slo_violation": "too many answers missed in a row",
    "max_consecutive_safety_replan": "unsafe too many times in a row",
    "max_stops_without_action": "stopped again and again",
    "max_task_retries": "no retries left",
    "monitor": "the monitor says failed",
    "monitor_says": "the monitor cannot judge",
    "not_ready": "not ready in time",
    "move_timeout": "a move took too long",
    "arm_cut_short": "the arm stopped by itself",
    "arm_fault": "the arm has a fault",
    "arm_silent": "the arm takes no orders",
    "cannot_put_down": "no place to put down what it holds",
    "emergency_stop": "the emergency stop is latched",
    "recovered": "all is good again",
    "asked_again": "it is asked again",
    "task_timeout": "its time was over",
    "operator": "a human decided it",
    "cancelled": "its client cancelled it",
}


@dataclass(frozen=True)
class Span:
    """A state that lasted from `start_s` to `end_s` (s since 1970, the recorder's clock, as all times here)."""

    start_s: float
    end_s: float
    what: str


@dataclass(frozen=True)
class CallBar:
    """One call of a component."""

    start_s: float
    end_s: float
    deadline_s: float
    ending: str  # in_time, missed or cancelled


@dataclass(frozen=True)
class Mark:
    """An event with its cause. `kind`: fallback, refused, discard, retry, clear, alert, operator, arm, fault, other."""

    time_s: float
    kind: str
    text: str


@dataclass(frozen=True)
class TaskSpan:
    """One task from its start to its end; `outcome` is empty when the recording ended first."""

    number: int
    task: str
    start_s: float
    end_s: float
    outcome: str
    why: str  # it did not end as done; empty when it did
    attempts: int


@dataclass
class RobotLanes:
    """Everything about one robot, in order of time."""

    name: str
    calls: dict[str, list[CallBar]] = field(default_factory=dict)  # component -> its calls
    states: list[Span] = field(default_factory=list)
    plans: list[Span] = field(default_factory=list)  # the words of System 2, as long as they stood
    server: list[Span] = field(default_factory=list)  # connected, lost
    arm: list[Span] = field(default_factory=list)
    stopped: list[Span] = field(default_factory=list)  # while the emergency stop is latched
    faults: list[Span] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    episodes: list[TaskSpan] = field(default_factory=list)


def robots(recorded: Iterable[Recorded]) -> list[RobotLanes]:
    """The robots that published their status, by name. Messages may come in any order."""
    by_robot: dict[str, dict[str, list[Recorded]]] = {}
    for entry in sorted(recorded, key=lambda entry: entry.time_s):
        namespace, _, topic = entry.topic.rpartition("/")
        by_robot.setdefault(namespace.strip("/"), {}).setdefault(topic, []).append(entry)
    return [_robot(name, topics) for name, topics in sorted(by_robot.items()) if "robot_status" in topics]


def _robot(name: str, topics: dict[str, list[Recorded]]) -> RobotLanes:
    end_s = max(entries[-1].time_s for entries in topics.values())
    status, arm, faults = (topics.get(topic, []) for topic in ("robot_status", "arm_status", "fault"))
    robot = RobotLanes(
        name,
        states=_spans(((e.time_s, e.message.state) for e in status), end_s, SILENT_S),
        server=_spans(
            ((e.time_s, "connected" if e.message.server_connected else "lost") for e in status),
            end_s,
            SILENT_S,
        ),
        arm=_spans(((e.time_s, ARM_STATES.get(e.message.state, "?")) for e in arm), end_s, SILENT_S),
        stopped=_on(((e.time_s, "latched" if e.message.emergency_stop else "") for e in arm), end_s),
        faults=_on(((e.time_s, e.message.data) for e in faults), end_s),
    )
    for entry in topics.get("calls", []):
        robot.calls.setdefault(entry.message.component, []).append(_call(entry))
    decisions = topics.get("decisions", [])
    marks = [
        *(_decision(entry) for entry in decisions if _is_shown(entry.message)),
        *_alerts(topics.get("operator_alert", [])),
        *(_audit(entry) for entry in topics.get("operator_audit", [])),
        *_arm_marks(arm, _between_tasks(topics.get("world_state", []), status, end_s)),
        *(Mark(span.start_s, "fault", f"fault on: {span.what}") for span in robot.faults),
        *(Mark(span.end_s, "fault", "fault lifted") for span in robot.faults if span.end_s < end_s),
    ]
    robot.marks = sorted(marks, key=lambda mark: mark.time_s)
    robot.episodes = list(_episodes(status, decisions, end_s))
    robot.plans = _plans(decisions, robot.episodes)
    return robot


def _plans(decisions: list[Recorded], episodes: list[TaskSpan]) -> list[Span]:
    """Each plan from when it came to the next one that says something else, or to the end of its task."""
    plans: list[Span] = []
    for task in episodes:
        said = [
            (entry.time_s, entry.message.reason)
            for entry in decisions
            if entry.message.action == "plan" and task.start_s <= entry.time_s <= task.end_s
        ]
        plans += _spans([*said, (task.end_s, "")], task.end_s, silent_s=float("inf"))
    return plans


def _spans(samples: Iterable[tuple[float, str]], end_s: float, silent_s: float) -> list[Span]:
    """Equal samples in a row as one span; where none came for `silent_s`, a span says so."""
    spans: list[Span] = []
    last_s = 0.0
    for time_s, what in [*samples, (end_s, "")]:
        if spans and time_s - last_s > silent_s:
            spans[-1] = Span(spans[-1].start_s, last_s, spans[-1].what)
            spans.append(Span(last_s, time_s, SILENT))
        elif spans:
            spans[-1] = Span(spans[-1].start_s, time_s, spans[-1].what)
        if what and (not spans or spans[-1].what != what):
            spans.append(Span(time_s, time_s, what))
        last_s = time_s
    return [span for span in spans if span.end_s > span.start_s]


def _on(samples: Iterable[tuple[float, str]], end_s: float) -> list[Span]:
    """When something was on: from the sample that names it to the next one that does not."""
    spans = _spans(((time_s, what or " ") for time_s, what in samples), end_s, silent_s=float("inf"))
    return [span for span in spans if span.what.strip()]


def _call(entry: Recorded) -> CallBar:
    call = entry.message
    start_s = entry.time_s - call.duration_ms / 1000
    return CallBar(start_s, entry.time_s, start_s + call.slo_ms / 1000, call.ending)


def _is_shown(decision: Any) -> bool:
    """Alerts and what operators decided have topics of their own."""
    human = decision.action == FallbackAction.STOP_AND_CALL_HUMAN.key or decision.cause == "operator"
    return not human and decision.action not in QUIET


def _decision(entry: Recorded) -> Mark:
    decision = entry.message
    if decision.action == "clear":
        what = "is asked again" if decision.cause == "asked_again" else "is good again"
        return Mark(entry.time_s, "clear", f"{decision.component or 'it'} {what}")
    kind = decision.action
    if decision.cause == "invalid_actions":
        kind = "refused"
    elif decision.action in FALLBACK_NAMES:
        kind = "fallback"
    elif kind not in ("discard", "retry"):
        kind = "other"
    what = decision.action.replace("_", " ")
    cause = words(decision.cause)
    who = f"{decision.component}, " if decision.component else ""
    return Mark(entry.time_s, kind, f"{what}: {who}{cause}")


def _alerts(entries: list[Recorded]) -> Iterator[Mark]:
    """Each alert once; it is sent again when it changes."""
    shown = None
    for entry in entries:
        alert = entry.message
        if alert.active and alert.id != shown:
            yield Mark(entry.time_s, "alert", f"calls a human: {words(alert.cause)}")
        shown = alert.id if alert.active else None


def _audit(entry: Recorded) -> Mark:
    audit = entry.message
    text = f"{audit.decided_by} decides: {audit.choice.replace('_', ' ')}"
    return Mark(entry.time_s, "operator", text if audit.accepted else f"{text} (refused)")


def _between_tasks(worlds: list[Recorded], status: list[Recorded], end_s: float) -> list[Span]:
    """When another scene was laid out in the simulator while the robot had no task."""
    tasks = _on(((e.time_s, e.message.task) for e in status), end_s)
    starts = [before.time_s for before, e in pairwise(worlds) if e.message.seed != before.message.seed]
    found = []
    for start_s in starts:
        task_s = min((task.start_s for task in tasks if task.end_s > start_s), default=end_s)
        found.append(Span(start_s, min(task_s, start_s + ANOTHER_SCENE_S), "another scene"))
    return found


def _arm_marks(entries: list[Recorded], scenes: list[Span]) -> Iterator[Mark]:
    """New faults, cut orders and emergency stops of the arm; releases of the stop are in the audit.

    Behind ros2_control a new scene looks like a fault to the driver, as its arm stands elsewhere and its controller is
    stopped: that is a mark of the scene, not of the arm.
    """
    before = {"fault": "", "cut_short": "", "stop": ""}
    moved: set[Span] = set()
    for entry in entries:
        status = entry.message
        stop = "emergency stop" if status.emergency_stop else ""
        now = {"fault": status.fault, "cut_short": "" if stop else status.cut_short, "stop": stop}
        scene = next((span for span in scenes if span.start_s <= entry.time_s < span.end_s), None)
        for what, text in now.items():
            if not text or text == before[what]:
                continue
            if scene is None or what == "stop":
                yield Mark(entry.time_s, "arm", text if what == "stop" else f"arm: {text}")
            elif scene not in moved:
                moved.add(scene)
                yield Mark(entry.time_s, "other", scene.what)
        before = now


def _episodes(status: list[Recorded], decisions: list[Recorded], end_s: float) -> Iterator[TaskSpan]:
    """The tasks. A status that names none may be the one between two tasks, or the robot's first."""
    endings = [e for e in decisions if e.message.action in OUTCOMES]
    tasks = _on(((e.time_s, e.message.task) for e in status), end_s)
    for number, span in enumerate(tasks, start=1):
        inside = [e.message for e in endings if span.start_s <= e.time_s <= span.end_s + SILENT_S]
        attempts = max(
            (e.message.attempt for e in status if span.start_s <= e.time_s < span.end_s), default=1
        )
        outcome = inside[-1].action if inside else ""
        why = words(inside[-1].cause) if outcome not in ("", "done") else ""
        yield TaskSpan(number, span.what, span.start_s, span.end_s, outcome, why, attempts)


def words(cause: str) -> str:
    """A cause as an operator would say it."""
    if cause.startswith("server_"):
        return f"the server says {cause.removeprefix('server_').replace('_', ' ')}"
    return WORDS.get(cause, cause.replace("_", " "))
