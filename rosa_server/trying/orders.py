"""Joints in another order, or counted the other way round: which ways are likely. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from rosa_server.trying.steps import POINTS, Answered, Array

Arms = Sequence[slice]  # which joints are each arm's


def likely(count: int, arms: Arms) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Columns and signs of `count` joints: two exchanged, all reversed, two arms exchanged, one turned."""
    same, ahead = tuple(range(count)), (1,) * count
    mine = [arm for arm in arms if arm.stop <= count] or [slice(0, count)]
    found = []
    for one, other in combinations(range(count), 2):
        within = any(arm.start <= one and other < arm.stop for arm in mine)
        if within:
            swapped = list(same)
            swapped[one], swapped[other] = other, one
            found.append((tuple(swapped), ahead))
    if count > 2:
        found.append((same[::-1], ahead))
    if len(mine) == 2 and mine[0].stop - mine[0].start == mine[1].stop - mine[1].start:
        found.append((same[mine[1]] + same[mine[0]], ahead))
    return found + [(same, tuple(-1 if at == joint else 1 for at in same)) for joint in same]


def assigned(answered: Sequence[Answered]) -> Iterator[tuple[int, ...]]:
    """Which of the robot's joints each of the model's might be, by what was recorded: as places, and as moves."""
    told, done, here = _compared(answered)
    if not len(told):
        return
    for mine, theirs in ((told, done), (told - here, done - here)):
        cost = np.abs(mine[:, :, None] - theirs[:, None, :]).mean(axis=0)
        yield _cheapest(cost)


def _compared(answered: Sequence[Answered]) -> tuple[Array, Array, Array]:
    """Joints as answered, as recorded and as seen, `(n, joints)` each."""
    told: list[Array] = []
    done: list[Array] = []
    seen: list[Array] = []
    for one in answered:
        recorded, here, path = one.step.recorded, one.step.here, one.path
        count = one.step.joint_count
        if recorded is None or here is None or path is None:
            continue
        if min(path.rows.shape[1], recorded.rows.shape[1]) < count:
            continue
        until_s = min(recorded.until_s, path.until_s)
        times_s = np.linspace(0, until_s, POINTS + 1)[1:]
        told.append(path.at(times_s)[:, :count])
        done.append(recorded.at(times_s)[:, :count])
        seen.append(np.tile(here[:count], (POINTS, 1)))
    if not told:
        return np.zeros((0, 0)), np.zeros((0, 0)), np.zeros((0, 0))
    return np.concatenate(told), np.concatenate(done), np.concatenate(seen)


def _cheapest(cost: Array) -> tuple[int, ...]:
    """One column for each row, by exchanging two of them as long as that is cheaper."""
    columns = list(range(len(cost)))
    while True:
        gains = {
            (one, other): cost[one][columns[one]]
            + cost[other][columns[other]]
            - cost[one][columns[other]]
            - cost[other][columns[one]]
            for one, other in combinations(range(len(cost)), 2)
        }
        best = max(gains, key=lambda pair: gains[pair], default=None)
        if best is None or gains[best] <= 1e-9:
            return tuple(columns)
        one, other = best
        columns[one], columns[other] = columns[other], columns[one]
