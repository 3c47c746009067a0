"""Where the controllers of an arm behind ros2_control are, as its robot file says."""

from __future__ import annotations

from rosa_client.drivers.arms.action_names import actions_of
from rosa_client.drivers.arms.ros2_control_rules import controllers_namespace, joint_states_topic, resolve
from rosa_contract.config.arms import JOINT_TRAJECTORY, Ros2ControlSettings, arm_settings
from rosa_contract.config.robot import RobotSpec

TAKES, GIVES = "takes", "gives"


def controllers_of(source: str, spec: RobotSpec, robot: str) -> dict[str, tuple[str, str]]:
    """Controller -> its topic, and whether it `TAKES` or `GIVES` what is sent there; empty for any other arm driver.

    `source`: the robot file, for errors; `robot`: its namespace. Raises `ConfigError`.
    """
    if spec.arm_driver != "ros2_control":
        return {}
    settings = arm_settings(source, spec.arm_driver, spec.arm)
    assert isinstance(settings, Ros2ControlSettings)
    place = resolve(controllers_namespace(robot, settings), settings.controller)
    commands = "joint_trajectory" if settings.command == JOINT_TRAJECTORY else "commands"
    return {
        place.rpartition("/")[2]: (f"{place}/{commands}", TAKES),
        "joint_state_broadcaster": (joint_states_topic(robot, settings), GIVES),
    }


def manager_of(source: str, spec: RobotSpec, robot: str) -> str:
    """The service that lists the controllers; empty for any other arm driver, and where none is to be asked.

    `source` and `robot` as above. Raises `ConfigError`.
    """
    if spec.arm_driver != "ros2_control":
        return ""
    settings = arm_settings(source, spec.arm_driver, spec.arm)
    assert isinstance(settings, Ros2ControlSettings)
    manager = settings.controller_manager
    return manager and f"{resolve(controllers_namespace(robot, settings), manager)}/list_controllers"


def gripper_actions_of(source: str, spec: RobotSpec, robot: str) -> dict[str, str]:
    """The actions that the gripper needs -> their types; empty for any other arm driver, and without a gripper.

    `source` and `robot` as above. Raises `ConfigError`.
    """
    if spec.arm_driver != "ros2_control":
        return {}
    settings = arm_settings(source, spec.arm_driver, spec.arm)
    assert isinstance(settings, Ros2ControlSettings)
    base, grippers = controllers_namespace(robot, settings), settings.grippers.values() or [settings.gripper]
    return {name: kind for one in grippers for name, kind in actions_of(base, one).items()}
