"""Which test runs beside which: the scheduler of `make test` for pytest-xdist.

Tests of real processes mostly wait, and tests of decisions mostly compute, so they run side by side. A file stays in
one process, in its order, with its fixtures. The lanes:

- *robots*: simulated robots that move, with the deadlines of real ones. On a small machine one file at a time.
- *servers*: servers, single nodes, and robots that replay a picture: what they wait for comes within seconds. On a
  small machine one file at a time, beside the robots, two when no robots are left, and three when nothing is left to
  compute either.
- *beside*: what only computes, at low priority: it takes what the others leave.
- *no nodes*: files that look at the shared memory of all ROS nodes of the machine. They come when robots and servers
  are done, beside what computes.
- *alone*: files that measure tenths of a second or bound the memory of a flooded server. They come last, when nothing
  else runs, two files at a time: they wait more than they compute.

Without pytest-xdist (`pytest tests/...`) all run one after the other.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Sequence
from enum import Enum
from typing import Any, Protocol

MAX_WORKERS = 9


class Lane(Enum):
    ROBOTS = "robots"
    SERVERS = "servers"
    BESIDE = "beside"
    NO_NODES = "no nodes"
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
    "tests/system/hostile/": Lane.SERVERS,
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
    "tests/system/hostile/test_one_against_all.py": Lane.ALONE,  # bounds memory; the longest, and its floods come first
    "tests/system/arm_safety/": Lane.ALONE,  # the arm holds without a sign of life for 0.1 s
    "tests/parity/": Lane.ALONE,  # decisions 25 ms apart, over real sockets; so after the floods
    "tests/system/cell/test_interrupt.py": Lane.NO_NODES,
}


def lane_of(test: str) -> Lane:
    return LANES[max((prefix for prefix in LANES if test.startswith(prefix)), key=len)]


def _rank(file: str) -> int:
    """Files begin in the order of `LANES`."""
    prefix = max((prefix for prefix in LANES if file.startswith(prefix)), key=len)
    return list(LANES).index(prefix)


def workers() -> int:
    """One more than there are cores, since live tests wait; each takes seconds to start, so not too many."""
    return min(_cores() + 1, MAX_WORKERS)


def roles(processes: int) -> list[Lane]:
    """The lane that each process is for. When no robots are left, those for robots and servers help with the rest."""
    pairs = max(1, processes // 4)
    return [*[Lane.ROBOTS] * pairs, *[Lane.SERVERS] * pairs, *[Lane.BESIDE] * processes][:processes]


def _cores() -> int:
    return len(os.sched_getaffinity(0))


class Node(Protocol):
    """A process of pytest-xdist, as the scheduler sees it."""

    gateway: Any  # its `id` is gw0, gw1, ...

    @property
    def shutting_down(self) -> bool: ...
    def send_runtest_some(self, indices: Sequence[int]) -> None: ...
    def shutdown(self) -> None: ...


def number_of(worker: str) -> int:
    return int(worker.removeprefix("gw"))


class _Work:
    """What one process has to do: the rest of its file, and what was sent to it already."""

    def __init__(self, role: Lane) -> None:
        self.role = role
        self.queue: deque[int] = deque()
        self.sent: list[int] = []


AHEAD = 2  # a process begins a test only when it knows the next one, or that there is none


class Lanes:
    """A scheduler of pytest-xdist (`xdist.scheduler.protocol`)."""

    def __init__(self, processes: int) -> None:
        self.collection: list[str] = []
        self._roles = roles(processes)
        self._collected: dict[Node, list[str]] = {}
        self._work: dict[Node, _Work] = {}
        self._files: dict[str, deque[int]] = {}  # not begun yet, in their order

    # -- what xdist asks --

    @property
    def nodes(self) -> list[Node]:
        return list(self._work)

    @property
    def collection_is_completed(self) -> bool:
        return len(self._collected) >= len(self._roles)

    @property
    def tests_finished(self) -> bool:
        """Nothing is left to be sent; a process may still be at its last test."""
        if not self.collection_is_completed or self._files:
            return False
        return all(not work.queue and len(work.sent) < AHEAD for work in self._work.values())

    @property
    def has_pending(self) -> bool:
        return bool(self._files) or any(work.queue or work.sent for work in self._work.values())

    # -- what xdist tells --

    def add_node(self, node: Node) -> None:
        """A process has started, or one that stands in for a crashed one."""
        number = number_of(node.gateway.id)
        if number < len(self._roles):
            self._work[node] = _Work(self._roles[number])
        else:
            missing = Counter(self._roles) - Counter(self._work[other].role for other in self._staying())
            self._work[node] = _Work(next(iter(missing), Lane.ROBOTS))

    def add_node_collection(self, node: Node, collection: Sequence[str]) -> None:
        self._collected[node] = list(collection)

    def schedule(self) -> None:
        """Every process has collected, or one that stands in for a crashed one has."""
        first, *others = self._collected.values()
        for other in others:
            if other != first:
                differing = sorted(set(first) ^ set(other))[:5]
                raise RuntimeError(f"processes collected different tests, such as {differing}")
        if not self.collection:
            self.collection = first
            for index, test in enumerate(first):
                self._files.setdefault(test.partition("::")[0], deque()).append(index)
            self._files = {file: self._files[file] for file in sorted(self._files, key=_rank)}
        self._fill()

    def mark_test_complete(self, node: Node, item_index: int, duration: float = 0) -> None:
        self._work[node].sent.remove(item_index)
        self._fill()

    def remove_node(self, node: Node) -> str | None:
        """A process has ended; returns the test that it crashed in. What it had not begun goes to the others."""
        work = self._work.pop(node)
        crashed = work.sent[:1]
        for index in [*work.sent[1:], *work.queue]:
            self._files.setdefault(self.collection[index].partition("::")[0], deque()).append(index)
        self._fill()
        return self.collection[crashed[0]] if crashed else None

    def mark_test_pending(self, item: str) -> None:
        raise NotImplementedError("tests are not run again")

    def remove_pending_tests_from_node(self, node: Node, indices: Sequence[int]) -> None:
        raise NotImplementedError("no process takes tests from another")

    # -- what it decides --

    def _fill(self) -> None:
        """Send each process its next tests; end those for which none will come."""
        for node, work in self._work.items():
            while not node.shutting_down and len(work.sent) < AHEAD and self._may_go_on(node):
                if not work.queue and (file := self._next_file(node)) is not None:
                    work.queue = self._files.pop(file)
                if work.queue:
                    index = work.queue.popleft()
                    work.sent.append(index)
                    node.send_runtest_some([index])
                elif self._helps_later(node):
                    break
                else:
                    node.shutdown()

    def _may_go_on(self, node: Node) -> bool:
        """False while the one test that a process was sent must not begin: it does when the process knows the next."""
        sent = self._work[node].sent
        lane = lane_of(self.collection[sent[0]]) if sent else None
        if lane is Lane.ALONE:
            return self._at_work(besides=None) == {Lane.ALONE} and self._left() <= {Lane.ALONE}
        if lane is Lane.NO_NODES:
            return self._nodes_are_done(node)
        return True

    def _next_file(self, node: Node) -> str | None:
        lanes = self._takes(node)
        return next((file for lane in lanes for file in self._files if lane_of(file) is lane), None)

    def _takes(self, node: Node) -> Sequence[Lane]:
        """What a process takes, in this order. Of the last two, it holds the first test until it may begin."""
        role = self._work[node].role
        if role is Lane.ROBOTS:
            lanes = [Lane.ROBOTS, Lane.SERVERS, Lane.BESIDE]
        elif role is Lane.SERVERS and (Lane.ROBOTS not in self._left() or Lane.BESIDE not in self._roles):
            lanes = [Lane.SERVERS, Lane.BESIDE]
        elif role is Lane.BESIDE and self._robots_are_done():
            lanes = [Lane.BESIDE, Lane.SERVERS]
        else:
            lanes = [role]
        if node is self._first(Lane.ROBOTS):
            lanes.insert(2 if self._nodes_are_done(node) else 3, Lane.NO_NODES)
        if node in (self._first(Lane.ROBOTS), self._first(Lane.SERVERS)):
            lanes.append(Lane.ALONE)
        return lanes

    def _staying(self) -> list[Node]:
        return [node for node in self._work if not node.shutting_down]

    def _first(self, role: Lane) -> Node | None:
        return next((one for one in self._staying() if self._work[one].role is role), None)

    def _left(self) -> set[Lane]:
        """The lanes of the files that nobody has begun."""
        return {lane_of(file) for file in self._files}

    def _at_work(self, besides: Node | None) -> set[Lane]:
        """The lanes of what was sent, and of the rest of files that were begun."""
        works = [work for other, work in self._work.items() if other is not besides]
        return {lane_of(self.collection[index]) for work in works for index in (*work.queue, *work.sent)}

    def _robots_are_done(self) -> bool:
        return Lane.ROBOTS not in self._left() | self._at_work(besides=None)

    def _helps_later(self, node: Node) -> bool:
        """It has nothing left to compute, and will take servers when no robot can be disturbed any more."""
        waits = self._work[node].role is Lane.BESIDE and self._first(Lane.ROBOTS) is not None
        return waits and not self._robots_are_done() and Lane.SERVERS in self._left()

    def _nodes_are_done(self, node: Node) -> bool:
        """No robot and no server is left, here or at work elsewhere; what is to run alone has not begun either."""
        begun = self._at_work(besides=node) | self._left()
        return not begun & {Lane.ROBOTS, Lane.SERVERS}
