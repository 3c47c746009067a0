"""Generate and compile the ROS 2 interface packages: by plain CMake against the wheels, by colcon beside a ROS 2."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from setup_steps import BOOTSTRAP_GUARD, ROOT, SetupError, run

INTERFACES = ROOT / "ros_ws" / "src" / "rosa_interfaces"
# Interfaces of ros2_control, Franka, nav2 and TF that exist as packages of a ROS 2 installation, but not as wheels.
STAND_INS = ROOT / "ros_ws" / "stand_ins"
UNITE = ROOT / "scripts" / "unite.cmake"


def correct_wheel_paths(venv: Path, python: Path) -> None:
    """The wheels' CMake files name the include folders of the machine that built them; write this machine's instead."""
    probe = "import numpy, sysconfig; print(sysconfig.get_paths()['include']); print(numpy.get_include())"
    shown = subprocess.run(
        [str(python), "-c", probe], capture_output=True, text=True, check=True
    ).stdout.split("\n")
    python_include, numpy_include = shown[0], shown[1]
    for path in sorted(venv.glob("share/*/cmake/*Export.cmake")):
        text = path.read_text()
        fixed = re.sub(r"/opt/python/[^;\"]*/numpy/_core/include", numpy_include, text)
        fixed = re.sub(r"/opt/python/[^;\"]*/include/python3\.\d+", python_include, fixed)
        if fixed != text:
            path.write_text(fixed)


def build_interfaces_for_wheels(venv: Path, python: Path) -> None:
    """Generate and compile rosa_interfaces into the virtual environment; nothing has to be sourced afterwards."""
    correct_wheel_paths(venv, python)
    build_package_for_wheels(INTERFACES, venv, python)
    check_interfaces(python)


def build_stand_ins(venv: Path, python: Path, only: Sequence[str] = ()) -> None:
    """The same for the interfaces of ros2_control, Franka, nav2 and TF, as far as the tests and the demo need them.

    `only`: these; empty: all.
    """
    correct_wheel_paths(venv, python)
    for package in sorted(path.parent for path in STAND_INS.glob("*/package.xml")):
        if not only or package.name in only:
            build_package_for_wheels(package, venv, python)


def build_package_for_wheels(source: Path, venv: Path, python: Path) -> None:
    """One interface package, by plain CMake."""
    build = ROOT / ".cache" / "build" / source.name
    shutil.rmtree(build, ignore_errors=True)
    env = {k: v for k, v in os.environ.items() if k not in {BOOTSTRAP_GUARD, "PYTHONPATH"}}
    env |= {
        "PATH": f"{venv / 'bin'}:{os.environ['PATH']}",
        "CMAKE_PREFIX_PATH": str(venv),
        "AMENT_PREFIX_PATH": str(venv),
    }
    cmake = venv / "bin" / "cmake"
    configure = [cmake, "-G", "Ninja", "-S", source, "-B", build, f"-DCMAKE_INSTALL_PREFIX={venv}"]
    options = [
        f"-DPython3_EXECUTABLE={python}",
        "-DBUILD_TESTING=OFF",
        "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_PROJECT_{INTERFACES.name}_INCLUDE={UNITE}",
        "-Wno-dev",
    ]
    run([*configure, *options], f"{source.name}-configure", env=env)
    run([cmake, "--build", build], f"{source.name}-build", env=env)
    run([cmake, "--install", build], f"{source.name}-install", env=env)


def build_interfaces_with_colcon(venv: Path, python: Path) -> None:
    """Beside an installed ROS 2, colcon builds the package; the Makefile sources <venv>/rosa_ros/local_setup.sh."""
    if shutil.which("colcon") is None:
        raise SetupError("colcon is missing: sudo apt-get install python3-colcon-common-extensions")
    build, install = ROOT / ".cache" / "build" / "colcon", venv / "rosa_ros"
    base = [
        "--log-base",
        build / "log",
        "build",
        "--merge-install",
        "--build-base",
        build,
        "--install-base",
        install,
    ]
    env = {k: v for k, v in os.environ.items() if k != BOOTSTRAP_GUARD}
    arguments = ["--cmake-args", "-DBUILD_TESTING=OFF", f"-DPython3_EXECUTABLE={sys.executable}"]
    run(["colcon", *base, "--base-paths", INTERFACES, *arguments], "interfaces-colcon", env=env)


def check_interfaces(python: Path) -> None:
    env = {k: v for k, v in os.environ.items() if k != BOOTSTRAP_GUARD}
    load = "from rosa_interfaces.msg import ArmCommand; ArmCommand.__class__.__import_type_support__()"
    run([python, "-c", load], "interfaces-check", env=env)
