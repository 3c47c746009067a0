"""What goes wrong with machines, and what it costs the robots; `benchmarks/faults/machine_faults.py` repeats it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rosa_sim.machines.nodes import two_nodes
from rosa_sim.machines.story import AFTER_S, Story, factory, story

BACKEND = "rosa_sim.machines.troubled:TroubledBackend"
CALM_S, LONG_S, HEAL_S = 4.0, 3600.0, 120.0
VERSION = 2  # of what happens and how it is measured; 1 was before a silent worker kept its link
CUT_S = 3.0
SLOW_S = 2.0  # of each batch, which else takes 0.03 to 0.06 s
FAR = 4  # robots on the second machine
# Of a node whose store has 100 MB: a driver that puts until it is full, and some more.
FILLS = """
import sys, time, numpy, ray
ray.init(address=sys.argv[1], log_to_driver=False)
held = [ray.put(numpy.zeros(5_000_000, numpy.uint8)) for _ in range(60)]
print("full", flush=True)
time.sleep(3)
"""


@dataclass(frozen=True)
class Cost:
    """One fault. Seconds from it to a robot's first answer in time; `healed_s`: until all is as before."""

    what: str
    healed_s: float
    robots: int
    median_s: float
    worst_s: float
    missing: int  # robots that missed a deadline
    max_missed: int  # by one robot
    others_missed: int  # calls of robots that it does not concern
    lost: int


class Scene:
    """Two machines with a worker each, a server, and robots on both."""

    def __init__(self, told: Story, folder: Path, robots: int) -> None:
        self.told, self.nodes, self.folder, self.count = told, told.nodes, folder, robots
        self._trouble = folder / "trouble"

    def begin(self) -> None:
        """Raises `TimeoutError` where something that has to happen does not."""
        (self.folder / "weights").write_text("weights")
        content = factory(self.nodes, weights=str(self.folder / "weights"), trouble=str(self._trouble))
        content["models"]["policy"]["backend"] = BACKEND
        content["gateway"]["bind"] = "tcp://0.0.0.0:5570"
        self.content = content
        self.serve()
        self.told.until(lambda: len(self.told.events("worker_ready")) == 2, "both workers ready")
        self.told.robots(self.count, LONG_S)
        self.told.robots(FAR, LONG_S, far=True)
        self.told.until(lambda: len(self.told.served(0.0)) == self.count + FAR, "every robot served")

    def serve(self) -> None:
        self.told.serve(self.content, "--insecure")

    @property
    def theirs(self) -> int:
        """The worker on the second machine."""
        workers: list[int] = self.told.until(
            lambda: self.nodes.workers(self.nodes.two), "a worker on the second machine"
        )
        return workers[0]

    def trouble(self, what: str) -> None:
        beside = self._trouble.with_suffix(".new")
        beside.write_text(f"{self.theirs} {what}\n")
        beside.replace(self._trouble)

    def heals(self, event: str, since_s: float) -> None:
        self.told.until(lambda: self.told.events(event, since_s), event, HEAL_S)


def _worker(scene: Scene, at_s: float) -> None:
    os.kill(scene.theirs, signal.SIGKILL)
    scene.heals("worker_ready", at_s)


def _gpu(scene: Scene, at_s: float) -> None:
    scene.trouble("raises")
    scene.heals("worker_ready", at_s)


def _slow(scene: Scene, at_s: float) -> None:
    scene.trouble(f"slow {SLOW_S}")
    scene.heals("worker_slow", at_s)
    (scene.folder / "trouble").unlink()
    told = scene.told
    told.until(
        lambda: told.events("worker_back", at_s) or told.events("worker_ready", at_s), "it back", HEAL_S
    )


def _link(scene: Scene, at_s: float) -> None:
    scene.nodes.cut(scene.nodes.two)
    time.sleep(CUT_S)
    scene.nodes.mend(scene.nodes.two)
    scene.heals("worker_back", at_s)


def _store(scene: Scene, at_s: float) -> None:
    done = scene.nodes.run(scene.nodes.one, (sys.executable, "-c", FILLS, scene.nodes.address), HEAL_S)
    if "full" not in done.stdout:
        raise TimeoutError(f"the object store was not filled: {done.stderr[-2000:]}")


def _gateway(scene: Scene, at_s: float) -> None:
    """Killed, and started again as systemd would."""
    scene.told.kill_server()
    scene.serve()
    scene.told.until(lambda: len(scene.told.events("worker_ready", at_s)) >= 2, "its workers", HEAL_S)


def _kill(scene: Scene, machine: str, part: bytes) -> None:
    found = scene.nodes.named(getattr(scene.nodes, machine), part)
    if not found:
        raise TimeoutError(f"no {part.decode()} on the machine")
    for pid in found:
        os.kill(pid, signal.SIGKILL)


def _raylet(scene: Scene, at_s: float) -> None:
    _kill(scene, "two", b"raylet/raylet")
    scene.heals("worker_ready", at_s)


def _head(scene: Scene, at_s: float) -> None:
    """Nobody heals it here: the robots are to go on."""
    _kill(scene, "one", b"gcs_server")
    time.sleep(AFTER_S)


def _node(scene: Scene, at_s: float) -> None:
    scene.nodes.kill(scene.nodes.two)
    scene.heals("worker_ready", at_s)


@dataclass(frozen=True)
class Fault:
    """`far`: it concerns the robots of the second machine, else those of the first. `last`: the machines are not to be
    used any more."""

    name: str
    what: str
    act: Callable[[Scene, float], None]
    far: bool = False
    last: bool = False


FAULTS = (
    Fault("worker", "a worker is killed", _worker),
    Fault("gpu", "a worker's GPU fails: every call raises", _gpu),
    Fault("slow", f"a worker takes {SLOW_S:g} s for each batch", _slow),
    Fault("link", f"a machine's link is cut for {CUT_S:g} s", _link),
    Fault(
        "partition",
        f"the same, for the robots behind it ({CUT_S:g} s of it cannot be served)",
        _link,
        far=True,
    ),
    Fault("store", "Ray's object store is full", _store),
    Fault("gateway", "the server is killed and started again; robots know no other", _gateway),
    Fault("raylet", "a raylet is killed", _raylet, last=True),
    Fault("node", "a machine is killed", _node, last=True),
    Fault("head", "Ray's head is killed", _head, last=True),
)


def cost(scene: Scene, fault: Fault) -> Cost:
    """Let it happen. Raises `TimeoutError` where it does not heal."""
    told, group = scene.told, "far" if fault.far else "robot"
    time.sleep(CALM_S)
    at_s = time.monotonic()
    fault.act(scene, at_s)
    healed_s = time.monotonic() - at_s
    time.sleep(max(0.0, at_s + AFTER_S - time.monotonic()))
    later_s = time.monotonic()
    wanted = FAR if fault.far else scene.count

    def here() -> set[str]:
        return {name for name in told.served(later_s) if name.startswith(group)}

    end_s = later_s + CALM_S
    while len(here()) < wanted and time.monotonic() < end_s:
        time.sleep(0.1)
    first: dict[str, float] = {}
    for call in told.calls():
        if call.at_s >= at_s and call.ending == "in_time":
            first[call.robot] = min(call.at_s - at_s, first.get(call.robot, call.at_s))
    missed = told.missed(at_s, time.monotonic() - at_s)
    ours = {name: count for name, count in missed.items() if name.startswith(group)}
    took = [seconds for name, seconds in first.items() if name.startswith(group)]
    # A machine that is gone takes its own robots along, and a link those behind it.
    others = 0 if fault.last or fault.name == "link" else sum(missed.values()) - sum(ours.values())
    if fault.name in ("gateway", "store", "worker", "gpu", "slow"):  # these concern every robot
        others = 0
    return Cost(
        fault.name,
        healed_s,
        wanted,
        median(took) if took else 0.0,
        max(took, default=0.0),
        len(ours),
        max(ours.values(), default=0),
        others,
        wanted - len(here()),
    )


class FaultyMachines:
    """Two machines for one fault after the other; new ones after a fault that leaves them broken."""

    def __init__(self, robots: int, keep: Path) -> None:
        """`robots`: on the first machine. `keep`: folder for the logs of faults that cost more than a call."""
        self._robots, self._keep = robots, keep
        self._stack = contextlib.ExitStack()
        self._scene: Scene | None = None

    def __enter__(self) -> FaultyMachines:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def cost(self, fault: Fault, number: int) -> Cost:
        """Let it happen. `number`: of the repetition. Raises `TimeoutError` where it does not heal."""
        scene, found = self.ready(), None
        try:
            found = cost(scene, fault)
        finally:
            if found is None or found.max_missed > 1 or found.others_missed or found.lost:
                self._keep_logs(f"{fault.name}-{number}")
            if found is None or fault.last:
                self.close()
        return found

    def close(self) -> None:
        self._scene = None
        self._stack.close()

    def ready(self) -> Scene:
        """Both machines, with every robot served. Raises `TimeoutError`, and `RuntimeError` with what Ray said."""
        if self._scene is None:
            nodes = self._stack.enter_context(two_nodes())
            self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="rosa-faults-")))
            made = self._stack.enter_context(story(nodes, self._folder))
            self._scene = Scene(made, self._folder, self._robots)
            self._scene.begin()
        return self._scene

    def _keep_logs(self, name: str) -> None:
        """Of everything that has happened to these machines."""
        if self._scene is not None:
            (self._keep / name).mkdir(parents=True, exist_ok=True)
            for path in (*self._folder.glob("*.log"), *self._folder.glob("*.jsonl")):
                shutil.copy(path, self._keep / name)
