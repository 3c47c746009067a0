"""What to do with a response that came in time: a plan, actions, a safety verdict, progress."""

from __future__ import annotations

from collections.abc import Mapping

from rosa_client.motion.chunk_check import BadChunk, check_chunk, check_horizon
from rosa_client.runtime import ahead
from rosa_client.runtime.calls import ComponentCalls
from rosa_client.runtime.commands import Play
from rosa_client.runtime.ladder import SUPERVISED, failed, finish, unsafe, violate
from rosa_client.runtime.machines.side_machines import Unfinished
from rosa_client.runtime.machines.task_machine import MOVES, Event, State
from rosa_client.runtime.mission import Mission
from rosa_client.runtime.parts.chunk import Playing
from rosa_client.runtime.parts.planned import besides
from rosa_contract.config.tasks import MONITOR, SAFETY, SYSTEM1, SYSTEM2
from rosa_contract.wire.messages import OK, Array, Output, Response

Seen = Mapping[str, Array] | None

MONITOR_TEXT = 200  # characters of the monitor's text that reach logs and diagnostics
HORIZON_TEXT = 200  # and of the reason for a horizon
VERDICTS = {SAFETY: ("safe", "unsafe"), MONITOR: ("ongoing", "done", "failed")}


def use(core: Mission, calls: ComponentCalls, response: Response, now_s: float, seen: Seen = None) -> None:
    """End the call as in time or, where the response is of no use, as missed; then act on it.

    `seen` as for `RobotRuntime.answer`.
    """
    output = response.output
    if response.status != OK or output is None:
        _unusable(core, calls, f"server_{response.status}", response.reason or response.status, now_s)
    elif calls.name == SYSTEM1:
        _use_actions(core, calls, output, response.request_id, now_s, seen)
    elif output.verdict not in VERDICTS.get(calls.name, (output.verdict,)):
        expected = " or ".join(VERDICTS[calls.name])
        _unusable(core, calls, "invalid_verdict", f"expected {expected}, got {output.verdict[:40]!r}", now_s)
    else:
        core.out.append(calls.succeed(now_s))
        if calls.name == SAFETY and output.verdict == "unsafe":
            unsafe(core, calls, now_s)
            return
        core.clear(calls.name, f"{calls.name} answered in time again")
        if calls.name == SAFETY:
            core.holds.says_safe()
        elif calls.name == SYSTEM2:
            _use_plan(core, output.text)
        elif calls.name == MONITOR:
            core.planning.hear_monitor(output.text)
            _hear_why(core, besides(output.text))
            _use_progress(core, calls, output.verdict, now_s)


def _unusable(core: Mission, calls: ComponentCalls, cause: str, reason: str, now_s: float) -> None:
    core.out.append(calls.miss(now_s))
    violate(core, [(calls, reason)], cause, now_s)


def _use_plan(core: Mission, text: str) -> None:
    core.planning.hear(text)
    core.spend_plan_credit()
    core.note("plan", "plan_in_time", text or "an empty plan: System 1 keeps its own prompt", SYSTEM2)


def _use_actions(
    core: Mission,
    calls: ComponentCalls,
    output: Output,
    request_id: int,
    now_s: float,
    seen: Seen,
) -> None:
    period_s = core.task.pipeline.action_period_ms / 1000
    asked = core.chunk.asked
    frozen = asked.frozen if asked is not None else 0
    try:
        overlap = asked.overlap if asked is not None else None
        output = core.spaces.in_joints(output, seen, core.arm.gripper_m, period_s, overlap)
        actions, step_s = check_chunk(output, core.limits, period_s)
        free = max(1, len(actions) - frozen)
        steps = check_horizon(output, core.task.pipeline.horizon, free, step_s, period_s)
    except BadChunk as problem:
        _unusable(core, calls, "invalid_actions", str(problem), now_s)
        return
    core.out.append(calls.succeed(now_s))
    if core.state not in (State.INFERRING, State.EXECUTING):
        return  # a stop came first; actions inferred before it are not executed after it
    lasts_s = period_s if steps is None else steps * step_s
    part = ahead.part(core, len(actions), step_s, lasts_s, now_s)
    if part is None:
        core.chunk.plays_out()
        core.note("discard", "chunk_is_over", "its time passed while it was inferred", SYSTEM1)
        return
    took_ms = calls.latencies_ms[-1]
    core.counters.round(took_ms)
    if core.state is State.EXECUTING:
        core.carried_out(played=not core.arm_is_behind)
    scale = core.robot.velocity_scale
    core.go(Event.ACTIONS, now_s)
    told = f"round {core.counters.rounds}: {took_ms:.0f} ms"
    if steps is not None:
        told = f"{told}; {steps} of {len(actions)} steps: {output.horizon_reason[:HORIZON_TEXT]}"
    if core.chunk.asked is not None:
        told = f"{told}; joined after {1000 * part.skip_s:.0f} ms"
    core.note("execute", "actions_in_time", told, SYSTEM1)
    number = core.arm.next_sequence()
    core.order(Play(number, actions, step_s, part.lasts_s, request_id, part.skip_s), now_s)
    playing = Playing(actions, step_s, now_s - part.skip_s / scale)
    ahead.begins(core, playing, now_s + part.lasts_s / scale, now_s)


def _hear_why(core: Mission, text: str) -> None:
    """Tell people what the monitor says besides its verdict, such as `out_of_range: too dark: ...`; once per kind."""
    text = text[:MONITOR_TEXT]
    kind = text.rpartition(":")[0] or text  # without the figures, which differ from look to look
    if core.attempts.is_news(kind) and text:
        core.note("note", "monitor_says", text, MONITOR)


def _use_progress(core: Mission, calls: ComponentCalls, verdict: str, now_s: float) -> None:
    """ROSA 3.3, "Task retry policy": done ends the task, failed resets the robot and retries it.

    The reset moves the robot, so "failed" waits while something holds it. "done" moves nothing, so it ends the task
    also then, but not in the middle of a move to a pose, nor while such a move is to begin again.
    """
    confirmed = core.attempts.hear(calls.name, verdict, calls.component.confirmations)
    moves = core.state in MOVES or core.holds.unfinished is not Unfinished.NOTHING
    if not confirmed or moves or core.state not in SUPERVISED:
        return
    if verdict == "done":
        finish(core, "done", "monitor", "the monitor says done", now_s)
    elif verdict == "failed" and not core.holds.by:
        failed(core, now_s)
