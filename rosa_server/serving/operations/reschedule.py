"""`reschedule`: the server gets to another schedule stage by stage, while every stream keeps a server.

The way is planned in a thread, as that may take seconds, and nothing changes before it is found. Each stage ends in a
placement in which every robot is served, so that an operation that is cancelled, or cannot go on, ends there: as it was
before where no stream has moved yet, else midway, and from there it can be ordered again, forward or back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from rosa_contract.errors import CausedError, ConfigError, ContractError
from rosa_contract.wire.watching import Order
from rosa_server.plan.admission import NoAdmission
from rosa_server.plan.change import Change, Stage
from rosa_server.serving.operations.live_state import MOVED
from rosa_server.serving.operations.operation import End, Operation
from rosa_server.serving.operations.order import OperationError, Site
from rosa_server.serving.operations.rollout import begin_with, rolled_out

WHY = "a rescheduling is at work"
MIDWAY = "a rescheduling ended midway; order it again"
WARMS_S = 900.0  # until what is started has to be warm


class PlanningThread:
    """Finds the way to a schedule in a separate thread."""

    def __init__(self, plan: Callable[[str], Change], path: str) -> None:
        self._plan, self._path = plan, path
        self.change: Change | None = None
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="rescheduling", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.change = self._plan(self._path)
        except Exception as error:
            self.error = error

    @property
    def done(self) -> bool:
        return self.change is not None or self.error is not None


class Reschedule(Operation):
    """Carries out a change of the schedule. While it is at work no other operation is."""

    exclusive = True

    def __init__(self, site: Site, order: Order, now_s: float, dry_run: bool) -> None:
        """Raises `OperationError`."""
        if site.planner is None:
            words = "the server runs without a schedule: start it with `rosa serve --schedule`"
            raise OperationError("no_slots", words)
        if site.state.drained:
            words = f"{', '.join(sorted(site.state.drained))} is drained; `rosa undrain` gives it back first"
            raise OperationError("busy", words)
        super().__init__(site, order, site.names(), now_s)
        router = site.core.router
        self._planner, self._dry_run = site.planner, dry_run
        self._before = router.placement, router.admission, router.planned
        plan = site.planner.prepare(router.placement, router.taken())
        router.freeze(WHY)
        self._planning = PlanningThread(plan, order.value)
        self._change: Change | None = None
        self._done = 0  # stages
        self._names: list[str] = []  # workers that the stage starts or ends
        self._starts: list[str] = []  # replicas that it waits for
        self._added: dict[str, None] = {}  # names of workers that were started, in any stage
        self._moved = False
        self._stage_s = now_s

    @property
    def doing(self) -> str:
        if self._change is None:
            return "the way is being planned"
        stages = self._change.stages
        return f"stage {min(self._done + 1, len(stages))} of {len(stages)}: {self._stage.words}"

    @property
    def _stage(self) -> Stage:
        assert self._change is not None
        return self._change.stages[min(self._done, len(self._change.stages) - 1)]

    def cancel(self, now_s: float) -> None:
        """At the end of the stage that is at work, or at once while that loads a model."""
        self.cancelled = True

    def let_go(self, now_s: float) -> None:
        """See `Operation`: slots are added and removed again."""
        self.site.core.router.freeze("")

    def step(self, now_s: float, gone: Mapping[str, str]) -> End | None:
        self.retirement.step(now_s)
        if self._change is None:
            return self._look_at_plan()
        if self.retirement:
            return None
        if self._starts:
            return self._look_at_starts(now_s, gone)
        if self._names:  # they have ended
            for name in self._names:
                self.site.cluster.drop(name)
            self._adopt(now_s)
            return None
        if self._done == len(self._change.stages):
            self._planner.reached(self._stage, self._change.admission)
            self._keep(self._change)
            self.site.tells.rescheduled(self._change.about)
            return End("", self._change.words)
        if self.cancelled:
            return self._back(now_s, "cancelled", "it was cancelled")
        return self._begin(now_s)

    def _look_at_plan(self) -> End | None:
        if not self._planning.done:
            return None
        self._change = self._planning.change
        if self._change is None:
            self.site.core.router.freeze("")
            return planning_failed(self._planning.error)
        for number, stage in enumerate(self._change.stages, start=1):
            self.site.say(self.order, "planned", f"{number}. {stage.words}")
        if self._dry_run or self.cancelled:
            self.site.core.router.freeze("")
            words = f"this would follow: {self._change.words}"
            return End("", words) if self._dry_run else End("cancelled", "nothing has changed")
        return None

    def _begin(self, now_s: float) -> End | None:
        stage, self._stage_s = self._stage, now_s
        if self.site.core.router.taken() - (stage.placement.routes or {}).keys():
            why = "a robot has come meanwhile that the new schedule has no slot for"
            return self._back(now_s, "robots_left_over", why)
        if stage.starts:
            replicas = self.site.placement.replicas
            models = {name: replicas[of].model for name, (of, _) in self.site.names().items()}
            weights = rolled_out(self.site, models)
            self._hold(now_s, stage)
            try:
                # As the core holds it: the workers are told its epoch.
                self._names = self.site.cluster.add(self.site.core.router.placement, stage.starts)
            except CausedError as error:
                return self._back(now_s, error.cause, str(error))
            begin_with(self.site, self._names, weights)
            self._added |= dict.fromkeys(self._names)
            self._starts = list(stage.starts)
            self.site.say(self.order, "started", f"{self._place}: {stage.words}", workers=self._names)
        elif stage.stops:
            self._names = [name for name, (replica, _) in self.site.names().items() if replica in stage.stops]
            self._close(now_s, stage)
            for name in self._names:
                self.site.cluster.hold(name, True)
            for worker_id in self.site.warm(self._names):
                self.retirement.add(now_s, worker_id)
        else:
            self._adopt(now_s)
        return None

    @property
    def _place(self) -> str:
        assert self._change is not None
        return f"{self._done + 1} of {len(self._change.stages)}"

    def _look_at_starts(self, now_s: float, gone: Mapping[str, str]) -> End | None:
        ended = [one for one in gone if one.rpartition(".")[0] in self._names]
        if self.cancelled:
            return self._back(now_s, "cancelled", "it was cancelled")
        if ended or now_s > self._stage_s + WARMS_S:
            words = "it was not warm in time"
            if ended:
                words = f"{ended[0]} ended before it was warm ({gone[ended[0]]})"
            return self._back(now_s, "not_warm", f"{self._stage.words}: {words}; the server's log says why")
        if all(self.site.core.pool.serves(replica) for replica in self._starts):
            self._starts, self._names = [], []
            self._reached()
        return None

    def _adopt(self, now_s: float) -> None:
        """What the stage asks for has happened: its placement holds from now on."""
        self._names = []
        moves = self._stage.moves or self._stage.stops  # what it was before is not there any more
        if moves and not self._moved and self._change is not None:
            self._moved = True
            self._keep(self._change)
        self._hold(now_s, self._stage)
        self._reached()

    def _close(self, now_s: float, stage: Stage) -> None:
        """Slots that the stage lacks go at once: no robot may take one while workers finish."""
        placement = self.site.core.router.placement
        kept = {
            slot: of
            for slot, of in (placement.routes or {}).items()
            if slot in (stage.placement.routes or {})
        }
        self.site.core.adopt(now_s, replace(placement, routes=kept), NoAdmission(WHY))

    def _keep(self, change: Change) -> None:
        """From now on a restart begins with the new schedule, which has the slots that were added before."""
        state = self.site.state
        state.slots = []
        state.schedule, state.schedule_file = dict(change.schedule), self.order.value
        unfinished = state.of(self.order.target)
        if unfinished is not None:
            unfinished.done = [MOVED]
        state.save()

    def _hold(self, now_s: float, stage: Stage) -> None:
        assert self._change is not None
        last = stage is self._change.stages[-1]
        admission = self._change.admission if last else NoAdmission(WHY)
        self.site.core.adopt(now_s, stage.placement, admission)

    def _reached(self) -> None:
        assert self._change is not None
        stage, place = self._stage, self._place
        self._done += 1
        self.site.say(self.order, "reached", f"{place} done: {stage.words}", stage=place)

    def _back(self, now_s: float, cause: str, why: str) -> End:
        """To the last stage that is done, or to where it began where no stream has moved; what nobody needs ends."""
        assert self._change is not None
        started = self._names if self._moved and self._starts else [] if self._moved else self._added
        for name in started:
            self.site.cluster.drop(name)
        if not self._moved:
            self.site.core.adopt(now_s, *self._before)
            return End(cause, f"{why}; everything is as it was before")
        stage = self._change.stages[self._done - 1]
        self.site.core.adopt(now_s, stage.placement, NoAdmission(MIDWAY))
        self._planner.reached(stage, self.site.core.router.admission)
        done = f"{self._done} of {len(self._change.stages)} stages are done"
        return End(
            cause, f"{why}; {done}, and every stream is served: order it again, or a schedule to go back to"
        )


def planning_failed(error: Exception | None) -> End:
    """Why there is no way to the schedule."""
    if isinstance(error, CausedError):
        return End(error.cause, str(error))
    if isinstance(error, ConfigError):
        return End(error.problems[0].cause if error.problems else "bad_schedule", str(error))
    if isinstance(error, ContractError | OSError | ValueError):
        return End("bad_schedule", str(error))
    return End("bad_schedule", f"{type(error).__name__}: {error}")
