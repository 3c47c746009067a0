"""The robot's state, its components' calls against their deadlines, and diagnostics, as messages."""

from __future__ import annotations

import numpy as np
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from rosa_interfaces.msg import ComponentStatus, RobotStatus
from rosa_interfaces.msg import Decision as DecisionMessage
from std_msgs.msg import Header

from rosa_client.connection.link import GatewayLink
from rosa_client.runtime.calls import ComponentCalls
from rosa_client.runtime.commands import Decision
from rosa_client.runtime.machines.task_machine import State
from rosa_client.runtime.runtime import RobotRuntime

STOPPED = (State.HOLDING, State.RETURNING, State.RESETTING, State.CLEARING)
SHOWN = (
    "last_ms",
    "p50_ms",
    "p99_ms",
    "slo_ms",
    "sent",
    "in_time",
    "missed",
    "consecutive_missed",
    "late_discarded",
)


def robot_status(core: RobotRuntime, task_name: str, server_connected: bool, stamp: Time) -> RobotStatus:
    """The state of the task, its last decision, and how each component's calls are doing."""
    running = core.state is not State.IDLE
    return RobotStatus(
        header=Header(stamp=stamp),
        robot=core.name,
        task=task_name if running else "",
        state=core.state.value,
        round=core.counters.rounds,
        attempt=core.attempt if running else 0,
        server_connected=server_connected,
        last_decision=decision_message(core.last_decision or Decision("", "", ""), stamp),
        components=[component_status(calls) for calls in core.calls.values()],
    )


def decision_message(decision: Decision, stamp: Time) -> DecisionMessage:
    return DecisionMessage(
        header=Header(stamp=stamp),
        action=decision.action,
        cause=decision.cause,
        reason=decision.reason,
        component=decision.component,
    )


def diagnostics(core: RobotRuntime, link: GatewayLink) -> list[DiagnosticStatus]:
    """The server, the task, and each component with its deadline."""
    up = DiagnosticStatus(name=f"{core.name}: server", hardware_id=link.endpoint)
    up.level = DiagnosticStatus.OK if link.ready else DiagnosticStatus.ERROR
    up.message = "welcomed" if link.ready else link.reason
    components = [_component(core.name, calls, link.endpoint) for calls in core.calls.values()]
    return [up, _task(core), *components]


def _task(core: RobotRuntime) -> DiagnosticStatus:
    task = DiagnosticStatus(name=f"{core.name}: task", hardware_id=core.name, message=core.state.value)
    task.level = DiagnosticStatus.OK
    if core.alert is not None:
        task.level = DiagnosticStatus.ERROR
        task.message = f"waits for a human: {core.alert.reason} ({core.alert.cause})"
    elif core.state in STOPPED and core.last_decision is not None:
        task.level = DiagnosticStatus.WARN
        task.message = f"{core.state.value}: {core.last_decision.reason} ({core.last_decision.cause})"
    return task


def _component(robot: str, calls: ComponentCalls, endpoint: str) -> DiagnosticStatus:
    """Nobody knows how a component does before its first call has ended."""
    status = component_status(calls)
    level, message = DiagnosticStatus.OK, "in time"
    if calls.consecutive_missed:
        level, message = DiagnosticStatus.WARN, f"{calls.consecutive_missed} misses in a row"
    elif not calls.sent:
        level, message = DiagnosticStatus.STALE, "not called yet"
    elif not calls.in_time:
        level, message = DiagnosticStatus.STALE, "no result yet"
    values = [KeyValue(key=key, value=f"{getattr(status, key):g}") for key in SHOWN]
    return DiagnosticStatus(
        level=level, name=f"{robot}: {calls.name}", hardware_id=endpoint, message=message, values=values
    )


def component_status(calls: ComponentCalls) -> ComponentStatus:
    """One component's calls as a message; latencies are NaN before the first result."""
    latencies = np.array(calls.latencies_ms) if calls.latencies_ms else np.array([np.nan])
    p50_ms, p99_ms = np.percentile(latencies, [50, 99])
    return ComponentStatus(
        component=calls.name,
        last_ms=float(latencies[-1]),
        p50_ms=float(p50_ms),
        p99_ms=float(p99_ms),
        slo_ms=calls.component.slo_ms,
        sent=calls.sent,
        in_time=calls.in_time,
        missed=calls.missed,
        consecutive_missed=calls.consecutive_missed,
        late_discarded=calls.late_discarded,
    )
