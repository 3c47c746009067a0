"""A whole factory file: its server, every robot of its fleet with its own task, and one operator panel for all.

ros2 launch rosa_client fleet.launch.py config:=configs/two_robots.yaml rviz:=true
"""

from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource

from rosa_client.bringup.arguments import ENTRIES, choices_of

SHARE = Path(get_package_share_directory("rosa_client"))
DEFAULTS = {
    "config": str(SHARE / "configs" / "two_robots.yaml"),
    "fleet": "true",
    "panel": "true",
    "start_server": "true",
}


def generate_launch_description() -> LaunchDescription:
    """`pick_place.launch.py` with other defaults; every argument of it can be given here too."""
    one = PythonLaunchDescriptionSource(str(SHARE / "launch" / "pick_place.launch.py"))
    # The first declaration of an argument sets its default.
    declared = [
        DeclareLaunchArgument(
            name, default_value=value, description=ENTRIES[name].metadata["doc"], choices=choices_of(name)
        )
        for name, value in DEFAULTS.items()
    ]
    return LaunchDescription([*declared, IncludeLaunchDescription(one)])
