"""What an answer means that came in time: a plan, actions, a safety verdict, progress."""

from __future__ import annotations

from collections import deque

from rosa_client.motion.chunk_check import BadChunk, check_chunk
from rosa_client.runtime.commands import Answer, Play
from rosa_client.runtime.ladder import SUPERVISED, failed, finish, unsafe, violate
from rosa_client.runtime.lane import Lane
from rosa_client.runtime.mission import Mission
from rosa_client.runtime.task_machine import Event, State
from rosa_contract.config import MONITOR, SAFETY, SYSTEM1, SYSTEM2
from rosa_contract.messages import OK, Output

VERDICTS = {SAFETY: ("safe", "unsafe"), MONITOR: ("ongoing", "done", "failed")}


def use(core: Mission, lane: Lane, answer: Answer, now_s: float) -> None:
    """End the call with what its answer is worth, and act on it."""
    output = answer.output
    if answer.status != OK or output is None:
        _unusable(core, lane, f"server_{answer.status}", answer.reason or answer.status, now_s)
    elif lane.name == SYSTEM1:
        _use_actions(core, lane, output, answer.request_id, now_s)
    elif output.verdict not in VERDICTS.get(lane.name, (output.verdict,)):
        expected = " or ".join(VERDICTS[lane.name])
        _unusable(core, lane, "invalid_verdict", f"expected {expected}, got {output.verdict[:40]!r}", now_s)
    else:
        core.out.append(lane.succeed(now_s))
        if lane.name == SAFETY and output.verdict == "unsafe":
            unsafe(core, lane, now_s)
            return
        core.clear(lane.name)
        if lane.name == SAFETY:
            core.unsafe_in_a_row, core.looked = 0, True
        elif lane.name == SYSTEM2:
            _use_plan(core, output.text)
        elif lane.name == MONITOR:
            _use_progress(core, lane, output.verdict, now_s)


def _unusable(core: Mission, lane: Lane, cause: str, reason: str, now_s: float) -> None:
    core.out.append(lane.miss(now_s))
    violate(core, [(lane, reason)], cause, now_s)


def _use_plan(core: Mission, text: str) -> None:
    core.plan = text or None
    core.plan_credit = max(0.0, core.plan_credit - 1)
    core.note("plan", "plan_in_time", text or "an empty plan: System 1 keeps its own prompt", SYSTEM2)


def _use_actions(core: Mission, lane: Lane, output: Output, request_id: int, now_s: float) -> None:
    period_s = core.task.pipeline.action_period_ms / 1000
    try:
        actions, step_s = check_chunk(output, core.robot, period_s)
    except BadChunk as problem:
        _unusable(core, lane, "invalid_actions", str(problem), now_s)
        return
    core.out.append(lane.succeed(now_s))
    if core.state is not State.INFERRING:
        return  # a stop came first: an action decided before it is not executed after it
    took_ms = lane.latencies_ms[-1]
    core.counters.rounds += 1
    core.counters.system1_ms.append(took_ms)
    core.play_until_s = now_s + period_s / core.robot.velocity_scale
    core.go(Event.ACTIONS, now_s)
    core.note("execute", "actions_in_time", f"round {core.counters.rounds}: {took_ms:.0f} ms", SYSTEM1)
    core.order(Play(core.next_sequence(), actions, step_s, period_s, request_id), now_s)


def _use_progress(core: Mission, lane: Lane, verdict: str, now_s: float) -> None:
    """ROSA 3.3, "Task retry policy": done ends the task, failed resets the robot and retries it.

    A robot that something still holds does neither: the reset would move it before that is good again.
    """
    seen = core.verdicts.setdefault(lane.name, deque(maxlen=lane.component.confirmations))
    seen.append(verdict)
    confirmed = list(seen).count(verdict) >= lane.component.confirmations
    moves = core.state in (State.RETURNING, State.RESETTING) or core.reset_pending or core.return_pending
    if not confirmed or core.holds or moves or core.state not in SUPERVISED:
        return
    if verdict == "done":
        finish(core, "done", "monitor", "the monitor says done", now_s)
    elif verdict == "failed":
        failed(core, now_s)
