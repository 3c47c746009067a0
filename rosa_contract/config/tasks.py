"""A task of a factory file: its components, their deadlines, and what follows a failure (Figure 3, part 3)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from rosa_contract.config.strict import Reader
from rosa_contract.fallbacks import FALLBACK_NAMES
from rosa_contract.setting import setting
from rosa_contract.wire.horizon import Horizon, contradictions
from rosa_contract.wording import misspelt, shown

SYSTEM1 = "system1"
SYSTEM2 = "system2"
SAFETY = "safety"
MONITOR = "monitor"
KNOWN = (SYSTEM1, SYSTEM2, SAFETY, MONITOR)  # components whose answers a robot acts on
STOP_AND_CALL_HUMAN = "stop_and_call_human"
RETURN_TO_SAFE_STATE = "return_to_safe_state"
ABORT = "abort"
# Call a human where the robot stands, or at its safe pose, or end the task as failed; the arm holds.
ESCALATIONS = (STOP_AND_CALL_HUMAN, RETURN_TO_SAFE_STATE, ABORT)
GOAL_COUPLED = (SYSTEM1, SYSTEM2)  # invoked by the System 2 -> System 1 -> execution chain, never by a timer

# Of a task, a component or a model: messages name each, and schedules task/number, task/component and server/model.
MAX_NAMED_CHARS = 100

PLANNING = IN_TURN, AHEAD = "in_turn", "ahead"
EXECUTIONS = SYNCHRONOUS, ASYNCHRONOUS = "synchronous", "asynchronous"


@dataclass(frozen=True)
class Pipeline:
    """How System 2, System 1 and execution follow each other (ROSA 3.3, "Model composition")."""

    action_period_ms: float = setting("execution after each System 1 answer", above=0, at_most=60_000)
    system2_to_system1_call_ratio: float = setting(
        "System 2 calls per System 1 call: 1 plans before each action, 0.1 before every tenth",
        1.0,
        above=0,
        at_most=1,
    )
    planning: str = setting(
        "in_turn: System 2 sees how the last action ended, and the robot waits for the plan; ahead: it is called while"
        " the action before is executed, so that its plan is one action old",
        IN_TURN,
        choices=PLANNING,
    )
    execution: str = setting(
        "synchronous: the arm holds while the next chunk is inferred; asynchronous: the next one is inferred while the"
        " chunk plays, and joins it (docs/execution.md)",
        SYNCHRONOUS,
        choices=EXECUTIONS,
    )
    share_observation_ms: float = setting(
        "calls that would leave within this many ms of an observation are about it, so that a model that shares"
        " prefixes sees it once: periodic calls leave early (by half their period at most), and System 1 acts on what"
        " System 2 has just planned with; 0: only what is due at the same time is about one observation",
        0.0,
        at_least=0,
        at_most=10_000,
    )
    settle_ms: float = setting(
        "how long the arm settles after its action before the robot looks for the next one: a chunk that was made for"
        " an arm that still trails its setpoint makes less way (docs/execution.md); synchronous only",
        0.0,
        at_least=0,
        at_most=10_000,
    )
    horizon: Horizon | None = setting(
        "how the server chooses how many steps of each chunk are played; default: as many as fit into"
        " action_period_ms. With it, action_period_ms is the mean that the schedule plans with",
        None,
    )

    @property
    def action_s(self) -> float:
        """From System 1's answer to the next look: the action, and until the arm has settled."""
        return (self.action_period_ms + self.settle_ms) / 1000

    def early_s(self, freq_hz: float) -> float:
        """How long before it is due a periodic call of this rate may leave with others."""
        return min(self.share_observation_ms / 1000, 0.5 / freq_hz)


@dataclass(frozen=True)
class TaskRetry:
    """What follows a failed task (ROSA 3.3, "Task retry policy")."""

    max_task_retries: int = setting("retries after the first attempt", 3, at_least=0, at_most=1000)
    on_max_task_retries: str = setting(
        "after the last failure: call a human where the robot stands, or at the safe pose, or end the task as failed",
        STOP_AND_CALL_HUMAN,
        choices=ESCALATIONS,
    )


@dataclass(frozen=True)
class SafetyAndSloViolation:
    """When repeated violations become an escalation (ROSA 3.3, "Safety and SLO violations handling")."""

    max_consecutive_safety_replan: int = setting(
        "'unsafe' verdicts in a row before escalation", 10, at_least=1
    )
    max_consecutive_slo_violation: int = setting("missed deadlines in a row before escalation", 3, at_least=1)
    max_stops_without_action: int = setting(
        "stops in a row with no action carried out between them, whatever caused them, before a human is called",
        10,
        at_least=1,
    )
    on_max_violation: str = setting(
        "then: call a human where the robot stands, or at the safe pose, or end the task as failed",
        STOP_AND_CALL_HUMAN,
        choices=ESCALATIONS,
    )


@dataclass(frozen=True)
class Component:
    """One model component of a task (ROSA 3.3, "Performance requirements")."""

    model: str = setting("model that answers, a key of `models`")
    slo_ms: float = setting("deadline, counted on the robot from sending", above=0, at_most=600_000)
    prompt: str = setting(
        "text given to the model; {prompt} and names of the task's `parameters` in braces are filled in", ""
    )
    freq_hz: float | None = setting("calls per second of a periodic component", None, above=0, at_most=1000)
    fallback: str = setting(
        "what the robot does when a deadline is missed", "stop_and_resend", choices=FALLBACK_NAMES
    )
    confirmations: int = setting(
        "equal verdicts in a row before the robot acts on one; monitor only",
        1,
        at_least=1,
        at_most=100,
    )
    plans_after: int = setting(
        "the prompt is followed by what System 2 has planned in this task, a line each; a plan counts when it was made"
        " this many times in a row; 0: no plans; monitor only",
        0,
        at_least=0,
        at_most=100,
    )


@dataclass(frozen=True)
class Task:
    """What a robot does and what that needs (Figure 3, part 3)."""

    pipeline: Pipeline = setting("the System 2, System 1 and execution chain")
    components: Mapping[str, Component] = setting(
        "model components by name: system1, system2, safety, monitor, ..."
    )
    prompt: str = setting("what {prompt} stands for where a goal says nothing else (`rosa run --prompt`)", "")
    parameters: Mapping[str, str] = setting(
        "fields of the components' prompts by name, each with what it stands for where a goal says nothing else"
        " (`rosa run --parameter NAME=VALUE`)",
        dict,
    )
    task_retry: TaskRetry = setting("retries of a failed task", TaskRetry)
    safety_and_slo_violation: SafetyAndSloViolation = setting("escalation limits", SafetyAndSloViolation)
    value_weight: float = setting("value of one action of this task, v_c of equation (1)", 1.0, above=0)
    min_action_rate_hz: float = setting(
        "minimum action rate of a robot, equation (1), as a mean over the task's robots", 0.0, at_least=0
    )


def check_task(reader: Reader, name: str, task: Task) -> None:
    """Find values that are each possible but contradict one another."""
    where = f"{name}.components"
    if words := _unnameable(name):
        reader.fail(name, words, "invalid")
    if SYSTEM1 not in task.components:
        got = ", ".join(task.components) or "none"
        hint = misspelt(SYSTEM1, task.components)
        reader.fail(where, f"needs a component system1, the action model{hint}; got {got}", "missing")
    for key, component in task.components.items():
        if meant := _meant(key, task.components):
            words = (
                f"a component of this name is called and nothing acts on its answer (did you mean {meant!r}?)"
            )
            reader.fail(f"{where}.{key}", words, "unknown_name")
        if words := _unnameable(key, "/"):
            reader.fail(f"{where}.{key}", words, "invalid")
        if words := _unnameable(component.model):
            reader.fail(f"{where}.{key}.model", words, "invalid")
        if key in GOAL_COUPLED and component.freq_hz is not None:
            words = "is set by pipeline.action_period_ms for this component; remove it"
            reader.fail(f"{where}.{key}.freq_hz", words, "conflict")
        if key not in GOAL_COUPLED and component.freq_hz is None:
            words = "is missing; a periodic component needs calls per second"
            reader.fail(f"{where}.{key}.freq_hz", words, "missing")
        if component.confirmations > 1 and key != MONITOR:
            reader.fail(
                f"{where}.{key}.confirmations",
                f"expected 1, got {component.confirmations}: only the monitor waits for equal verdicts; the robot"
                " acts on any other answer at once",
                "conflict",
            )
        if component.plans_after and (key != MONITOR or SYSTEM2 not in task.components):
            words = "only a monitor is told plans, and only where there is a component system2"
            got = f"expected 0, got {component.plans_after}: {words}"
            reader.fail(f"{where}.{key}.plans_after", got, "conflict")
        if component.fallback == "use_last_plan" and SYSTEM2 not in task.components:
            words = "use_last_plan needs a component system2 that makes plans"
            reader.fail(f"{where}.{key}.fallback", words, "conflict")
    if task.pipeline.horizon is not None:
        for key, words, cause in contradictions(task.pipeline.horizon):
            reader.fail(f"{name}.pipeline.horizon.{key}", words, cause)
    if task.pipeline.settle_ms and task.pipeline.execution == ASYNCHRONOUS:
        got = f"expected 0, got {task.pipeline.settle_ms:g}: an arm that never holds between chunks cannot settle"
        reader.fail(f"{name}.pipeline.settle_ms", got, "conflict")
    if task.min_action_rate_hz > 1 / task.pipeline.action_s:
        reader.fail(
            f"{name}.min_action_rate_hz",
            f"{task.min_action_rate_hz:g} Hz cannot be reached: {_periods(task.pipeline)} allows at most"
            f" {1 / task.pipeline.action_s:g} Hz",
            "conflict",
        )


def _unnameable(name: str, without: str = "") -> str:
    """Why messages or schedules cannot name it, or an empty string."""
    if len(name) <= MAX_NAMED_CHARS and name.isprintable() and not (without and without in name):
        return ""
    but = f", without {without!r}" if without else ""
    return f"expected a name of at most {MAX_NAMED_CHARS} characters on one line{but}, got {shown(name)}"


def _meant(name: str, components: Mapping[str, Component]) -> str:
    """The component that a name is meant to be, or an empty string: for a name of your own, or a second monitor."""
    if name in KNOWN:
        return ""
    absent = [known for known in KNOWN if known not in components]
    close = difflib.get_close_matches(name.lower(), absent, n=1, cutoff=0.8)
    numbered = bool(close) and re.sub("[0-9]+$", "", name) == re.sub("[0-9]+$", "", close[0])
    return close[0] if close and not numbered else ""


def _periods(pipeline: Pipeline) -> str:
    settles = f" and settle_ms of {pipeline.settle_ms:g}" if pipeline.settle_ms else ""
    return f"action_period_ms of {pipeline.action_period_ms:g}{settles}"
