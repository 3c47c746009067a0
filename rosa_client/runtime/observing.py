"""Which observation a call is about: the robot's newest one, or one that it shares with the call before.

A model that shares prefixes sees an observation once, however many calls are about it (OxyGen 3.3). So calls that leave
in one control period are about one observation, and with `pipeline.share_observation_ms` so is what would leave soon
after: periodic calls leave earlier, never later, and of System 2 and System 1 the second call of a round is about what
the first one saw, if the arm has stood since.
"""

from __future__ import annotations

from rosa_client.runtime.calls import ComponentCalls
from rosa_client.runtime.machines.task_machine import State
from rosa_client.runtime.mission import Mission
from rosa_client.runtime.parts.sight import Observed
from rosa_contract.config.tasks import GOAL_COUPLED, SYSTEM1


def observation_for(core: Mission, calls: ComponentCalls, now_s: float) -> Observed | None:
    """What a call that leaves now is about; None while the newest samples are too old or show an earlier scene."""
    if core.stale(now_s):
        return None
    after_s = core.sight.fresh_after_s
    if calls.name in GOAL_COUPLED:
        after_s = max(after_s, core.sight.looks_from_s)
    if core.sight.is_new and core.sight.newest.oldest_s > after_s:
        return core.sight.newest
    if core.sight.of_round is not None and _shared(core, core.sight.of_round, calls, now_s):
        return core.sight.of_round
    seen = core.inputs.sensor_stamp_s
    oldest_s = min(seen.get(name, -1.0) for name in core.sensors)
    if oldest_s <= after_s:
        return None
    return core.sight.observe(now_s, oldest_s)


def _shared(core: Mission, seen: Observed, calls: ComponentCalls, now_s: float) -> bool:
    """Whether the second call of a round is about what the first one saw.

    Not one that is sent again, and none that continues a chunk: it has to see where the arm is.
    """
    within_s = core.task.pipeline.share_observation_ms / 1000
    if not within_s or calls.name not in GOAL_COUPLED or calls.about == seen.number:
        return False
    if calls.name == SYSTEM1 and core.state is State.EXECUTING:
        return False
    too_old = now_s - seen.oldest_s > core.robot.max_sensor_age_ms / 1000
    return not too_old and now_s - seen.taken_s <= within_s


def is_soon_due(core: Mission, calls: ComponentCalls, now_s: float) -> bool:
    """Whether a periodic call leaves with what is seen now, rather than by itself a little later."""
    freq_hz = calls.component.freq_hz
    return freq_hz is not None and now_s >= calls.due_s - core.task.pipeline.early_s(freq_hz)
