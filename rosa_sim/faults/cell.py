"""A cell in which faults can be switched on. It works normally until `inject.py` switches one on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from rosa_client.bringup.bringup import Bringup
from rosa_client.bringup.graph import NodeSpec, Robot, robot_graph
from rosa_contract.config.factory import Factory, load_factory
from rosa_contract.config.robot import RobotSpec, load_robot
from rosa_contract.config.tasks import SYSTEM1
from rosa_contract.errors import ContractError
from rosa_sim.faults import relay
from rosa_sim.faults.switch import turn
from rosa_sim.faults.table import ARM, CLOCK, LINK, SENSORS, WORKER
from rosa_sim.ports import free_ports

SERVER, PROXY = "server", "link_proxy"
# Where a fault needs something put in; the other places are processes as they are.
PLACES = (LINK, WORKER, SENSORS, ARM, CLOCK)


class CellError(ContractError):
    """The requested faults are not possible in this cell; the text says why."""


@dataclass(frozen=True)
class CellSetup:
    """The parts of a cell with faults: changed files, the proxy's endpoints, the switches."""

    robot: Robot
    factory: Factory
    spec: RobotSpec
    places: frozenset[str]
    folder: Path
    proxy: str  # where robots connect to the bad link; empty without one
    control: str  # its control endpoint

    @property
    def model(self) -> str:
        """The model of System 1, whose worker the faults hit."""
        return next(iter(self.factory.tasks.values())).components[SYSTEM1].model

    def switch(self, place: str) -> Path:
        return self.folder / f"{place}.json"


def set_up(robot: Robot, places: Collection[str], folder: Path) -> CellSetup:
    """Write the changed files into `folder`; returns what to start. Raises `CellError` or `ConfigError`."""
    unknown = sorted(set(places) - set(PLACES))
    if unknown:
        raise CellError(f"places: expected some of {', '.join(PLACES)}, got {', '.join(unknown)}")
    if places:
        folder.mkdir(parents=True, exist_ok=True)
    factory = load_factory(robot.config)
    proxy = control = ""
    if LINK in places:
        if factory.gateway.curve_keys:
            raise CellError(
                "gateway.curve_keys: a bad link between robot and server needs a server without keys; CURVE is there to"
                " keep a proxy out. Remove the key for a run with link faults"
            )
        proxy, control = (f"tcp://127.0.0.1:{port}" for port in free_ports(2))
        robot = replace(robot, gateway=proxy)
    if WORKER in places:
        robot = replace(robot, config=str(_with_faulty_model(Path(robot.config), folder, factory)))
    if CLOCK in places:
        robot = replace(robot, use_sim_time=True)
    made = CellSetup(robot, factory, load_robot(robot.robot), frozenset(places), folder, proxy, control)
    for place in places:
        turn(made.switch(place))
    return made


class FaultyCell:
    """A running cell after `set_up`; a context manager around its `bringup`."""

    def __init__(
        self,
        made: CellSetup,
        logs: Path,
        last: bool = False,
        graph: Callable[[Robot], list[NodeSpec]] = robot_graph,
        serves: bool = True,
    ) -> None:
        """`last` as in `Bringup`. `graph`: the robot's nodes without faults. `serves`: with a server of its own."""
        self.setup = made
        self._healthy = graph
        self.bringup = Bringup(
            [made.robot],
            server=made.robot.config if serves else None,
            logs=logs,
            last=last,
            graph=self._graph,
        )

    def __enter__(self) -> FaultyCell:
        if self.setup.proxy:
            command = [sys.executable, "-m", "rosa_sim.faults.proxy", "--listen", self.setup.proxy]
            command += ["--gateway", self.setup.factory.gateway.bind, "--control", self.setup.control]
            self.bringup.supervisor.start(PROXY, command)
        self.bringup.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.bringup.__exit__(*exc)

    def _graph(self, robot: Robot) -> list[NodeSpec]:
        """The robot's nodes, with relay, faulty driver and clock where requested."""
        nodes = self._healthy(robot)
        namespace = nodes[0].namespace
        if ARM in self.setup.places:
            nodes = [self._faulty_arm(node) if node.executable == "arm_node" else node for node in nodes]
        if SENSORS in self.setup.places:
            parameters = {"robot": robot.robot, "control": str(self.setup.switch(SENSORS))}
            nodes = [
                replace(node, remap={**node.remap, **relay.remaps(self.setup.spec)})
                if node.is_runtime
                else node
                for node in nodes
            ]
            nodes.insert(0, NodeSpec("rosa_sim.faults.relay", "relay", namespace, parameters))
        if CLOCK in self.setup.places:
            parameters = {"control": str(self.setup.switch(CLOCK))}
            nodes.insert(0, NodeSpec("rosa_sim.faults.clock", "jumping_clock", namespace, parameters))
        return nodes

    def _faulty_arm(self, node: NodeSpec) -> NodeSpec:
        parameters = {**node.parameters, "control": str(self.setup.switch(ARM))}
        return replace(node, executable="rosa_sim.faults.arm", parameters=parameters)


def _with_faulty_model(source: Path, folder: Path, factory: Factory) -> Path:
    """The factory file with its System 1 model wrapped in one that can be spoiled."""
    document = yaml.safe_load(source.read_text())
    for name in {task.components[SYSTEM1].model for task in factory.tasks.values()}:
        inner = dict(document["models"][name])
        wrapped = {
            "inner": inner["backend"],
            "options": inner.get("options") or {},
            "control": str(folder / f"{WORKER}.json"),
        }
        document["models"][name] = {
            **inner,
            "backend": "rosa_sim.faults.backend:FaultyBackend",
            "options": wrapped,
        }
    path = folder / "factory.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path
