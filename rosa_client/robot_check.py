"""What a robot's nodes would refuse of its file, said before they start: `rosa check` asks here."""

from __future__ import annotations

from collections.abc import Mapping

from rosa_client.drivers.arms import ARM_DRIVERS
from rosa_client.drivers.cameras import CAMERA_DRIVERS
from rosa_client.motion.limits import pose_problems
from rosa_contract.config.cameras import EXTERNAL, TOPIC, info_topic
from rosa_contract.config.robot import RobotSpec
from rosa_contract.errors import ConfigProblem
from rosa_contract.wording import nearest, shown


def robot_problems(spec: RobotSpec) -> list[ConfigProblem]:
    """One line per mistake: a driver that nobody has, a camera whose name is no part of a topic, a pose or the way
    between two outside the workspace."""
    cameras = {**CAMERA_DRIVERS, EXTERNAL: "another node publishes it"}
    drivers = [
        *_driver_problems("arm_driver", spec.arm_driver, ARM_DRIVERS),
        *_driver_problems("camera_driver", spec.camera_driver or EXTERNAL, cameras),
        *(
            problem
            for name, camera in spec.cameras.items()
            for problem in _driver_problems(f"cameras.{name}.driver", camera.driver or EXTERNAL, cameras)
        ),
    ]
    topics = [
        ConfigProblem(
            f"cameras.{name}", "invalid", f"expected a name that is valid in a ROS topic, got {topic}"
        )
        for name, topic in ((name, info_topic(name, camera)) for name, camera in spec.cameras.items())
        if not TOPIC.fullmatch(topic)
    ]
    places = (text.partition(": ") for text in pose_problems(spec))
    return drivers + topics + [ConfigProblem(path, "conflict", words) for path, _, words in places]


def _driver_problems(key: str, name: str, known: Mapping[str, str]) -> list[ConfigProblem]:
    """Only the name: a driver's package may be installed on the robot alone."""
    if name in known or ":" in name:
        return []
    words = f"no driver {shown(name)}{nearest(name, known)}; known: {', '.join(known)}, and module:Class"
    return [ConfigProblem(key, "unknown_name", words)]
