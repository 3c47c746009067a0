"""What is looked at before the first process of a bring-up starts: each mistake is one line then, not one per node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from rosa_client.bringup.description import check_description
from rosa_client.bringup.graph import Cell, Robot
from rosa_client.bringup.supervisor import BringupError
from rosa_client.connection.greeting import robot_id_of
from rosa_client.operator.bases import parse_bases
from rosa_client.operator.layout import Base
from rosa_client.robot_check import robot_problems
from rosa_contract.config.factory import load_factory
from rosa_contract.config.robot import load_robot
from rosa_contract.endpoint import gateways_of, gateways_problem
from rosa_contract.errors import ConfigError, ContractError
from rosa_contract.keyfile import load_robot_keys


class PreflightError(BringupError):
    """These robots cannot be brought up as described; the text names the argument."""


def check_robots(robots: Sequence[Robot]) -> None:
    """Raise `PreflightError` for the first argument or file that no node could work with."""
    places: dict[Base, str] = {}
    for robot in robots:
        if problem := gateways_problem(robot.gateway):
            raise PreflightError(f"gateway: {problem}")
        _check("config", partial(_check_task, robot))
        _check("robot", partial(_check_robot, robot))
        _check("description", partial(check_description, robot))
        if robot.base:
            _check("base", partial(_check_base, robot, places))
        if robot.keys:
            _check("keys", partial(load_robot_keys, robot.keys, robot_id_of(robot.namespace)))


def check_server(robots: Sequence[Robot], cell: Cell) -> None:
    """Raise `PreflightError` where robots would look for the server that is started with them on another port."""
    if cell.start_server:
        for robot in robots:
            _check("config", partial(_check_port, robot))


def _check(argument: str, look: Callable[[], object]) -> None:
    try:
        look()
    except BringupError:
        raise
    except ContractError as error:
        raise PreflightError(f"{argument}: {error}") from None


def _check_task(robot: Robot) -> None:
    tasks = load_factory(robot.config).tasks
    if robot.task and robot.task not in tasks:
        raise PreflightError(f"task: no task {robot.task!r} in {robot.config}; known: {', '.join(tasks)}")


def _check_base(robot: Robot, places: dict[Base, str]) -> None:
    """`places`: where the robots before it stand, and this one from now on."""
    [place] = parse_bases(f"{robot.namespace}: {robot.base}").values()
    if (other := places.setdefault(place, robot.namespace)) != robot.namespace:
        raise PreflightError(
            f"base: {other} and {robot.namespace} would both stand at {robot.base}; leave it empty with fleet:=true, or"
            " bring each up by itself"
        )


def _check_robot(robot: Robot) -> None:
    if problems := robot_problems(load_robot(robot.robot)):
        raise ConfigError(robot.robot, problems)


def _check_port(robot: Robot) -> None:
    bind = load_factory(robot.config).gateway.bind
    port = bind.rpartition(":")[2]
    if bind.startswith("tcp://") and port != "*" and not gateways_of(robot.gateway)[0].endswith(f":{port}"):
        raise PreflightError(
            f"gateway: {robot.config} has its server listen on {bind}, and start_server starts that one;"
            f" expected port {port}, got {robot.gateway}"
        )
