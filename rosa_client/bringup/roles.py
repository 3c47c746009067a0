"""What the end of a process means for the robots of a bring-up: nothing, the loss of one robot, or the end of all.

Pure; used by `bringup.py` and the launch files. A robot that has lost a node stops by itself: its runtime calls a human
when a camera or the arm is silent, and its arm holds when the runtime is. So its other nodes stay up to report it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from rosa_client.bringup.description import description_nodes
from rosa_client.bringup.graph import NodeSpec, Robot, recorder, robot_graph
from rosa_contract.process import ending


@dataclass(frozen=True)
class Roles:
    """Which robot needs which process. A process not listed here, such as the server, is needed by every robot."""

    robots: Mapping[str, frozenset[str]]  # robot -> its nodes
    spares: Mapping[str, str]  # a process that no robot needs -> what happens without it

    def lost(self, ended: Collection[str]) -> list[str]:
        """Robots that have lost a node."""
        return [robot for robot, nodes in self.robots.items() if nodes & set(ended)]

    def all_lost(self, ended: Mapping[str, int], words: Callable[[str], str] = lambda name: "") -> str:
        """Why no robot can work any more, with `ended` (process -> exit status); empty while one can.

        `words`: what a process said about its failure, added to how it ended.
        """
        owned = frozenset().union(*self.robots.values())
        fatal = [name for name in ended if name not in self.spares and name not in owned]
        if not fatal and len(self.lost(ended)) == len(self.robots):
            fatal = [name for name in ended if name in owned]
        reasons = {name: words(name) for name in fatal if ended[name] > 0}  # a killed process gave none
        return ", ".join(
            f"{name} {ending(ended[name])}" + (f": {reasons[name]}" if reasons.get(name) else "")
            for name in fatal
        )

    def explain(self, name: str, ended: Mapping[str, int]) -> str:
        """In words: how `name`, one of `ended`, ended, and what follows."""
        what = f"{name} {ending(ended[name])}"
        if name in self.spares:
            return f"{what}: {self.spares[name]}"
        if self.all_lost(ended):
            return f"{what}: no robot can work any more; everything ends"
        robot = next(robot for robot, nodes in self.robots.items() if name in nodes)
        others = [other for other in self.robots if other not in self.lost(ended)]
        return (
            f"{what}: {robot} is lost. It stops by itself, and its other nodes stay up for its operator;"
            f" {', '.join(others)} {'goes' if len(others) == 1 else 'go'} on"
        )


def roles_of(
    robots: Sequence[Robot],
    graph: Callable[[Robot], list[NodeSpec]] = robot_graph,
    panel: NodeSpec | None = None,
) -> Roles:
    """The roles in a bring-up of `robots` with the nodes of `graph`, their recorders and the panel."""
    spares = {
        recorder(robot).process: f"{robot.namespace} goes on unrecorded; {robot.record} has what came before"
        for robot in robots
        if robot.record
    }
    spares |= {
        node.process: f"{robot.namespace} goes on; its joints are missing in TF"
        for robot in robots
        for node in description_nodes(robot)
    }
    if panel is not None:
        spares[panel.process] = "robots go on; until it is started again, use `rosa operator`"
    return Roles(
        {robot.namespace: frozenset(node.process for node in graph(robot)) for robot in robots}, spares
    )
