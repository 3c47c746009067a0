"""The factory description: ROSA's Figure 3, unchanged, plus optional settings whose defaults live only here."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rosa_contract.adapter import Adapter, anchored
from rosa_contract.endpoint import endpoint_problem
from rosa_contract.fallbacks import FALLBACK_NAMES
from rosa_contract.frontends import Frontend, frontend_problems
from rosa_contract.gateway import Gateway
from rosa_contract.horizon import Horizon, contradictions
from rosa_contract.kinds import FACTORY, SECTIONS, mistaken
from rosa_contract.policies import Policies
from rosa_contract.strict import Reader, misspelt, nearest, parse_yaml, read_yaml, setting, shown

SHA256 = re.compile("[0-9a-fA-F]{64}")
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


CLUSTERS = LOCAL, RAY = "local", "ray"


@dataclass(frozen=True)
class ServerCluster:
    """The GPU pool (Figure 3, part 1)."""

    num_servers: int = setting("GPUs in the pool", at_least=1, at_most=100_000)
    gpu_type: str = setting("hardware name, the folder of its profiles", "cpu")
    cluster: str = setting(
        "who starts the workers: `local`, processes of this machine, or `ray`, on the nodes of a Ray cluster"
        " (docs/cluster.md)",
        LOCAL,
        choices=CLUSTERS,
    )
    address: str = setting("cluster: ray: HOST:PORT of Ray's head", "127.0.0.1:6379")
    workers_port: int = setting(
        "cluster: ray: TCP port of this machine to which workers connect; 0: any free one",
        0,
        at_least=0,
        at_most=65535,
    )


@dataclass(frozen=True)
class FleetEntry:
    """One group of robots that run the same task (Figure 3, part 2)."""

    task: str = setting("name of a task of this file")
    num_robots: int = setting("robots that run it", at_least=1, at_most=1_000_000)


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
        "calls that would leave within so many ms of an observation are about it, so that a model that shares prefixes"
        " sees it once: periodic calls leave early (by half their period at most), and System 1 acts on what System 2"
        " has just planned with; 0: only what is due at the same time is about one observation",
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
    prompt: str = setting("text given to the model", "")
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
        " so many times in a row; 0: no plans; monitor only",
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
    task_retry: TaskRetry = setting("retries of a failed task", TaskRetry)
    safety_and_slo_violation: SafetyAndSloViolation = setting("escalation limits", SafetyAndSloViolation)
    value_weight: float = setting("value of one action of this task, v_c of equation (1)", 1.0, above=0)
    min_action_rate_hz: float = setting(
        "minimum action rate of a robot, equation (1), as a mean over the task's robots", 0.0, at_least=0
    )


@dataclass(frozen=True)
class Cloud:
    """More workers of a model, a link away: they get what the edge would begin with too late (Kairos 3.2.3)."""

    workers: int = setting("worker processes in the cloud; 0: none", 0, at_least=0, at_most=1000)
    link_ms: float = setting("one way to them, and the same back", 50.0, above=0, at_most=10_000)
    options: Mapping[str, Any] = setting("arguments of the backend there, instead of the model's", dict)


@dataclass(frozen=True)
class Model:
    """How the server runs a model. A model without an entry can be planned for, but not served."""

    backend: str = setting("name of a backend, or `module:Class` of your own (docs/add_a_model.md)")
    options: Mapping[str, Any] = setting("arguments of the backend", dict)
    sha256: Mapping[str, str] = setting(
        "checksums by file, such as `policy.safetensors: 9f86...`; a worker that finds another one does not start,"
        " and no file of `options.weights` may be without one. Default: none is compared",
        dict,
    )
    python: str = setting(
        "interpreter of a Python environment of its own, such as /opt/lerobot/bin/python, with what the model needs and"
        " the wheel that `rosa env` installs; default: the server's",
        "",
    )
    workers: int = setting("worker processes, one per GPU", 1, at_least=1, at_most=1000)
    max_batch: int | None = setting(
        "largest batch; default: the backend's own limit", None, at_least=1, at_most=4096
    )
    cloud: Cloud = setting("a second tier; only without a schedule", Cloud)
    adapter: Adapter | None = setting(
        "between what robots send and play and what the model takes and answers; default: they are the same",
        None,
    )


@dataclass(frozen=True)
class Factory:
    """A whole factory description."""

    server_cluster: ServerCluster
    robot_fleet: tuple[FleetEntry, ...]
    tasks: Mapping[str, Task]
    models: Mapping[str, Model]
    gateway: Gateway
    policies: Policies = field(default_factory=Policies)
    frontends: Mapping[str, Frontend] = field(default_factory=dict)

    def models_of(self, task: str) -> dict[str, str]:
        """Component name -> model name of one task."""
        return {name: component.model for name, component in self.tasks[task].components.items()}


def load_factory(path: str | Path) -> Factory:
    """Load and check a factory file. Raises `ConfigError` listing every mistake in it.

    Relative paths in `gateway.curve_keys`, `gateway.task_lengths`, a frontend's TLS files, a model's `weights` and
    `profile` options and its adapter start at the file's folder.
    """
    factory = factory_from(read_yaml(path), str(path))
    folder = Path(path).resolve().parent
    models = {
        name: replace(
            model,
            options=_anchored(model.options, folder),
            sha256={str(folder / path): digest for path, digest in model.sha256.items()},
            cloud=replace(model.cloud, options=_anchored(model.cloud.options, folder)),
            python=model.python and str(folder / model.python),
            adapter=model.adapter and anchored(model.adapter, folder),
        )
        for name, model in factory.models.items()
    }
    gateway = factory.gateway
    if gateway.curve_keys:
        gateway = replace(gateway, curve_keys=str(folder / gateway.curve_keys))
    if gateway.task_lengths:
        gateway = replace(gateway, task_lengths=str(folder / gateway.task_lengths))
    frontends = {
        name: replace(
            one,
            tls_certificate=str(folder / one.tls_certificate) if one.tls_certificate else "",
            tls_key=str(folder / one.tls_key) if one.tls_key else "",
        )
        for name, one in factory.frontends.items()
    }
    return replace(factory, models=models, gateway=gateway, frontends=frontends)


def parse_factory(text: str, source: str = "<text>") -> Factory:
    """As `load_factory`, for text that is already in memory; paths stay as written."""
    return factory_from(parse_yaml(text, source), source)


def factory_from(document: Any, source: str) -> Factory:
    """A `Factory` from plain YAML values; every top-level key that is not a section is a task, as in Figure 3."""
    reader = Reader(source)
    entries = reader.mapping("", document)
    if problem := mistaken(document, FACTORY):
        reader.fail("", problem, "wrong_type")
    reader.finish()
    assert entries is not None
    for name in ("server_cluster", "robot_fleet"):
        if name not in entries:
            reader.fail(name, f"is missing{misspelt(name, entries)}", "missing")
    cluster = reader.section(
        ServerCluster, "server_cluster", entries.get("server_cluster", {"num_servers": 1})
    )
    fleet = reader.value(tuple[FleetEntry, ...], "robot_fleet", entries.get("robot_fleet", []), {})
    models = reader.value(Mapping[str, Model], "models", entries.get("models", {}), {})
    for name, model in models.items():
        for path, digest in model.sha256.items() if model else ():
            if not SHA256.fullmatch(digest):
                words = f"expected 64 hexadecimal digits, as sha256sum prints them, got {shown(digest)}"
                reader.fail(f"models.{name}.sha256.{path}", words, "out_of_range")
    gateway = reader.section(Gateway, "gateway", entries.get("gateway", {}))
    if gateway and (problem := endpoint_problem(gateway.bind, binds=True)):
        reader.fail("gateway.bind", problem, "out_of_range")
    policies = reader.section(Policies, "policies", entries.get("policies", {}))
    frontends = reader.value(Mapping[str, Frontend], "frontends", entries.get("frontends", {}), {})
    tasks = {}
    for name, value in entries.items():
        if name in SECTIONS:
            continue
        if not isinstance(value, dict) or not ("components" in value or "pipeline" in value):
            known = [*SECTIONS, *(f"{entry.task}" for entry in fleet if entry)]
            words = f"is neither a section nor a task with components{nearest(name, known)}"
            reader.fail(name, words, "unknown_key")
            continue
        tasks[name] = reader.section(Task, name, value)
        if tasks[name]:
            _check_task(reader, name, tasks[name])
    if not any(task for task in tasks.values()) and not reader.problems:
        reader.fail("", "describes no task; expected a task with components beside the sections", "missing")
    for index, entry in enumerate(fleet):
        if entry and entry.task not in tasks:
            hint = nearest(entry.task, tasks)
            words = f"no task {shown(entry.task)} in this file{hint}"
            reader.fail(f"robot_fleet[{index}].task", words, "unknown_name")
    for name, frontend in frontends.items():
        if frontend:
            _check_frontend(reader, f"frontends.{name}", frontend, tasks)
    reader.finish()
    _check_models(reader, tasks, models)
    reader.finish()
    return Factory(cluster, fleet, tasks, models, gateway, policies, frontends)


def _check_task(reader: Reader, name: str, task: Task) -> None:
    """Find values that are each possible but contradict one another."""
    where = f"{name}.components"
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


def _check_frontend(reader: Reader, where: str, frontend: Frontend, tasks: Mapping[str, Task | None]) -> None:
    for key, words, cause in frontend_problems(frontend):
        reader.fail(f"{where}.{key}", words, cause)
    if frontend.task not in tasks:
        words = f"no task {shown(frontend.task)} in this file{nearest(frontend.task, tasks)}"
        reader.fail(f"{where}.task", words, "unknown_name")
    elif (task := tasks[frontend.task]) is not None and frontend.component not in task.components:
        hint = nearest(frontend.component, task.components)
        words = f"{frontend.task} has no component {shown(frontend.component)}{hint}"
        reader.fail(f"{where}.component", words, "unknown_name")


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


def _check_models(reader: Reader, tasks: Mapping[str, Task], models: Mapping[str, Model]) -> None:
    used = {component.model for task in tasks.values() for component in task.components.values()}
    unused = [name for name in models if name not in used]
    for task_name, task in tasks.items():
        for key, component in task.components.items():
            hint = "" if component.model in models else nearest(component.model, unused)
            if (
                hint
            ):  # a model without an entry can be planned for; this one has an entry that nothing else uses
                words = f"no model {shown(component.model)} in `models`{hint}"
                reader.fail(f"{task_name}.components.{key}.model", words, "unknown_name")
                unused = [name for name in unused if repr(name) not in hint]
    for name in unused:
        reader.fail(f"models.{name}", "is used by no component", "unknown_name")


def _anchored(options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    paths = ("weights", "profile")
    return {
        key: str(folder / value) if key in paths and isinstance(value, str) else value
        for key, value in options.items()
    }
