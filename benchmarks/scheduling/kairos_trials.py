"""Orders and ways to batch that were tried beside `remaining_work` and do not ship: part `trials` of `kairos.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.scheduling.kairos_report import (
    DRAINS,
    FCFS,
    GITTINS,
    HALF_AGE,
    HELD_BACK,
    LIKE_RANK,
    NO_KINDS,
    OPEN_AGE,
)
from benchmarks.scheduling.kairos_runs import (
    EDGE_MS,
    FLEETS,
    MANY_SEEDS,
    ORDERS,
    TASKS_EACH,
    Bench,
    Row,
    history,
    horizon,
    new_replay,
    row,
    said,
)
from rosa_contract.config.gateway import REMAINING_WORK, Gateway
from rosa_server.serving.core.dispatch.lane import RequestQueue
from rosa_server.serving.core.queueing.lengths import OTHERS, TaskLengths
from rosa_server.serving.core.queueing.order import SURE_OF, RemainingWork
from rosa_server.timing.batches import Batcher, Run, Wait
from rosa_sim.kairos.replay import OrderOf, Outcome, Replay, Tier
from rosa_sim.kairos.traces import WORKLOADS, Workload, tasks_of

LIKE_S = 1.0  # of work: calls in one batch differ by no more
HELD_S = 0.05  # for which a server waits for a fuller batch
WIDE = Tier({1: EDGE_MS[1], 8: 240.0}, 8)  # where a fuller batch is worth more
OPEN_LOADS, WIDE_LOADS = (1.0, 2.0, 3.0), (0.5, 1.0, 3.0)


class NoKinds(TaskLengths):
    """Every task is taken for one of a single kind."""

    def __init__(self, learned: TaskLengths) -> None:
        self._learned = learned

    def __len__(self) -> int:
        return len(self._learned)

    def round_s(self, kind: str) -> float:
        return self._learned.round_s("")

    def left_s(self, kind: str, acted_s: float) -> float:
        return self._learned.left_s("", acted_s)


class GittinsIndex(NoKinds):
    """In place of the mean of what is left: the least, over every amount of work to invest, of what is expected to be
    spent of it for each task that it ends. The order by this index minimises the mean on one server without batches,
    executions and ages where the distribution of lengths is known (Aalto, Ayesta and Righter 2009)."""

    def __init__(self, learned: TaskLengths) -> None:
        super().__init__(learned)
        self._all_s = np.zeros(0)
        self._kinds_s: dict[str, np.ndarray] = {}
        self._found: dict[tuple[str, float], float] = {}

    def round_s(self, kind: str) -> float:
        return self._learned.round_s(kind)

    def left_s(self, kind: str, acted_s: float) -> float:
        """In acted seconds, of the tasks that have ended, weighted as for their mean."""
        if self._learned.changed or not len(self._all_s):
            data = self._learned.to_data()
            self._kinds_s = {name: np.array([one[0] for one in ended]) for name, ended in data.items()}
            self._all_s = np.concatenate([*self._kinds_s.values(), np.zeros(0)])
            self._found.clear()
        key = kind, acted_s
        if key not in self._found:
            self._found[key] = self._index_s(kind, acted_s)
        return self._found[key]

    def _index_s(self, kind: str, acted_s: float) -> float:
        others, own = self._all_s[self._all_s > acted_s], self._kinds_s.get(kind, np.zeros(0))
        if not len(others):
            return self._learned.left_s(kind, acted_s)
        own = own[own > acted_s]
        left = np.concatenate([others, own]) - acted_s
        weights = np.concatenate([np.full(len(others), OTHERS / len(others)), np.ones(len(own))])
        return index_of(left, weights)


class OpenAge(RemainingWork):
    """A closed fleet's tasks are favoured by their age no more than an open one's."""

    @property
    def age_weight(self) -> float:
        return self._min_age_weight * SURE_OF / max(1, min(SURE_OF, len(self._lengths)))


class HalfAge(OpenAge):
    """In a closed fleet age counts for half as much."""

    @property
    def age_weight(self) -> float:
        return max(super().age_weight, self._turnover.age_weight / 2)


def index_of(left: np.ndarray, weights: np.ndarray) -> float:
    """The inverse of the Gittins index of what may be left, (n,), with its weights, (n,): over every amount D of these,
    the least E[min(left, D)] / P(left <= D)."""
    order = np.argsort(left)
    left, weights = left[order], weights[order]
    ended, spent = np.cumsum(weights), np.cumsum(weights * left)
    invested = spent + (weights.sum() - ended) * left
    return float(np.min(invested / ended))


class OfLikeRank(Batcher):
    """A batch has only calls whose tasks have about as much work left as its first one: a longer task waits rather than
    make a short one's batch longer."""

    def __init__(self, old: Batcher, queue: RequestQueue) -> None:
        super().__init__(old.max_batch, old.profile)
        self._queue = queue

    def decide(self, now_s: float, deadlines_s: Sequence[float], more_may_come: bool) -> Run | Wait:
        decision = super().decide(now_s, deadlines_s, more_may_come)
        if not isinstance(decision, Run) or decision.first:
            return decision
        ranks = [self._queue.ranking.rank(now_s, call) for call in self._queue.in_order()[: decision.count]]
        like = [rank for rank in ranks if rank[1] == ranks[0][1] and rank[2] <= ranks[0][2] + LIKE_S]
        return Run(max(1, len(like)))


class HoldsBack(Batcher):
    """A free server waits until its batch is full, or its first call has waited for `HELD_S`."""

    def __init__(self, old: Batcher, queue: RequestQueue) -> None:
        super().__init__(old.max_batch, old.profile)
        self._queue = queue

    def decide(self, now_s: float, deadlines_s: Sequence[float], more_may_come: bool) -> Run | Wait:
        decision = super().decide(now_s, deadlines_s, more_may_come)
        until_s = min(call.since_s for call in self._queue.waiting()) + HELD_S
        if (
            isinstance(decision, Run)
            and decision.count < self.max_batch
            and more_may_come
            and until_s > now_s
        ):
            return Wait(until_s)
        return decision


class Drains(Batcher):
    """A batch is so large that those who wait now are answered soonest on average if nobody else comes: while few wait,
    one call after another where two together take more than one and a half times as long as one."""

    def __init__(self, old: Batcher, queue: RequestQueue) -> None:
        super().__init__(old.max_batch, old.profile)
        self._total_s, self._count = (
            [0.0],
            [0],
        )  # by how many wait: of all their waits, and of the first batch

    def decide(self, now_s: float, deadlines_s: Sequence[float], more_may_come: bool) -> Run | Wait:
        decision = super().decide(now_s, deadlines_s, more_may_come)
        if not isinstance(decision, Run) or decision.first:
            return decision
        for waiting in range(len(self._total_s), len(deadlines_s) + 1):
            sizes = range(1, min(waiting, self.max_batch) + 1)
            total_s, count = min(
                (waiting * self.profile.service_s(size) + self._total_s[waiting - size], size)
                for size in sizes
            )
            self._total_s.append(total_s)
            self._count.append(count)
        return Run(min(decision.count, self._count[len(deadlines_s)]))


Batching = Callable[[Batcher, RequestQueue], Batcher]


@dataclass(frozen=True)
class Trial:
    """One thing that is done in another way than by `remaining_work`."""

    order: str | OrderOf = REMAINING_WORK
    batching: Batching | None = None

    def replay(self, workload: Workload, dynamic: bool, known: bool, *tiers: Tier) -> Replay:
        learned = history(workload.name, dynamic) if known else None
        played = new_replay(self.order, *tiers, known=learned)
        if self.batching is not None:
            lane = played.core._dispatcher.lanes["policy"]
            lane.batcher = self.batching(lane.batcher, lane.queue)
        return played


def _expecting(lengths: type[NoKinds], replay: Replay) -> RemainingWork:
    return RemainingWork(lengths(replay.core.lengths), replay.core.turnover, Gateway.order_age_weight)


def _ageing(order: type[RemainingWork], replay: Replay) -> RemainingWork:
    return order(replay.core.lengths, replay.core.turnover, Gateway.order_age_weight)


TRIALS = {
    REMAINING_WORK: Trial(),
    GITTINS: Trial(partial(_expecting, GittinsIndex)),
    NO_KINDS: Trial(partial(_expecting, NoKinds)),
    LIKE_RANK: Trial(batching=OfLikeRank),
    HELD_BACK: Trial(batching=HoldsBack),
    DRAINS: Trial(batching=Drains),
    OPEN_AGE: Trial(partial(_ageing, OpenAge)),
    HALF_AGE: Trial(partial(_ageing, HalfAge)),
}


def trials(bench: Bench) -> list[Row]:
    """What was tried, with lengths known and from nothing; open arrivals, wide batches, sets of tasks, and robots that
    work all day. `remaining_work` and `first_come` are in parts online, batches, fleet and closed, where not here."""
    rows: list[Row] = []
    for workload in WORKLOADS[:2]:
        for load in OPEN_LOADS:
            for dynamic in (False, True):
                for name, trial in list(TRIALS.items())[1:]:
                    for known in (False, True):
                        found = bench.online(
                            workload, load, dynamic, partial(trial.replay, workload, dynamic, known)
                        )
                        what = {"workload": workload.name, "load": load, "horizon": horizon(dynamic)}
                        rows.append(_row("open", what, name, known, found))
    said("trials, open")
    workload = WORKLOADS[0]
    for load in WIDE_LOADS:
        for name in (FCFS, REMAINING_WORK, LIKE_RANK, HELD_BACK, DRAINS):
            trial = TRIALS.get(name, Trial(ORDERS.get(name, name)))
            make = partial(trial.replay, workload, False, True, WIDE)
            found = bench.online(workload, load, False, make, WIDE)
            rows.append(_row("wide", {"load": load, "largest_batch": WIDE.max_batch}, name, True, found))
    said("trials, wide batches")
    many = Bench(bench.count, MANY_SEEDS)
    for name in (GITTINS, NO_KINDS, LIKE_RANK, HELD_BACK, DRAINS, OPEN_AGE, HALF_AGE):
        for robots in FLEETS:
            make, what = partial(TRIALS[name].replay, workload, True, True), {"robots": robots}
            found = [make().back_to_back(many.tasks(workload, True, seed), robots) for seed in many.seeds]
            rows.append(_row("fleet", what | {"horizon": horizon(True)}, name, True, found))
        for dynamic in (False, True):
            make = partial(TRIALS[name].replay, workload, dynamic, True)
            days = [tasks_of(workload, 50 * TASKS_EACH, dynamic, seed) for seed in bench.seeds]
            found = [make().back_to_back(tasks, 50) for tasks in days]
            rows.append(_row("closed", {"robots": 50, "horizon": horizon(dynamic)}, name, True, found))
    said("trials, fleets")
    return rows


def _row(kind: str, what: Row, name: str, known: bool, found: list[Outcome]) -> Row:
    return row("trials", {"of": kind, **what, "order": name, "lengths_known": known}, found)
