"""The simulated fleet with a fault plan: what goes wrong is put between the parts, and both watches look on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache, partial
from math import inf
from random import Random
from typing import Any

import numpy as np

from rosa_client.greeting import Greeting
from rosa_client.runtime.commands import Alert
from rosa_client.runtime.task_machine import State
from rosa_contract.config import MONITOR, Factory, Task
from rosa_contract.messages import Executed, Output
from rosa_server.scheduler.problem import problem_from
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.schedule import Schedule
from rosa_server.scheduler.search.solve import solve
from rosa_server.serving.core.actions import Dispatch, Kill
from rosa_server.serving.core.core import ServingCore
from rosa_server.serving.core.placement import Replica, replica_name
from rosa_sim.chaos.plan import NEVER, Fault, Plan
from rosa_sim.chaos.robot import ChaosRobot, Nobody
from rosa_sim.chaos.robot_watch import Broken, RobotWatch
from rosa_sim.chaos.server_watch import ServerWatch
from rosa_sim.fleet.cluster import LARGEST_BATCH, TO_GATEWAY, TO_ROBOT, Serving
from rosa_sim.fleet.network import Network
from rosa_sim.fleet.robot import Habits
from rosa_sim.fleet.scenario import load_scenario
from rosa_sim.fleet.simulation import ROBOT, Joining, Simulation
from rosa_sim.fleet.systems import executable, fleet_of
from rosa_sim.fleet.workers import SimulatedWorker

LIBRARY = ProfileLibrary()
NONSENSE = ("unknown_batch", "other_tickets", "twice", "wrong_shape", "out_of_range", "model_error")
STARTS_AGAIN_S = 3.0  # a worker that the gateway ended is warm again
OPERATOR_S = 1.0  # a person answers so soon, when nothing is wrong with them
LOOKS_EVERY_S = 0.25  # at robots that say nothing
ENDS_WITHIN_S = 90.0  # after the last fault: 60 s to connect, 30 s for a worker that hangs
FORGETS_AFTER_S = 30.0
UNSAFE, DONE, FAILED = 0.002, 0.02, 0.01  # shares of verdicts when nothing is wrong
FOREIGN = 1_000_000_000  # request ids of a hasty robot's extra requests


@lru_cache(maxsize=32)
def _scheduled(scenario: str, robots: int, standby: int) -> tuple[Factory, Schedule]:
    factory = fleet_of(load_scenario(scenario).factory, robots)
    return factory, solve(problem_from(factory), LIBRARY, Options(standby=standby))


def serving_of(plan: Plan) -> Serving:
    """A server side that has seen nothing yet. Raises `ValueError` when the schedule serves nobody."""
    factory, schedule = _scheduled(plan.scenario, plan.robots, plan.standby)
    factory = replace(factory, gateway=replace(factory.gateway, queue_per_model=plan.queue_limit))
    system = executable("rosa", factory, schedule, LIBRARY, 0.05)
    if system.serving is None:
        raise ValueError(f"{plan.scenario} with {plan.robots} robots: {system.refused}")
    return system.serving


class ChaosWorld(Simulation):
    """One run of a plan. Whatever breaks a promise raises `Broken`."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.calm, self.counts = plan, False, Counter[str]()
        self._now: list[Fault] = []  # that are active
        self._draw = Random(f"chaos run {plan.seed}")
        self._down = False  # the gateway is
        self._numbers: dict[str, int] = {}  # of robots
        self._lives_of: Counter[str] = Counter()
        self._dead: set[int] = set()  # seats of robots that were switched off
        self._gone: list[Any] = []
        self._silenced: set[str] = set()  # workers that have ended and the gateway does not know
        self._foreign = FOREIGN
        serving = serving_of(plan)
        self.watching = ServerWatch(serving.factory)
        self._servers = sorted({r.server for r in serving.placement.replicas.values()})
        habits = Habits(plan.control_period_s, plan.camera_period_s)
        network = Network(latency_ms=0.5, jitter_ms=plan.jitter_ms)
        super().__init__(serving, (), Nobody(), network, habits, plan.seed, watch=self._saw)
        rng = Random(f"start {plan.seed}")
        together = rng.random() < 0.5
        for entry in serving.factory.robot_fleet:
            for index in range(entry.num_robots):
                name = f"{entry.task}-{index}"
                self._numbers[name] = len(self._numbers)
                self.join(Joining(name, entry.task, 0.0 if together else rng.random(), 0.0))
        for fault in plan.faults:
            self.at(fault.at_s, partial(self._begin_fault, fault))
            self.at(fault.at_s + fault.lasts_s, partial(self._end_fault, fault))
        self.at(LOOKS_EVERY_S, self._look)

    # -- the run -------------------------------------------------------------------------------------------------------

    def play(self) -> None:
        """Run the plan, then wait until every task has ended. Raises `Broken`."""
        self.run(self.plan.seconds)
        self.calm = True
        for seat in self._live():
            seat.robot.no_person()
        while waiting := [seat.robot for seat in self._live() if not self._settled(seat.robot)]:
            if self.now_s > self.plan.seconds + ENDS_WITHIN_S:
                one = waiting[0]
                words = f"{one.name} is {one.core.state.value}, {ENDS_WITHIN_S:g} s after the last fault"
                raise Broken("every_task_ends", words, self.now_s)
            self.run(self.now_s + 1.0)

        self._book()

    def _book(self) -> None:
        """Add up what the watch of this gateway's life has counted."""
        self.counts["accepted"] += self.watching.accepted
        for name, number in self.watching.answers.items():
            self.counts[f"answer {name}"] += number

    def _settled(self, robot: ChaosRobot) -> bool:
        """Done, or a human is asked; a task without a monitor has no end of its own: then it works again."""
        if robot.core.state in (State.IDLE, State.WAITING_FOR_HUMAN):
            return True
        return MONITOR not in robot.core.calls and robot.watch.played_s > self.plan.seconds

    def _live(self) -> list[Any]:
        return list(self._seats.values())

    def _look(self, now_s: float) -> None:
        for seat in self._live():
            seat.robot.watch.look(now_s)
        if round(now_s / LOOKS_EVERY_S) % 40 == 0:
            self.watching.forget_answered(now_s - FORGETS_AFTER_S)
        self.at(now_s + LOOKS_EVERY_S, self._look)

    def _saw(self, now_s: float, action: Any) -> None:
        self.watching.action(now_s, action)

    # -- faults --------------------------------------------------------------------------------------------------------

    def _begin_fault(self, fault: Fault, now_s: float) -> None:
        self.counts[fault.kind] += 1
        self._now.append(fault)
        if fault.kind == "worker_killed":
            for server in self._hit_servers(fault):
                self._end_workers(server, now_s, fault.amount)
        elif fault.kind == "gateway_restarted":
            self._gateway_dies(now_s)
        elif fault.kind == "robot_restarted":
            for seat in [s for s in self._live() if self._hits(fault, s)]:
                self._switch_off(seat, now_s)
        elif fault.kind == "robot_hasty":
            self._hurry(fault, now_s)

    def _end_fault(self, fault: Fault, now_s: float) -> None:
        self._now.remove(fault)
        if fault.kind == "worker_killed":
            for server in self._hit_servers(fault):
                self._warm(server)
        elif fault.kind == "gateway_restarted":
            self._gateway_returns(now_s)
        elif fault.kind == "robot_restarted":
            here = {seat.robot.name for seat in self._live()}
            for name, index in self._numbers.items():
                down = any(f.kind == fault.kind and self._hits_number(f, index) for f in self._now)
                if name not in here and not down:
                    self._switch_on(name, now_s)

    def _active(self, *kinds: str) -> list[Fault]:
        return [fault for fault in self._now if fault.kind in kinds]

    def _hits_number(self, fault: Fault, index: int) -> bool:
        return not fault.targets or index in {target % len(self._numbers) for target in fault.targets}

    def _hits(self, fault: Fault, seat: Any) -> bool:
        return self._hits_number(fault, self._numbers[seat.robot.name])

    def _hit_servers(self, fault: Fault) -> list[str]:
        numbers = {target % len(self._servers) for target in fault.targets}
        return [s for index, s in enumerate(self._servers) if not fault.targets or index in numbers]

    # -- links ---------------------------------------------------------------------------------------------------------

    def _copies(self, seat: Any, up: bool, arrives_s: float | None) -> list[float]:
        """When the copies of a message arrive that would arrive once."""
        if arrives_s is None or id(seat) in self._dead:
            return []
        draw = self._draw.random
        times = [arrives_s]
        for fault in self._now:
            if not (fault.kind.startswith("message_") or fault.kind == "partition") or not self._hits(
                fault, seat
            ):
                continue
            if fault.kind == "partition":
                if int(fault.amount) in (0, 1 if up else 2):
                    return []
            elif fault.kind == "message_loss":
                times = [time for time in times if draw() >= fault.amount]
            elif fault.kind == "message_delay":
                times = [time + fault.amount for time in times]
            elif fault.kind == "message_reordering":
                times = [time + draw() * fault.amount for time in times]
            elif draw() < fault.amount:
                times += [time + draw() * 0.05 for time in times]
        return times

    def _send(self, now_s: float, seat: Any, message: Any) -> None:
        seat.link.sent(now_s)
        for time_s in self._copies(seat, True, seat.up.arrives_s(now_s)):
            self._at(time_s, TO_GATEWAY, seat, message)

    def _say(self, now_s: float, connection: bytes, message: Any) -> None:
        seat = self._seats.get(connection)
        if seat is None:
            return
        for time_s in self._copies(seat, False, seat.down.arrives_s(now_s)):
            self._at(time_s, TO_ROBOT, seat, message)

    # -- robots --------------------------------------------------------------------------------------------------------

    def _new_robot(self, name: str, task: Task, link: Greeting, phase_s: float) -> ChaosRobot:
        robot = ChaosRobot(name, task, ROBOT, link, self._observer, self._habits, phase_s)
        period_s = self.plan.control_period_s
        robot.world, robot.watch = self, RobotWatch(name, task, ROBOT, period_s)
        return robot

    def _switch_off(self, seat: Any, now_s: float) -> None:
        self._dead.add(id(seat))
        self._gone.append(seat)  # kept, so that no other seat gets its id
        seat.wake_s = inf
        del self._seats[seat.connection]
        if not self._down:
            self.core.on_gone(now_s, seat.connection)

    def _switch_on(self, name: str, now_s: float) -> None:
        self._lives_of[name] += 1
        self.join(Joining(name, name.rpartition("-")[0], now_s + 0.001))

    def join(self, joining: Joining) -> None:
        """As in the simulation; another life of a robot comes on another connection."""
        super().join(joining)
        life = self._lives_of[joining.name]
        if life:
            seat = self._seats.pop(joining.name.encode())
            seat.connection = f"{joining.name}.{life}".encode()
            self._seats[seat.connection] = seat

    def _begin(self, now_s: float, seat: Any) -> None:
        if id(seat) not in self._dead:
            super()._begin(now_s, seat)

    def _wake_link(self, now_s: float, seat: Any) -> None:
        if id(seat) not in self._dead:
            super()._wake_link(now_s, seat)

    def _to_robot(self, now_s: float, seat: Any, message: Any) -> None:
        if id(seat) not in self._dead:
            super()._to_robot(now_s, seat, message)

    def _hurry(self, fault: Fault, now_s: float) -> None:
        """Requests beside the robot's own, as from a client that knows no rates."""
        if fault not in self._now:
            return
        for seat in self._live():
            if self._hits(fault, seat):
                for name, part in seat.robot.core.task.components.items():
                    self._foreign += 1
                    header = {"i": self._foreign, "c": name, "b": part.slo_ms, "m": [], "s": {}}
                    self._send(now_s, seat, header)
        self.at(now_s + 1 / fault.amount, partial(self._hurry, fault))

    def operator_comes_s(self, robot: ChaosRobot, now_s: float) -> float:
        """When somebody answers this robot's alert."""
        if self.calm:
            return inf
        index = self._numbers[robot.name]
        late = [f.amount for f in self._active("operator_late") if self._hits_number(f, index)]
        if any(amount <= NEVER for amount in late):
            return inf
        return now_s + max([OPERATOR_S, *late])

    def choice_of_operator(self, alert: Alert) -> str:
        """Any of those that the robot offers."""
        return self._draw.choice(alert.choices)

    # -- the gateway ---------------------------------------------------------------------------------------------------

    def _gateway_dies(self, now_s: float) -> None:
        """It forgets everything, and its workers end with it."""
        self._down = True
        for server in self._servers:
            self._drop_workers(server)
        self._core_wake_s = inf

    def _gateway_returns(self, now_s: float) -> None:
        if self._active("gateway_restarted"):
            return
        self._down = False
        self._silenced.clear()
        self._book()
        self._serving = serving_of(self.plan)
        self.core = ServingCore(self._serving.factory, self._serving.placement, self._serving.admission, str)
        self.watching = ServerWatch(self._serving.factory)
        for server in self._servers:
            self._warm(server)

    def _to_gateway(self, now_s: float, seat: Any, message: Any) -> None:
        if self._down or id(seat) in self._dead:
            return
        session = self.core.sessions.get(seat.connection)
        if type(message) is dict and session is not None:
            models = self._serving.factory.models_of(session.task)
            key = (seat.connection, message["i"])
            self.watching.request(now_s, key, models.get(message["c"], ""), message["b"])
        super()._to_gateway(now_s, seat, message)

    def _tick_core(self) -> None:
        if not self._down:
            super()._tick_core()
            self.watching.ticked(self.now_s, self.core.queues)

    # -- workers -------------------------------------------------------------------------------------------------------

    def _start_worker(self, replica: Replica, number: int) -> None:
        place = f"{replica.id}/{number}"
        worker_id = f"{place}.{self._lives.get(place, 0) + 1}"
        self.watching.worker(worker_id, replica.model, replica.at_once or 1, replica.batch or LARGEST_BATCH)
        super()._start_worker(replica, number)

    def _drop_workers(self, server: str) -> list[str]:
        gone = [w for w in self._workers.values() if self._replica(w).server == server]
        for worker in gone:
            worker.alive = False
            del self._workers[worker.worker_id]
        self.gpus.pop(server, None)
        return [worker.worker_id for worker in gone]

    def _end_workers(self, server: str, now_s: float, notices_s: float) -> None:
        """The workers of a server end; the gateway notices later."""
        for worker_id in self._drop_workers(server):
            self._silenced.add(worker_id)
            self.at(now_s + notices_s, partial(self._notice, worker_id))

    def _notice(self, worker_id: str, now_s: float) -> None:
        if worker_id in self._silenced and not self._down:
            self._silenced.remove(worker_id)
            self.watching.worker_gone(worker_id)
            self.core.on_lost(now_s, worker_id, "ended by the fault plan")

    def _warm(self, server: str) -> None:
        """Start the workers of a server that are not there, unless something keeps them down."""
        if self._down or any(server in self._hit_servers(f) for f in self._active("worker_killed")):
            return
        here = {worker_id.rpartition(".")[0] for worker_id in self._workers}
        for replica in self._serving.placement.replicas.values():
            for number in range(replica.workers):
                place = f"{replica.id}/{number}"
                if replica.server == server and place not in here:
                    for old in [w for w in self._silenced if w.rpartition(".")[0] == place]:
                        self._notice(old, self.now_s)
                    self._start_worker(replica, number)

    def _kill(self, now_s: float, kill: Kill) -> None:
        """The cluster ends the worker and starts another."""
        self.counts["killed_by_the_gateway"] += 1
        self.watching.worker_gone(kill.worker_id)
        self._silenced.discard(kill.worker_id)
        worker = self._workers.pop(kill.worker_id, None)
        if worker is not None:
            worker.alive = False
        server = self._serving.placement.replicas[replica_name(kill.worker_id)].server
        self.gpus.pop(server, None)
        self.at(now_s + STARTS_AGAIN_S, lambda _: self._warm(server))

    def _dispatch(self, now_s: float, batch: Dispatch) -> None:
        worker = self._workers.get(batch.worker_id)
        if worker is not None:
            slower = [f.amount for f in self._active("worker_slow") if self._server_hit(f, batch.worker_id)]
            worker.slower = max([1.0, *slower])
        super()._dispatch(now_s, batch)

    def _server_hit(self, fault: Fault, worker_id: str) -> bool:
        return self._serving.placement.replicas[replica_name(worker_id)].server in self._hit_servers(fault)

    def _batch_ends(self, now_s: float, worker: Any, done: Any) -> None:
        if worker.alive and not self._down:
            super()._batch_ends(now_s, worker, done)

    def _executed(self, now_s: float, worker: SimulatedWorker, done: Executed) -> None:
        done = replace(done, outputs=[self._said(output) for output in done.outputs])
        active = [f for f in self._active("worker_nonsense") if self._server_hit(f, worker.worker_id)]
        nonsense = NONSENSE[int(active[0].amount)] if active else ""
        if nonsense == "unknown_batch":
            done = replace(done, batch_id=done.batch_id + 1_000_000)
        elif nonsense == "other_tickets":
            done = replace(done, tickets=[ticket + 1 for ticket in done.tickets])
        elif nonsense == "wrong_shape":
            done = replace(
                done, outputs=[Output({"actions": np.zeros((1, 1), np.float32)})] * len(done.outputs)
            )
        elif nonsense == "out_of_range":
            far = np.full((1, 2), 9.0, np.float32)
            done = replace(done, outputs=[Output({"actions": far}, "perhaps")] * len(done.outputs))
        elif nonsense == "model_error":
            count = len(done.outputs)
            done = replace(done, errors=[("model_error", "nonsense")] * count, outputs=[b""] * count)
        for _ in range(2 if nonsense == "twice" else 1):
            self.watching.executed(worker.worker_id, done.batch_id)
            self.core.on_executed(now_s, worker.worker_id, done)

    def _said(self, output: Output) -> Output:
        """Safety and the monitor do not always say the same."""
        draw = self._draw.random()
        if output.verdict == "safe":
            return Output(verdict="unsafe") if draw < self._share("verdict_unsafe", UNSAFE) else output
        if output.verdict != "ongoing":
            return output
        if self.calm or draw < self._share("verdict_done", DONE):
            return Output(verdict="done")
        return Output(verdict="failed") if draw > 1 - self._share("verdict_failed", FAILED) else output

    def _share(self, kind: str, usual: float) -> float:
        return max([0.0 if self.calm else usual, *(fault.amount for fault in self._active(kind))])
