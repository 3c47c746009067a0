"""Global rescheduling of a running server (ROSA 3.4.4): the steps of a migration as placements that the server adopts.

Only what interrupts no stream is planned: where a server would have to be emptied before another one is warm, it is
refused, and one more server, or a drain at a quiet hour, is what helps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from rosa_contract.config.factory import Factory
from rosa_contract.errors import CausedError
from rosa_server.plan.admission import AdmissionControl
from rosa_server.plan.change import Change, Stage
from rosa_server.plan.placement import Placement, Replica
from rosa_server.scheduler.placement.schedule import (
    Schedule,
    load_schedule,
    schedule_from,
    slot_name,
    task_of,
)
from rosa_server.scheduler.problem import problem_from
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.running.handover import RunningSchedule, check, hand_over
from rosa_server.scheduler.running.migration import Step, plan_migration


class RescheduleError(CausedError):
    """The running server does not get to this schedule."""

    CAUSES: ClassVar = {
        "shares_gpus": "models take turns on a GPU in one of both schedules, and steps are planned for one model each",
        "as_played": "one of both schedules holds only as it was played through, and the steps between them were not",
        "robots_left_over": "more robots of a task are here than the new schedule has slots for",
        "would_interrupt": "streams would be without a server for a while",
        "other_engine": "a server that stays would run its model with another engine",
        "other_role": "a server that stays would change between serving and standing by",
    }


@dataclass
class Rescheduler:
    """Plans changes of the schedule that runs. `schedule`: without the robots that `admission` has added."""

    factory: Factory
    library: ProfileLibrary
    schedule: Schedule
    admission: AdmissionControl

    @property
    def running(self) -> Schedule:
        """What runs now, with every robot that was admitted."""
        if isinstance(self.admission, RunningSchedule):
            return self.admission.deployment.schedule
        return self.schedule

    def prepare(self, placement: Placement, taken: Collection[str]) -> Callable[[str], Change]:
        """See `Planner`."""
        return partial(_change, self.factory, self.library, self.running, placement, frozenset(taken))

    def written(self, stage: Stage) -> Mapping[str, Any]:
        """See `Planner`."""
        after: Schedule = stage.after
        return after.to_dict()

    def learned(self, schedule: Mapping[str, Any], file: str) -> Mapping[str, Any]:
        """See `Planner`."""
        self.schedule = schedule_from(schedule, file)
        return about(self.schedule, file)

    def reached(self, stage: Stage, admission: AdmissionControl) -> None:
        self.schedule, self.admission = stage.after, admission


def about(schedule: Schedule, source: str) -> dict[str, Any]:
    """What those who watch a server are told of its schedule."""
    return {
        "file": source,
        "made_by": schedule.scheduler,
        "robots": dict(schedule.robots),
        "servers": schedule.gpus + schedule.idle_servers,
        "options": dict(schedule.options),
        "actions_hz": schedule.action_throughput_hz,
        "limits": list(schedule.limits),
        "utilisation": {server.id: server.utilisation for server in schedule.servers},
    }


def _change(
    factory: Factory,
    library: ProfileLibrary,
    before: Schedule,
    placement: Placement,
    taken: Collection[str],
    path: str,
) -> Change:
    """Raises `ConfigError` and `RescheduleError`."""
    wanted = load_schedule(path)
    if before.shares_gpus or wanted.shares_gpus:
        raise RescheduleError("shares_gpus", RescheduleError.CAUSES["shares_gpus"])
    if not (before.holds_for_any_arrivals and wanted.holds_for_any_arrivals):
        raise RescheduleError("as_played", RescheduleError.CAUSES["as_played"])
    cluster = factory.server_cluster  # a schedule of more servers is an order to use more
    factory = replace(
        factory, server_cluster=replace(cluster, num_servers=max(cluster.num_servers, wanted.gpus))
    )
    options = check(factory, wanted, path)
    wanted = with_slots_of(before, wanted, taken)
    problem = problem_from(factory).with_engines(wanted.engines)
    migration = plan_migration(before, wanted, problem, Catalog(problem, library, options))
    if migration.interrupted:
        count = len(migration.interrupted)
        words = f"{count} streams would be without a server for a while: no GPU is free to warm up before they move"
        raise RescheduleError("would_interrupt", words)
    after = migration.schedule
    placed, admission = hand_over(factory, after, path, library)
    _check_kept(placement, placed, migration.steps)
    made = _Stages(before, after, placement, placed)
    for step in migration.steps:
        made.add(step)
    made.end()
    hz, was_hz = after.action_throughput_hz, before.action_throughput_hz
    words = (
        f"{after.gpus} servers (was {before.gpus}), {hz:.1f} planned actions per second (was {was_hz:.1f})"
    )
    return Change(tuple(made.stages), admission, about(after, path), words, after.to_dict())


def with_slots_of(before: Schedule, wanted: Schedule, taken: Collection[str]) -> Schedule:
    """`wanted` with its slots called as those that run. Raises `RescheduleError` where a robot would lose its slot."""
    routing: dict[str, Mapping[str, str]] = {}
    for task in {*wanted.robots, *before.robots}:
        slots = sorted((s for s in wanted.routing if task_of(s) == task), key=_number)
        known = sorted(
            (s for s in before.routing if task_of(s) == task), key=lambda s: (s not in taken, _number(s))
        )
        here = [slot for slot in known if slot in taken]
        if len(here) > len(slots):
            words = (
                f"{len(here)} robots of {task} are here, and the new schedule has {len(slots)} slots for them"
            )
            raise RescheduleError("robots_left_over", words)
        free = (name for n in range(len(slots) + len(known)) if (name := slot_name(task, n)) not in known)
        names = [*known[: len(slots)], *(next(free) for _ in slots[len(known) :])]
        routing |= {
            name: wanted.routing[slot] for name, slot in zip(sorted(names, key=_number), slots, strict=True)
        }
    return replace(wanted, routing=routing)


def _number(slot: str) -> int:
    return int(slot.rpartition("/")[2])


def _check_kept(before: Placement, after: Placement, steps: Collection[Step]) -> None:
    """Raises `RescheduleError` where a server that goes on would have to run something else."""
    touched = {step.server for step in steps if step.action in ("start", "stop")}
    for server in {one.server for one in after.replicas.values()} - touched:
        old = {one.id: one for one in before.replicas.values() if one.server == server}
        new = {one.id: one for one in after.replicas.values() if one.server == server}
        if old.keys() != new.keys():
            raise RescheduleError("other_role", f"{server} would change between serving and standing by")
        for name, one in new.items():
            if one.engine != old[name].engine:
                was = old[name].engine or "its own"
                words = (
                    f"{server} would run {one.model} with engine {one.engine or 'its own'} instead of {was}"
                )
                raise RescheduleError("other_engine", words)


class _Stages:
    """The stages so far, and what holds after the last of them."""

    def __init__(self, before: Schedule, after: Schedule, placement: Placement, placed: Placement) -> None:
        """`placement`: how `before` is carried out now; `placed`: how `after` will be."""
        self.stages: list[Stage] = []
        self._after, self._placed = after, placed
        # Slots without a robot that the new schedule does not have leave with the first stage.
        routing = {slot: dict(routes) for slot, routes in before.routing.items() if slot in after.routing}
        self._schedule = replace(before, routing=routing)
        self._placement = replace(placement, routes=routing)

    def add(self, step: Step) -> None:
        if step.action in ("lower_rates", "raise_rates"):
            if step.action == "lower_rates":
                self._lower_rates()
            return  # rates rise with the last stage
        if step.action == "start":
            self._start(step)
        elif step.action == "switch":
            self._switch(step)
        else:
            assert step.action == "stop", f"{step.action} interrupts streams"
            self._stop(step)

    def end(self) -> None:
        """The new schedule as it is carried out: queues, batches, rates, phases and standbys."""
        self._schedule, self._placement = self._after, self._placed
        self._done("queues, batches, rates and standbys are those of the new schedule")

    def _lower_rates(self) -> None:
        old, new = self._schedule.rates_hz, self._after.rates_hz
        rates = {
            task: min(new[task], old.get(task, new[task]), key=lambda each: each["system1"]) for task in new
        }
        self._schedule = replace(self._schedule, rates_hz=rates)
        if self._placement.rates_hz:
            self._placement = replace(self._placement, rates_hz=rates)
        fallen = [f"{task} {rates[task]['system1']:.2f} Hz" for task in rates if rates[task] != old.get(task)]
        if fallen:
            self._done(f"robots act at {', '.join(fallen)} until all have moved")

    def _start(self, step: Step) -> None:
        made = {one.id: _alone(one) for one in self._placed.replicas.values() if one.server == step.server}
        self._place({**self._placement.replicas, **made})
        servers = [*self._schedule.servers, self._after.server(step.server)]
        self._schedule = replace(self._schedule, servers=tuple(servers))
        words, starts = f"{step.server} loads {step.model}", tuple(made)
        if self.stages and self.stages[-1].starts:  # side by side
            before = self.stages.pop()
            words, starts = f"{before.words}, {words}", (*before.starts, *starts)
        self._done(words, starts=starts)

    def _switch(self, step: Step) -> None:
        routing = {slot: dict(routes) for slot, routes in self._schedule.routing.items()}
        moved = [move for move in step.routes if move.slot in routing]  # new slots come at the end
        for move in moved:
            routing[move.slot][move.component] = move.server
        self._schedule = replace(self._schedule, routing=routing)
        self._placement = replace(self._placement, routes=routing)
        if moved:
            targets = ", ".join(sorted({move.server for move in moved}))
            self._done(f"{len(moved)} streams move to {targets}", moves=True)

    def _stop(self, step: Step) -> None:
        left = {name: one for name, one in self._placement.replicas.items() if one.server != step.server}
        gone = tuple(self._placement.replicas.keys() - left.keys())
        self._place(left)
        servers = tuple(server for server in self._schedule.servers if server.id != step.server)
        self._schedule = replace(self._schedule, servers=servers)
        self._done(f"{step.server} unloads {step.model}, which no robot uses any more", stops=gone)

    def _place(self, replicas: Mapping[str, Replica]) -> None:
        standbys = {
            name: tuple(one for one in others if one in replicas)
            for name, others in self._placement.standbys.items()
            if name in replicas
        }
        self._placement = replace(self._placement, replicas=dict(replicas), standbys=standbys)

    def _done(self, words: str, **changes: Any) -> None:
        self.stages.append(Stage(words, self._placement, **changes, after=self._schedule))


def _alone(replica: Replica) -> Replica:
    """A server that serves from a separate queue until everybody has moved."""
    return replace(replica, pool="")
