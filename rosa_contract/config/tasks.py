"""A task of a factory file: its components, their deadlines, and what happens after a failure (Figure 3, part 3)."""

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
    """How System 2, System 1 and execution follow one another (ROSA 3.3, "Model composition")."""

    action_period_ms: float = setting(
        "how long the robot executes each System 1 answer", above=0, at_most=60_000
    )
    system2_to_system1_call_ratio: float = setting(
        "System 2 calls per System 1 call: 1 plans before every action, 0.1 before every tenth",
        1.0,
        above=0,
        at_most=1,
    )
    planning: str = setting(
        "in_turn: System 2 sees the result of the last action, and the robot waits for the plan; ahead: System 2"
        " is called during the previous action, so its plan is one action old",
        IN_TURN,
        choices=PLANNING,
    )
    execution: str = setting(
        "synchronous: the arm holds still while the next chunk is inferred; asynchronous: the next chunk is"
        " inferred while the current one plays, and takes over in mid-motion (docs/execution.md)",
        SYNCHRONOUS,
        choices=EXECUTIONS,
    )
    share_observation_ms: float = setting(
        "calls due within this time after an observation reuse it, so that a model that shares prefixes processes"
        " it only once: periodic calls are sent early (by half their period at most), and System 1 gets the"
        " observation that System 2 just planned with; 0: only calls due at the same moment share an observation",
        0.0,
        at_least=0,
        at_most=10_000,
    )
    settle_ms: float = setting(
        "pause after each action, before the next observation, for the arm to settle: a chunk inferred while the"
        " arm still trails its setpoint makes less progress (docs/execution.md); synchronous only",
        0.0,
        at_least=0,
        at_most=10_000,
    )
    horizon: Horizon | None = setting(
        "lets the server choose how many steps of each chunk are played; action_period_ms is then the mean that"
        " the schedule assumes; default: as many steps as fit into action_period_ms",
        None,
    )

    @property
    def action_s(self) -> float:
        """From System 1's answer to the next observation: the action, then `settle_ms`."""
        return (self.action_period_ms + self.settle_ms) / 1000

    def early_s(self, freq_hz: float) -> float:
        """How early a periodic call of this rate may be sent, to share an observation."""
        return min(self.share_observation_ms / 1000, 0.5 / freq_hz)


@dataclass(frozen=True)
class TaskRetry:
    """What happens after a failed attempt (ROSA 3.3, "Task retry policy")."""

    max_task_retries: int = setting("retries after the first attempt", 3, at_least=0, at_most=1000)
    on_max_task_retries: str = setting(
        "after the last failed attempt: call a human with the robot where it is, move to the safe pose and call a"
        " human, or end the task as failed",
        STOP_AND_CALL_HUMAN,
        choices=ESCALATIONS,
    )


@dataclass(frozen=True)
class SafetyAndSloViolation:
    """When repeated violations are escalated (ROSA 3.3, "Safety and SLO violations handling")."""

    max_consecutive_safety_replan: int = setting(
        "consecutive 'unsafe' verdicts before `on_max_violation` applies", 10, at_least=1
    )
    max_consecutive_slo_violation: int = setting(
        "consecutive missed deadlines before `on_max_violation` applies", 3, at_least=1
    )
    max_stops_without_action: int = setting(
        "consecutive stops, for any reason, without an executed action in between, before a human is called",
        10,
        at_least=1,
    )
    on_max_violation: str = setting(
        "call a human with the robot where it is, move to the safe pose and call a human, or end the task as"
        " failed",
        STOP_AND_CALL_HUMAN,
        choices=ESCALATIONS,
    )


@dataclass(frozen=True)
class Component:
    """One model component of a task (ROSA 3.3, "Performance requirements")."""

    model: str = setting("model that answers the calls, a key of `models`")
    slo_ms: float = setting("deadline, measured on the robot from sending", above=0, at_most=600_000)
    prompt: str = setting(
        "prompt for the model; {prompt} and the task's `parameters` can be used in braces", ""
    )
    freq_hz: float | None = setting(
        "call rate of a periodic component (any except system1 and system2)", None, above=0, at_most=1000
    )
    fallback: str = setting(
        "what the robot does when a deadline is missed", "stop_and_resend", choices=FALLBACK_NAMES
    )
    confirmations: int = setting(
        "monitor only: identical verdicts in a row before the robot acts on one",
        1,
        at_least=1,
        at_most=100,
    )
    plans_after: int = setting(
        "monitor only: System 2's plans in this task are appended to the prompt, one per line; a plan is included"
        " once System 2 has made it this many times in a row; 0: no plans",
        0,
        at_least=0,
        at_most=100,
    )


@dataclass(frozen=True)
class Task:
    """What a robot does, and which models it needs for that (Figure 3, part 3)."""

    pipeline: Pipeline = setting("how System 2, System 1 and execution follow one another")
    components: Mapping[str, Component] = setting(
        "model components by name: system1, system2, safety, monitor, ..."
    )
    prompt: str = setting(
        "default for {prompt}, used when a goal has no prompt of its own (`rosa run --prompt`)", ""
    )
    parameters: Mapping[str, str] = setting(
        "placeholders in the components' prompts, by name, with default values; a goal can override them (`rosa"
        " run --parameter NAME=VALUE`)",
        dict,
    )
    task_retry: TaskRetry = setting("retries of a failed task", TaskRetry)
    safety_and_slo_violation: SafetyAndSloViolation = setting("limits for escalation", SafetyAndSloViolation)
    value_weight: float = setting("value of one action of this task, v_c in equation (1)", 1.0, above=0)
    min_action_rate_hz: float = setting(
        "minimum action rate per robot, averaged over the task's robots, equation (1)", 0.0, at_least=0
    )


def check_task(reader: Reader, name: str, task: Task) -> None:
    """Report values that are each valid but contradict one another."""
    where = f"{name}.components"
    if words := _unnameable(name):
        reader.fail(name, words, "invalid")
    if SYSTEM1 not in task.components:
        got = ", ".join(task.components) or "none"
        hint = misspelt(SYSTEM1, task.components)
        reader.fail(where, f"needs a component system1, the action model{hint}; got {got}", "missing")
    for key, component in task.components.items():
        if meant := _meant(key, task.components):
            words = f"the robot ignores the answers of a component with this name (did you mean {meant!r}?)"
            reader.fail(f"{where}.{key}", words, "unknown_name")
        if words := _unnameable(key, "/"):
            reader.fail(f"{where}.{key}", words, "invalid")
        if words := _unnameable(component.model):
            reader.fail(f"{where}.{key}.model", words, "invalid")
        if key in GOAL_COUPLED and component.freq_hz is not None:
            words = "is set by pipeline.action_period_ms for this component; remove it"
            reader.fail(f"{where}.{key}.freq_hz", words, "conflict")
        if key not in GOAL_COUPLED and component.freq_hz is None:
            words = "is missing; a periodic component needs a call rate"
            reader.fail(f"{where}.{key}.freq_hz", words, "missing")
        if component.confirmations > 1 and key != MONITOR:
            reader.fail(
                f"{where}.{key}.confirmations",
                f"expected 1, got {component.confirmations}: only the monitor waits for equal verdicts; the robot"
                " acts on any other answer at once",
                "conflict",
            )
        if component.plans_after and (key != MONITOR or SYSTEM2 not in task.components):
            words = "only a monitor gets plans, and only in a task with a component system2"
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
    """Why messages or schedules cannot use this name; empty if they can."""
    if len(name) <= MAX_NAMED_CHARS and name.isprintable() and not (without and without in name):
        return ""
    but = f", without {without!r}" if without else ""
    return f"expected a name of at most {MAX_NAMED_CHARS} characters on one line{but}, got {shown(name)}"


def _meant(name: str, components: Mapping[str, Component]) -> str:
    """The known component of which a name is probably a misspelling; empty for any other name, such as monitor2."""
    if name in KNOWN:
        return ""
    absent = [known for known in KNOWN if known not in components]
    close = difflib.get_close_matches(name.lower(), absent, n=1, cutoff=0.8)
    numbered = bool(close) and re.sub("[0-9]+$", "", name) == re.sub("[0-9]+$", "", close[0])
    return close[0] if close and not numbered else ""


def _periods(pipeline: Pipeline) -> str:
    settles = f" and settle_ms of {pipeline.settle_ms:g}" if pipeline.settle_ms else ""
    return f"action_period_ms of {pipeline.action_period_ms:g}{settles}"
