"""Packaging of the four ROSA packages, for pip (`pip install -e .`) and for colcon (ament_python).

Tool settings are in pyproject.toml; the pinned versions of a development machine are in requirements/.
"""

import sys
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.install_scripts import install_scripts

ROOT = Path(__file__).parent
SHARE = "share/rosa_client"


def requirements(*names: str) -> list[str]:
    """The direct dependencies of requirements/<name>.txt; colcon ignores them, rosdep reads package.xml."""
    return [
        line for name in names for line in (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
    ]


def shared(folder: str) -> list[tuple[str, list[str]]]:
    """Every file under `folder`, installed below share/rosa_client with its path kept."""
    by_folder: dict[str, list[str]] = {}
    for path in sorted((ROOT / folder).rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            relative = path.relative_to(ROOT)
            by_folder.setdefault(f"{SHARE}/{relative.parent}", []).append(str(relative))
    return list(by_folder.items())


# What puts `rosa` on the PATH of a sourced workspace. pip makes a program of that name itself.
FOR_PIP = {"bdist_wheel", "dist_info", "editable_wheel"} & set(sys.argv)
PROGRAMS = [] if FOR_PIP else [("bin", ["resource/bin/rosa"])]


class InstallScripts(install_scripts):
    """Names the interpreter in the first line of the nodes' programs; for wheels, pip does."""

    def run(self) -> None:
        super().run()
        for path in [] if FOR_PIP else map(Path, self.get_outputs()):
            text = path.read_text()
            if text.startswith("#!python"):
                path.write_text(text.replace("#!python", f"#!{sys.executable}", 1))


setup(
    name="rosa_client",
    version="0.1.0",
    description="ROSA: serve robotics foundation models to a fleet of robots from a shared pool of GPUs",
    license="Apache-2.0",
    maintainer="ROSA maintainers",
    # A placeholder: ROS packaging asks for an address, and the project has none of its own yet.
    maintainer_email="maintainers@example.com",
    packages=find_packages(include=["rosa_contract*", "rosa_client*", "rosa_server*", "rosa_sim*"]),
    package_data={
        "": ["py.typed", "**/*.safetensors", "**/*.json", "**/*.yaml", "**/*.xml", "**/*.md"],
        "rosa_server": ["dashboard/page/**/*"],
    },
    data_files=[
        ("share/ament_index/resource_index/packages", ["resource/rosa_client"]),
        (SHARE, ["package.xml"]),
        *PROGRAMS,
        *shared("launch"),
        *shared("configs"),
        *shared("hardware"),
    ],
    python_requires=">=3.11",
    install_requires=requirements("base"),
    extras_require={
        "server": requirements("server", "torch"),
        "sim": requirements("sim"),
        "dev": requirements("dev"),
        "franka": requirements("franka"),
        "ray": requirements("ray"),
        "transformers": requirements("transformers"),
    },
    scripts=[f"resource/nodes/{node}_node" for node in ("arm", "camera", "operator", "recorder", "runtime")],
    cmdclass={"install_scripts": InstallScripts},
    entry_points={
        "console_scripts": [
            "rosa = rosa_server.cli:main",
        ],
        # Commands of `rosa` from packages that the server must not import.
        "rosa.commands": [
            "bench = rosa_sim.fleet.command",
            "calibrate = rosa_client.commands.calibrate",
            "doctor = rosa_client.commands.doctor",
            "operator = rosa_client.commands.operator",
            "run = rosa_client.commands.run",
        ],
        # What `rosa doctor` asks of the server's package: factory file, robot file -> tasks that the robot fits.
        "rosa.fit_checks": ["models = rosa_server.commands.check:fits"],
        # What `rosa check` asks of the robot's package about a robot file: spec -> problems.
        "rosa.robot_checks": ["drivers_and_poses = rosa_client.robot_check:robot_problems"],
    },
    zip_safe=False,
)
