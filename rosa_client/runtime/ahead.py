"""Asynchronous execution: when the next chunk is asked for while one plays, and where it is joined.

A chunk is asked for so that its answer comes just before the present one runs out, by the slowest of the latest calls.
What plays meanwhile is frozen: the request carries the rest of the chunk, and how much of it will have been played.
The answer begins at the observation; what has passed since then is skipped by time, never by count. While the arm
stands because its chunk has ended, that time stands too.
Sources: DESIGN "Execution"; Kairos 2.1; Black et al., Real-Time Execution of Action Chunking Flow Policies, 2025, 3.2.
"""

from __future__ import annotations

from itertools import islice
from math import ceil, inf

import numpy as np

from rosa_client.runtime.machines.side_machines import MAY_INFER
from rosa_client.runtime.mission import Mission
from rosa_client.runtime.parts.chunk import AskedAhead, ChunkPart, Playing
from rosa_contract.config.tasks import ASYNCHRONOUS, SYSTEM1, SYSTEM2
from rosa_contract.wire.overlap import MAX_ROWS, MAX_VALUES, Overlap

LATEST_CALLS = 10  # whose slowest is expected of the next one
MARGIN_S = 0.02  # two control periods: from an answer to an arm that plays it
MIN_PLAYED_S = 0.02  # a chunk of which less is left is not worth joining


def wanted(core: Mission) -> bool:
    """Whether System 1 is asked while this chunk plays.

    Not for an action that needs another plan first: System 2 has to see how this one ends, or its answer has to come.
    """
    pipeline, planner = core.task.pipeline, core.calls.get(SYSTEM2)
    if pipeline.execution != ASYNCHRONOUS or core.holds.safety not in MAY_INFER or core.chunk.playing is None:
        return False
    if planner is None:
        return True
    due = core.planning.is_due_after(pipeline.system2_to_system1_call_ratio)
    return not due and not planner.in_flight


def expected_s(core: Mission) -> float:
    """How long the next call of System 1 may take: as the slowest of the latest, or its whole deadline before any."""
    calls = core.calls[SYSTEM1]
    latest = islice(reversed(calls.latencies_ms), LATEST_CALLS)
    return max(latest, default=calls.component.slo_ms) / 1000 + MARGIN_S


def begins(core: Mission, playing: Playing, ends_s: float, now_s: float) -> None:
    """A chunk begins to play, until `ends_s`."""
    asynchronous = core.task.pipeline.execution == ASYNCHRONOUS
    ask_next_s = max(now_s, ends_s - expected_s(core)) if asynchronous else inf
    core.chunk.begins(playing, ends_s, ask_next_s)


def asks(core: Mission, now_s: float) -> AskedAhead:
    """What goes on while the chunk that is asked for now is inferred."""
    playing, scale = core.chunk.playing, core.robot.velocity_scale
    assert playing is not None
    step_s, last = playing.step_s, len(playing.actions) - 1
    here_s = max(0.0, now_s - playing.zero_s) * scale
    first = min(last, int(here_s / step_s + 1e-6))
    limit = min(MAX_ROWS, MAX_VALUES // playing.actions.shape[1])
    rows = playing.actions[first : first + limit]
    ends_s = min(core.chunk.ends_s, now_s + expected_s(core))
    played = ceil((ends_s - playing.zero_s) * scale / step_s - 1e-6) - first
    frozen = min(max(1, played), len(rows))
    goes_on = Overlap(np.asarray(rows, np.float32), frozen, step_s)
    return AskedAhead(playing.zero_s + first * step_s / scale, frozen, goes_on)


def part(core: Mission, steps: int, step_s: float, lasts_s: float, now_s: float) -> ChunkPart | None:
    """What to play of an answer of `steps`, which its task plays for `lasts_s`; None where too little is left of it.

    The first frozen steps do not count: they were not the model's to choose.
    """
    asked = core.chunk.asked
    if asked is None:
        return ChunkPart(0.0, lasts_s)
    skip_s = max(0.0, min(now_s, core.chunk.ends_s) - asked.zero_s) * core.robot.velocity_scale
    ends_s = min(asked.frozen * step_s + lasts_s, steps * step_s)
    return ChunkPart(skip_s, ends_s - skip_s) if ends_s - skip_s >= MIN_PLAYED_S else None
