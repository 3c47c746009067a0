"""What is looked at before the first process of a bring-up starts: each mistake is one line then, not one per node."""

from __future__ import annotations

from collections.abc import Sequence

from rosa_client.bringup.graph import Robot
from rosa_client.bringup.supervisor import BringupError
from rosa_client.greeting import robot_id_of
from rosa_contract.endpoint import endpoint_problem
from rosa_contract.errors import ContractError
from rosa_contract.keyfile import load_robot_keys


class PreflightError(BringupError):
    """These robots cannot be brought up as described; the text names the argument."""


def check_robots(robots: Sequence[Robot]) -> None:
    """Raise `PreflightError` for a gateway that cannot be, or keys that cannot be used."""
    for robot in robots:
        problem = endpoint_problem(robot.gateway, binds=False)
        if problem:
            raise PreflightError(f"gateway: {problem}")
        try:
            if robot.keys:
                load_robot_keys(robot.keys, robot_id_of(robot.namespace))
        except ContractError as error:
            raise PreflightError(f"keys: {error}") from None
