"""Which test runs beside which: what pytest-xdist's scheduler of files does not know.

Tests of real processes mostly wait, and tests of decisions mostly compute, so they run side by side. A file stays in
one process, in its order, with its fixtures. The lanes:

- *servers*: servers, single nodes, and robots that replay a picture: what they wait for comes within seconds.
- *robots*: simulated robots that move, with the deadlines of real ones. On a small machine one file at a time, and when
  the servers are done.
- *beside*: what only computes, at the lowest priority: it takes what the others leave.
- *alone*: files that measure tenths of a second, or an arm behind a controller, or bound the memory of a flooded
  server. They come last, one at a time, when nothing else runs.

Without pytest-xdist (`pytest tests/...`) all run one after the other.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections import Counter
from enum import Enum
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadScopeScheduling

MAX_WORKERS = 9
OTHERS_END_S = 900.0  # the longest that a file that runs alone waits for the others


class Lane(Enum):
    ROBOTS = "robots"
    SERVERS = "servers"
    BESIDE = "beside"
    ALONE = "alone"


# The longest prefix of a file's path decides; what is new has a robot until somebody knows better. The order is that in
# which files begin.
LANES = {
    "tests/system/packaging/": Lane.BESIDE,  # compiles
    "tests/unit/sim/explore/test_exploration.py": Lane.BESIDE,  # first, as it is long
    "tests/unit/": Lane.BESIDE,
    "tests/system/operator/test_panel.py": Lane.SERVERS,  # the longest of its lane
    "tests/system/run/": Lane.SERVERS,
    "tests/system/dashboard/": Lane.SERVERS,
    "tests/system/doctor/": Lane.SERVERS,
    "tests/system/bringup/test_fleet.py": Lane.SERVERS,
    "tests/system/bringup/test_names.py": Lane.SERVERS,
    "tests/system/bringup/test_supervisor.py": Lane.SERVERS,
    "tests/system/calibrate/": Lane.SERVERS,
    "tests/system/engines/": Lane.SERVERS,
    "tests/system/examples/": Lane.SERVERS,
    "tests/system/frontends/": Lane.SERVERS,
    "tests/system/keys/": Lane.SERVERS,
    "tests/system/managed/": Lane.SERVERS,
    "tests/system/nodes/": Lane.SERVERS,
    "tests/system/operations/": Lane.SERVERS,
    "tests/system/own_python/": Lane.SERVERS,
    "tests/system/python_client/": Lane.SERVERS,
    "tests/system/recorder/": Lane.SERVERS,
    "tests/system/schedule/": Lane.SERVERS,
    "tests/system/server_faults/": Lane.SERVERS,
    "tests/system/server_lifecycle/": Lane.SERVERS,
    "tests/": Lane.ROBOTS,
    "tests/system/hostile/": Lane.ALONE,  # floods, and what others get meanwhile; they come first
    "tests/system/arm_safety/": Lane.ALONE,  # the arm holds without a sign of life for 0.1 s
    "tests/system/arm_ros2_control/": Lane.ALONE,  # arm and controller have 10 ms each, and 0.3 rad between them
    "tests/parity/": Lane.ALONE,  # decisions 25 ms apart, over real sockets; so after the floods
}
# What a process takes, in this order, by the lane that it is for.
TAKES = {
    Lane.ROBOTS: (Lane.SERVERS, Lane.ROBOTS, Lane.BESIDE, Lane.ALONE),
    Lane.SERVERS: (Lane.SERVERS, Lane.BESIDE),  # what computes, only where there are no robots
    Lane.BESIDE: (Lane.BESIDE,),  # nothing live, which waits in vain at the lowest priority
}


def lane_of(test: str) -> Lane:
    return LANES[_prefix(test)]


def _prefix(test: str) -> str:
    return max((prefix for prefix in LANES if test.startswith(prefix)), key=len)


def workers() -> int:
    """As many as there are cores. With one more on two cores, two fleets side by side took four times as long each."""
    return min(max(len(os.sched_getaffinity(0)), 2), MAX_WORKERS)


def roles(processes: int) -> list[Lane]:
    """The lane that each process is for; those for robots and servers compute when nothing else is left."""
    fours = processes // 4
    return [*[Lane.ROBOTS] * max(1, fours), *[Lane.SERVERS] * fours, *[Lane.BESIDE] * processes][:processes]


def number_of(worker: str) -> int:
    return int(worker.removeprefix("gw"))


class Lanes(LoadScopeScheduling):
    """xdist's scheduler of files, with a role for each process that says which files it takes."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._roles: dict[Any, Lane] = {}

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]

    def add_node(self, node: Any) -> None:
        """A process has started, or one that stands in for a crashed one."""
        super().add_node(node)
        all_roles, number = roles(self.numnodes), number_of(node.gateway.id)
        missing = Counter(all_roles) - Counter(
            self._roles[other] for other in self.nodes if other is not node
        )
        self._roles[node] = all_roles[number] if number < self.numnodes else next(iter(missing), Lane.ROBOTS)

    def remove_node(self, node: Any) -> str | None:
        """A process has ended; returns the test that it crashed in, which is not begun again."""
        left = {
            file: {test: False for test, ended in unit.items() if not ended}
            for file, unit in self.assigned_work[node].items()
        }
        crashed = next((test for unit in left.values() for test in unit), None)
        for unit in left.values():
            unit.pop(crashed, None)
        # An empty unit, given to another process, would be the last that it is given.
        self.assigned_work[node] = {file: unit for file, unit in left.items() if unit}
        super().remove_node(node)
        return crashed

    def schedule(self) -> None:
        if self.collection is None:  # in whatever order they were ready
            by_number = sorted(self.assigned_work.items(), key=lambda one: number_of(one[0].gateway.id))
            self.assigned_work = dict(by_number)
            first = next(iter(self.registered_collections.values()), [])
            for collected in self.registered_collections.values():
                assert collected == first, "processes collected different tests"
        super().schedule()

    def _assign_work_unit(self, node: Any) -> None:
        if (file := self._next_file(node)) is not None:
            self.workqueue.move_to_end(file, last=False)
            super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        """Give it work until it has two tests, as it runs one only when it knows the next; or end it."""
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            if self._next_file(node) is None:
                node.shutdown()
            else:
                self._assign_work_unit(node)

    def _next_file(self, node: Any) -> str | None:
        left = sorted(self.workqueue, key=lambda file: list(LANES).index(_prefix(file)))
        role = self._roles[node]
        for lane in TAKES[role]:
            if lane is Lane.ALONE and node is not self._first(role):
                continue
            if (role, lane) == (Lane.SERVERS, Lane.BESIDE) and self._robots_left():
                continue
            if file := next((file for file in left if lane_of(file) is lane), None):
                return file
        return None

    def _robots_left(self) -> bool:
        begun = (unit for units in self.assigned_work.values() for unit in units.items())
        left = [*self.workqueue, *(file for file, tests in begun if not all(tests.values()))]
        return any(lane_of(file) is Lane.ROBOTS for file in left)

    def _first(self, role: Lane) -> Any:
        staying = [node for node in self.nodes if not node.shutting_down]
        return next((node for node in staying if self._roles[node] is role), None)


class Presence:
    """What a process holds until it has run all that may not run beside a file of the lane *alone*."""

    def __init__(self, file: Path = Path(__file__)) -> None:
        """`file`: is locked, and stays as it is; one for all processes of a run."""
        self._file = file
        self._locked = os.open(file, os.O_RDONLY)
        fcntl.flock(self._locked, fcntl.LOCK_SH)  # the kernel frees it when the process ends

    def end(self) -> None:
        if self._locked >= 0:
            os.close(self._locked)
            self._locked = -1

    def wait_for_others(self) -> None:
        """End it, and return when that of each other process has ended. Raises `TimeoutError`."""
        self.end()
        until_s = time.monotonic() + OTHERS_END_S
        while time.monotonic() < until_s:
            with self._file.open("rb") as opened:
                try:
                    return fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    time.sleep(0.1)
        raise TimeoutError(f"other tests have not ended within {OTHERS_END_S:g} s")
