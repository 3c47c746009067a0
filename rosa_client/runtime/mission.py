"""One robot and its task: the parts that own what is remembered, and what concerns several of them.

| part | what it owns |
|---|---|
| `calls` | each component's calls (`calls.py`) |
| `sight` | which observation a call is about (`parts/sight.py`) |
| `planning` | the plan, what is left of it, its steps (`parts/planned.py`) |
| `chunk` | the chunk that plays, the one that is asked for (`parts/chunk.py`) |
| `arm` | orders, the leg of a move, faults that a person knows of (`arm.py`) |
| `holds` | what holds the arm, safety's verdict, counters in a row (`parts/holds.py`) |
| `attempts` | the monitor's verdicts and failed attempts (`parts/attempts.py`) |
| `person` | alerts (`person.py`) |

No decision is taken here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rosa_client.motion.action_space import ActionSpaces
from rosa_client.motion.limits import MotionLimits
from rosa_client.runtime.arm import Arm
from rosa_client.runtime.calls import ComponentCalls
from rosa_client.runtime.commands import Command, Decision, Hold, Inputs, MoveTo, Order, Play
from rosa_client.runtime.machines import machine
from rosa_client.runtime.machines.side_machines import Safety, SafetyEvent
from rosa_client.runtime.machines.task_machine import MAY_MOVE, NOT_TIMED, TRANSITIONS, Event, State
from rosa_client.runtime.parts.attempts import Attempts
from rosa_client.runtime.parts.chunk import Chunk
from rosa_client.runtime.parts.holds import Holds
from rosa_client.runtime.parts.planned import Planning
from rosa_client.runtime.parts.sight import Sight
from rosa_client.runtime.person import Person
from rosa_client.runtime.route import Leg
from rosa_contract.config.cameras import JOINT_STATE
from rosa_contract.config.prompts import NOTHING, Instruction, prompts
from rosa_contract.config.robot import RobotSpec
from rosa_contract.config.tasks import GOAL_COUPLED, MONITOR, SAFETY, SYSTEM2, Task
from rosa_contract.fallbacks import FallbackAction, fallback


@dataclass(frozen=True)
class Timeouts:
    """How long the core waits for what no SLO bounds. Each of them leads to an escalation."""

    connect_s: float = 60.0  # the server's welcome, the first sensor samples, and an arm that answers
    sensor_s: float = 3.0  # a camera or the joint states that went silent, stay too old or cannot be used
    arm_s: float = 3.0  # an arm that does not take an order
    move_s: float = 20.0  # a move to a named pose, or an arm that does not come to rest after a chunk


@dataclass
class Counters:
    """Figures for the task's result."""

    rounds: int = 0  # executed action chunks
    retries: int = 0
    system1_ms: list[float] = field(default_factory=list)

    def round(self, took_ms: float) -> None:
        """Another chunk is executed; System 1 took so long for it."""
        self.rounds += 1
        self.system1_ms.append(took_ms)

    def retry(self) -> None:
        """Another attempt begins."""
        self.retries += 1


class Mission:
    """One robot with one task: its parts, its inputs, and the commands not yet taken.

    The states are those of four tables: `state` of the task here, `holds.safety`, `holds.unfinished` and
    `arm.leg_progress` beside it. All else is data.
    """

    def __init__(self, name: str, task: Task, robot: RobotSpec, first_alert: int = 1) -> None:
        self.name = name
        self.task = task
        self.robot = robot
        self.limits = MotionLimits.of(robot)
        self.spaces = ActionSpaces(robot)
        self.sensors = (*robot.cameras, JOINT_STATE)
        self.timeouts = Timeouts()
        self.state = State.IDLE
        self.entered_s = 0.0  # when the present state was entered
        self.deadline_s: float | None = None  # of the task; None: no limit
        self.task_number = 0  # of the tasks that this core has begun
        self.counters = Counters()
        self.inputs = Inputs({}, False)
        self.out: list[Command] = []
        self.last_decision: Decision | None = None
        self.request_id = 0  # of the newest call
        self.calls = self._new_calls()
        self.sight = Sight()
        monitor = task.components.get(MONITOR)
        self.planning = Planning(monitor.plans_after if monitor is not None else 0)
        self.chunk = Chunk()
        self.arm = Arm([gripper.max_m for gripper in robot.grippers.values()])
        self.holds = Holds(SAFETY in task.components)
        self.attempts = Attempts()
        self.person = Person(first_alert)

    def _new_calls(self, told: Instruction = NOTHING) -> dict[str, ComponentCalls]:
        """None sent yet; each component with the prompt that it has in this task."""
        texts = prompts(self.task, told)
        return {
            key: ComponentCalls(key, replace(component, prompt=texts[key]))
            for key, component in self.task.components.items()
        }

    # -- what is known ------------------------------------------------------------------------------------------------

    @property
    def arm_is_behind(self) -> bool:
        """The arm has not yet taken the newest order, so its reports are about an older one."""
        return self.inputs.arm_sequence < self.arm.sequence

    @property
    def lets_move(self) -> bool:
        """The arm may move now; while this is true, the shell sends it signs of life."""
        settles = self.state is State.INFERRING and isinstance(self.arm.last_order, Play)
        return self.state in MAY_MOVE or settles

    @property
    def must_stand(self) -> bool:
        """The last verdict of safety is unsafe, and its fallback is to stand still, not to drive to the safe pose."""
        if self.holds.safety is not Safety.UNSAFE:
            return False
        return fallback(self.calls[SAFETY].component.fallback) is not FallbackAction.RETURN_TO_SAFE_STATE

    @property
    def stands_in_danger(self) -> bool:
        """It holds for that reason, so no move continues, not even the one to the safe pose."""
        return self.must_stand and SAFETY in self.holds.by

    def stale(self, now_s: float) -> dict[str, float]:
        """Sensors whose newest sample is too old -> its time."""
        limit_s = self.robot.max_sensor_age_ms / 1000
        newest_s = self.inputs.sensor_stamp_s.get
        old: dict[str, float] = {}  # asked several times in every control period, and nearly always empty
        for name in self.sensors:
            stamp_s = newest_s(name, self.entered_s)
            if now_s - stamp_s > limit_s:
                old[name] = stamp_s
        return old

    # -- verbs --------------------------------------------------------------------------------------------------------

    def go(self, event: Event, now_s: float) -> None:
        """Follow the transition table; raises `IllegalEvent` before anything has changed."""
        before, self.state = self.state, machine.advance(TRANSITIONS, self.state, event)
        if before in NOT_TIMED and self.deadline_s is not None:
            self.deadline_s += now_s - self.entered_s
        self.entered_s = now_s

    def begin(self, now_s: float, timeout_s: float, told: Instruction = NOTHING) -> None:
        """Another task; with `timeout_s` > 0 it has to be done by then."""
        self.go(Event.START, now_s)
        self.calls = self._new_calls(told)
        self.counters = Counters()
        self.task_number += 1
        self.deadline_s = now_s + timeout_s if timeout_s > 0 else None
        self.attempts.begin_task()
        self.holds.forgive()
        self.planning.forget_steps()
        self.excuse_arm(begins=True)
        self.begin_attempt(now_s)

    def note(self, action: str, cause: str, reason: str, component: str = "") -> None:
        self.last_decision = Decision(action, cause, reason, component)
        self.out.append(self.last_decision)

    def next_request(self) -> int:
        """The number of the next call."""
        self.request_id += 1
        return self.request_id

    def take_inputs(self, inputs: Inputs, now_s: float) -> None:
        """Remember what the robot knows about itself now."""
        self.arm.reports(self.inputs, inputs, now_s)
        self.inputs = inputs
        self.sight.begin_period()

    def order(self, order: Order, now_s: float) -> None:
        """Tell the arm."""
        self.arm.ordered(order, self.inputs.arm_sequence, now_s)
        self.out.append(order)

    def excuse_arm(self, begins: bool = False) -> None:
        """A person goes on with the task, or begins it, and knows of the arm's present fault."""
        self.arm.excuse(self.inputs.arm_fault, begins)

    def hold(self, now_s: float) -> None:
        self.order(Hold(self.arm.next_sequence()), now_s)

    def move(self, leg: Leg, now_s: float) -> None:
        self.arm.begins(leg)
        self.order(MoveTo(self.arm.next_sequence(), leg.pose, leg.gripper), now_s)

    def cancel_calls(self, now_s: float) -> None:
        """Cancel every call in flight."""
        for calls in self.calls.values():
            self._cancel(calls, now_s)

    def cancel_chain(self, now_s: float) -> None:
        """Cancel the goal-coupled calls in flight."""
        for key in GOAL_COUPLED:
            if key in self.calls:
                self._cancel(self.calls[key], now_s)

    def clear(self, key: str, reason: str, cause: str = "recovered") -> None:
        """The cause `key` no longer holds the arm."""
        if self.holds.clears(key):
            self.note("clear", cause, reason, key)

    def spend_plan_credit(self) -> None:
        """System 2 was called for one plan."""
        executing = self.state is State.EXECUTING
        self.planning.spend(self.task.pipeline.system2_to_system1_call_ratio if executing else 0.0)

    def carried_out(self, played: bool = True) -> None:
        """A chunk has come to its end, or the next one takes over; `played`: the arm had taken it."""
        if played:
            self.holds.acted()
        if SYSTEM2 in self.calls:
            self.planning.earn(self.task.pipeline.system2_to_system1_call_ratio)

    def begin_attempt(self, now_s: float) -> None:
        """Forget the attempt before; every component is due now."""
        self.planning.forget()
        self.cancel_calls(now_s)
        self.attempts.begin()
        self.sight.again(now_s)
        self.holds.safety_goes(SafetyEvent.ASK_AGAIN)
        for calls in self.calls.values():
            calls.begin(now_s)

    def take(self) -> list[Command]:
        """The commands since the last call, in order."""
        out, self.out = self.out, []
        return out

    def _cancel(self, calls: ComponentCalls, now_s: float) -> None:
        ended = calls.cancel(now_s)
        if ended is not None:
            self.out.append(ended)
