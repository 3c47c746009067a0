"""Random tasks, servers, sensors, arms and operators around one robot: what can happen, and what it answers at once."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from rosa_client.runtime.commands import Decision, Play, Send
from rosa_client.runtime.machines.task_machine import State
from rosa_contract.config.tasks import ESCALATIONS, EXECUTIONS, GOAL_COUPLED, PLANNING
from rosa_contract.fallbacks import FALLBACK_NAMES
from tests.unit.client.runtime.stage import Stage

CHOICES = ("resume", "retry", "return_to_safe_state", "abort")

ALL_WELL = {"system1": "", "system2": "", "safety": "safe", "monitor": "ongoing", "cable_watch": ""}

fallbacks = st.sampled_from(FALLBACK_NAMES)


def at_work(day: AnyDay) -> bool:
    """No human is waited for; most of what can go wrong then makes no difference."""
    return day.stage.core.state not in (State.WAITING_FOR_HUMAN, State.IDLE)


class AnyDay(RuleBasedStateMachine):
    """One robot with any task on a day when anything can happen in any order."""

    steps = 0

    @initialize(
        own=fallbacks,
        others=st.fixed_dictionaries(
            {"system2": fallbacks},
            optional={"safety": fallbacks, "monitor": fallbacks, "cable_watch": fallbacks},
        ),
        on_violation=st.sampled_from(ESCALATIONS),
        on_retries=st.sampled_from(ESCALATIONS),
        ratio=st.sampled_from([1.0, 0.5, 0.1]),
        planning=st.sampled_from(PLANNING),
        execution=st.sampled_from(EXECUTIONS),
        confirmations=st.integers(1, 2),
    )
    def a_task(
        self,
        own: str,
        others: dict[str, str],
        on_violation: str,
        on_retries: str,
        ratio: float,
        planning: str,
        execution: str,
        confirmations: int,
    ) -> None:
        lines = []
        for name, fallback in others.items():
            more = ", freq_hz: 3" if name not in GOAL_COUPLED else ""
            more += f", confirmations: {confirmations}" if name == "monitor" else ""
            lines.append(f"    {name}: {{model: m_{name}, slo_ms: 300, fallback: {fallback}{more}}}")
        self.stage = Stage(
            *lines,
            ratio=ratio,
            planning=planning,
            pipeline=f"execution: {execution}",
            system1=own,
            on_violation=on_violation,
            on_retries=on_retries,
            unsafe=3,
        )
        self.stage.good = dict(ALL_WELL)
        self.stage.start()
        self.sends: list[Send] = []
        self.seen = 0
        self.retried = 0

    def _step(self) -> Stage:
        """Every step takes a little time."""
        AnyDay.steps += 1
        self.stage.run(0.03)
        return self.stage

    @rule()
    def start(self) -> None:
        if self._step().core.state is State.IDLE:
            self.stage.start()
            self.sends = []

    @rule(limit_s=st.sampled_from([1.0, 20.0]))
    def start_with_a_limit(self, limit_s: float) -> None:
        if self._step().core.state is State.IDLE:
            self.stage.start(limit_s)
            self.sends = []

    @rule(rarely=st.integers(0, 9))
    def cancel(self, rarely: int) -> None:
        stage = self._step()
        if rarely == 0:
            stage._note(stage.runtime.cancel(stage.now_s, "enough"))

    @precondition(at_work)
    @rule(seconds=st.sampled_from([0.01, 0.05, 0.2, 0.5]))
    def a_moment_passes(self, seconds: float) -> None:
        self._step().run(seconds)

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.0, 4.0]))
    def time_passes(self, seconds: float) -> None:
        self._step().run(seconds)

    @rule(rarely=st.integers(0, 3))
    def a_long_time_passes(self, rarely: int) -> None:
        self._step().run(25.0 if rarely == 0 else 1.0)

    @precondition(at_work)
    @rule(
        pick=st.integers(0, 5),
        verdict=st.sampled_from(["safe", "unsafe", "ongoing", "done", "failed", ""]),
        text=st.sampled_from(["", "left drawer"]),
        good=st.booleans(),
    )
    def server_answers(self, pick: int, verdict: str, text: str, good: bool) -> None:
        """Any request ever sent, in any order, also twice and late."""
        self._step()
        self._collect()
        if not self.sends:
            return
        request = self.sends[-1 - pick % len(self.sends)]
        calls = self.stage.core.calls[request.component]
        in_time = calls.request_id == request.request_id and self.stage.now_s <= calls.deadline_s
        commands = self.stage.answer(request, verdict, text, None if good else [[9.0, 9.0, 9.0]])
        if any(isinstance(command, Play) for command in commands):
            assert in_time, "a command from a late, cancelled or repeated result"
            assert good, "a command from an impossible chunk"

    @precondition(at_work)
    @rule(silent=st.sampled_from([None, None, *ALL_WELL]))
    def the_server_answers_all_but_one_by_itself(self, silent: str | None) -> None:
        self._step().good = {name: verdict for name, verdict in ALL_WELL.items() if name != silent}

    @precondition(at_work)
    @rule(
        verdict=st.sampled_from(["safe", "unsafe"]),
        progress=st.sampled_from(["ongoing", "failed", "failed", "done"]),
    )
    def watchers_say(self, verdict: str, progress: str) -> None:
        self._step().good.update(safety=verdict, monitor=progress)

    @precondition(at_work)
    @rule()
    def the_server_is_gone(self) -> None:
        self._step().good = {}

    @rule()
    def all_is_well_again(self) -> None:
        self._step()
        self._mend()
        if self.stage.core.state is State.IDLE:
            self.start()

    @precondition(at_work)
    @rule(pick=st.integers(0, 3), status=st.sampled_from(["expired", "unavailable", "failed"]))
    def server_refuses(self, pick: int, status: str) -> None:
        self._step()
        self._collect()
        if self.sends:
            self.stage.refuse(self.sends[-1 - pick % len(self.sends)], status)

    @precondition(at_work)
    @rule(sensor=st.sampled_from(["front", "joint_state"]), silent=st.sampled_from([False, False, True]))
    def sensor_changes(self, sensor: str, silent: bool) -> None:
        (self._step().silent.add if silent else self.stage.silent.discard)(sensor)

    @precondition(at_work)
    @rule(late_s=st.sampled_from([0.0, 0.0, 0.2, 0.8]))
    def camera_is_late(self, late_s: float) -> None:
        self._step().late_s["front"] = late_s

    @precondition(at_work)
    @rule(ready=st.booleans())
    def link_changes(self, ready: bool) -> None:
        self._step().link_ready = ready

    @rule(
        fault=st.sampled_from(["", "", "", "reflex"]),
        stuck=st.sampled_from([False, False, True]),
        led=st.sampled_from([False, False, False, True]),
        holds=st.booleans(),
    )
    def arm_changes(self, fault: str, stuck: bool, led: bool, holds: bool) -> None:
        stage = self._step()
        stage.arm_fault, stage.arm_stuck, stage.gripper_holds = fault, stuck, holds
        stage.arm_returns = led and not fault

    @precondition(at_work)
    @rule(cut=st.sampled_from(["", "", "no sign of life"]), deaf=st.sampled_from([False, False, True]))
    def arm_obeys_badly(self, cut: str, deaf: bool) -> None:
        self._step().cut_short = cut
        self._hear(deaf)

    @rule(latched=st.sampled_from([False, False, True]))
    def emergency_stop(self, latched: bool) -> None:
        self._step().emergency_stop = latched

    @rule(
        choice=st.sampled_from([*CHOICES, "resume", "retry", "dance"]),
        who=st.sampled_from(["anna", "anna", "ben", ""]),
        old=st.sampled_from([False, False, True]),
    )
    def operator_decides(self, choice: str, who: str, old: bool) -> None:
        stage = self._step()
        self._collect()
        core = stage.core
        alert_id = core.person.alert.alert_id - old if core.person.alert else 0
        before = (core.state, len(stage.events))
        refused = stage.decide(choice, alert_id, who)
        if refused:
            assert (core.state, len(stage.events)) == before, "a refused decision changes nothing"
        else:
            assert who
            assert choice in CHOICES
            assert not old
            assert choice == "abort" or not core.inputs.emergency_stop

    def _mend(self) -> None:
        """Nothing is wrong any more."""
        stage = self.stage
        stage.silent.clear()
        stage.late_s.clear()
        stage.arm_fault, stage.cut_short, stage.link_ready = "", "", True
        stage.arm_stuck = stage.arm_returns = stage.emergency_stop = False
        stage.good = dict(ALL_WELL)
        self._hear(deaf=False)

    def _hear(self, deaf: bool) -> None:
        """An arm that listens again takes the newest order."""
        stage = self.stage
        stage.arm_deaf = deaf
        if not deaf and stage.core.arm.last_order is not None and stage.arm_sequence < stage.last_sequence:
            stage.take(stage.core.arm.last_order)

    def _collect(self) -> None:
        for _, command in self.stage.events[self.seen :]:
            if isinstance(command, Send):
                self.sends.append(command)
            if isinstance(command, Decision):
                self._count_retries(command)
        self.seen = len(self.stage.events)

    def _count_retries(self, decision: Decision) -> None:
        if decision.cause in ("operator", "task_started"):
            self.retried = 0
        elif (decision.action, decision.cause) == ("retry", "monitor"):
            self.retried += 1
            assert self.retried <= 1, "more retries than the task allows"
