"""Set everything up: virtual environment, pinned packages, ROS 2, the interface package, the scene cache.

    python3 scripts/setup_env.py [--venv .venv] [--demo]

Needs only the standard library. Every step is skipped when what it depends on has not changed, so a second run takes
well under a second. Where a ROS 2 is sourced (`import rclpy` works), that ROS 2 is used; elsewhere its wheels are.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from ctypes.util import find_library
from pathlib import Path

from build_interfaces import (
    INTERFACES,
    STAND_INS,
    build_interfaces_for_wheels,
    build_interfaces_with_colcon,
    build_stand_ins,
)
from setup_steps import BOOTSTRAP_GUARD, ROOT, SetupError, Steps, digest, run, say

REQUIREMENTS = ROOT / "requirements"
BROWSER = ("chromium", "chromedriver")
NO_BROWSER = (
    "no browser is here, so tests of the dashboard's page will be skipped:"
    " sudo apt-get install --no-install-recommends chromium chromium-driver"
)
OF_DEMO = (
    "bond",
    "tf2_msgs",
)  # stand-ins of which the demo's nodes make use; the others are for other drivers
OLDEST, WHEELS_PYTHON = (3, 11), (3, 11)


def ros_is_sourced() -> bool:
    return "ROS_DISTRO" in os.environ and importlib.util.find_spec("rclpy") is not None


def check_machine(with_ros: bool) -> None:
    found = sys.version_info[:2]
    text = ".".join(map(str, found))
    if found < OLDEST:
        raise SetupError(
            f"Python {text} is too old: 3.11 or newer is needed (make PYTHON=/path/to/python3.11 ...)"
        )
    if with_ros:
        return
    if found != WHEELS_PYTHON or platform.system() != "Linux" or platform.machine() != "x86_64":
        raise SetupError(
            f"without an installed ROS 2, ROSA uses the ROS 2 wheels, which are for Python 3.11 on Linux x86_64; "
            f"this is Python {text} on {platform.system()} {platform.machine()}. "
            "Give another Python (make PYTHON=python3.11 ...) or source a ROS 2 first: "
            "source /opt/ros/kilted/setup.bash. "
            "Server, scheduler, client and dashboard need no ROS and run on Python 3.11 to 3.13: "
            "pip install -c requirements/constraints.txt '.[server]'; robot nodes and `make demo` do not"
        )


def missing_system_packages(with_ros: bool) -> list[str]:
    """Missing Debian packages that set-up or rendering needs (rendering: EGL or OSMesa)."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    missing = []
    if importlib.util.find_spec("ensurepip") is None or importlib.util.find_spec("venv") is None:
        missing.append(f"{version}-venv")
    if not with_ros and not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        missing.append(f"{version}-dev")
    if shutil.which("c++") is None and shutil.which("g++") is None:
        missing.append("g++")
    if find_library("EGL") is None:
        missing.append("libegl1")
    if find_library("OSMesa") is None:
        missing.append("libosmesa6")
    if not any(Path("/usr/lib").glob("*/dri/swrast_dri.so")) and not any(
        Path("/usr/lib").glob("*/libgallium*")
    ):
        missing.append("libgl1-mesa-dri")
    return missing


def install_system_packages(packages: list[str]) -> None:
    """Install with apt as root on Debian; otherwise name the one command that a person has to run."""
    command = f"apt-get update && apt-get install -y --no-install-recommends {' '.join(packages)}"
    if shutil.which("apt-get") is None:
        raise SetupError(
            f"system packages are missing; install these (Debian names) or their equivalents: {' '.join(packages)}"
        )
    if os.geteuid() != 0:
        raise SetupError(
            f"system packages are missing; run this once, then try again:\n    sudo sh -c '{command}'"
        )
    say(f"installing system packages: {' '.join(packages)} ...")
    run(["sh", "-c", command], "apt", env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})


def make_venv(venv: Path, with_ros: bool) -> None:
    """Make `venv`, or keep it when it works and has the wanted Python."""
    python = venv / "bin" / "python"
    wanted = f"{sys.version_info.major}.{sys.version_info.minor}"
    if python.exists():
        probe = [python, "-c", "import pip, sys; print('%d.%d' % sys.version_info[:2])"]
        found = subprocess.run([str(c) for c in probe], capture_output=True, text=True).stdout.strip()
        if found == wanted:
            return
        raise SetupError(
            f"{venv} holds Python {found or 'without pip'}, not {wanted}: remove it (make clean-all)"
        )
    sharing = ["--system-site-packages"] if with_ros else []
    run([sys.executable, "-m", "venv", *sharing, venv], "venv")


def install_packages(
    python: Path, with_ros: bool, lists: Sequence[str], no_deps: bool = False, aside: Path | None = None
) -> None:
    """What the lists in `requirements/` name, in the pinned versions.

    `aside`: into this folder, with all that they need, whatever the environment has.
    """
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off"]
    if aside is not None:
        pip += ["--ignore-installed", "--prefix", aside]
    # The robot's packages come from rosdep where there is a ROS 2; pip then finds them installed and leaves them.
    constraints = constraints_beside_ros(python) if with_ros else REQUIREMENTS / "constraints.txt"
    wanted = [arg for name in lists for arg in ("-r", REQUIREMENTS / f"{name}.txt")]
    run([*pip, "-c", constraints, *wanted, *(["--no-deps"] if no_deps else [])], f"packages-{lists[0]}")


def install_the_rest(python: Path, with_ros: bool, demo: bool, aside: Path | None = None) -> None:
    install_packages(python, with_ros, ["server", "torch", "sim", *([] if demo else ["dev"])], aside=aside)
    install_packages(python, with_ros, ["no-deps"], no_deps=True, aside=aside)


def rest(
    steps: Steps, venv: Path, with_ros: bool, here: str, demo: bool, robot_packages: Future[None] | None
) -> None:
    """The packages of server and simulation, and, save for the demo, those of tests and benchmarks.

    `robot_packages`: another pip installs these into the new environment meanwhile. Two in one environment would read
    each other's half-written packages, so this one installs into a folder of its own, whose files are moved.
    """
    python, key = venv / "bin" / "python", digest(REQUIREMENTS, here)
    if demo and steps.has("packages", key):
        return  # and more

    def install() -> None:
        if robot_packages is None:
            install_the_rest(python, with_ros, demo)
            return
        aside = venv / "aside"
        shutil.rmtree(aside, ignore_errors=True)
        install_the_rest(python, with_ros, demo, aside)
        robot_packages.result()
        move_into(venv, aside)
        shutil.rmtree(aside)

    steps.step(
        "demo packages" if demo else "packages",
        key,
        "installing the packages of server and simulation (a gigabyte and more the first time)",
        install,
    )


def move_into(folder: Path, aside: Path) -> None:
    """Every file of `aside`. What says that a package is there comes last, so that pip repairs what was interrupted."""
    files = [path for path in aside.rglob("*") if not path.is_dir()]
    for path in sorted(files, key=lambda path: (".dist-info" in str(path), path)):
        target = folder / path.relative_to(aside)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)


def build_interfaces(steps: Steps, venv: Path, python: Path, with_ros: bool, here: str, demo: bool) -> None:
    pins = (REQUIREMENTS / "constraints.txt").read_text().splitlines()
    built_with = "\n".join(pin for pin in pins if pin.startswith(("ros-", "numpy==")))
    steps.step(
        "interfaces",
        digest(INTERFACES, built_with, here),
        "building the ROS 2 interface package",
        lambda: (build_interfaces_with_colcon if with_ros else build_interfaces_for_wheels)(venv, python),
    )
    key = digest(STAND_INS, built_with, here)
    if with_ros or (demo and steps.has("stand-ins", key)):
        return
    steps.step(
        "demo stand-ins" if demo else "stand-ins",
        key,
        f"building stand-ins for the interfaces of {'nav2 and TF' if demo else 'ros2_control, Franka, nav2 and TF'}",
        lambda: build_stand_ins(venv, python, OF_DEMO if demo else ()),
    )


def install_robot_packages(steps: Steps, python: Path, with_ros: bool, here: str) -> None:
    lists = ["base"] if with_ros else ["base", "ros", "build"]
    steps.step(
        "robot packages",
        digest(*(REQUIREMENTS / f"{name}.txt" for name in (*lists, "constraints")), here),
        "installing the packages of the robot side",
        lambda: install_packages(python, with_ros, lists),
    )


def robot_side(
    steps: Steps, venv: Path, with_ros: bool, here: str, demo: bool, robot_packages: Future[None]
) -> None:
    """What is built with the robot's packages, once they are there."""
    robot_packages.result()
    build_interfaces(steps, venv, venv / "bin" / "python", with_ros, here, demo)
    steps.step(
        "rosa",
        digest(ROOT / "setup.py", ROOT / "setup.cfg", here),
        "installing the ROSA packages in place",
        lambda: install_rosa(venv / "bin" / "python"),
    )


def server_side(
    steps: Steps, venv: Path, with_ros: bool, here: str, demo: bool, robot_packages: Future[None] | None
) -> None:
    """The packages of server and simulation, and what is made with them."""
    rest(steps, venv, with_ros, here, demo, robot_packages)
    steps.step(
        "scene",
        digest(ROOT / "rosa_sim" / "cell" / "scene.py", ROOT / "hardware", REQUIREMENTS),
        "preparing the simulated scene",
        lambda: scene_cache(venv / "bin" / "python"),
    )


def constraints_beside_ros(python: Path) -> Path:
    """The pins without what the installed ROS 2 brings: its compiled messages need the numpy they were built with."""
    probe = "import importlib.metadata as m; print('\\n'.join(f'{d.name}=={d.version}' for d in m.distributions()))"
    environment = {k: v for k, v in os.environ.items() if k != BOOTSTRAP_GUARD}
    listed = subprocess.run(
        [sys.executable, "-c", probe], env=environment, capture_output=True, text=True, check=True
    )
    installed = {line.split("==")[0].lower().replace("_", "-"): line for line in listed.stdout.split()}
    if "numpy" not in installed:
        raise SetupError("the sourced ROS 2 has no numpy: sudo apt-get install python3-numpy")
    kept = [installed["numpy"]]
    for line in (REQUIREMENTS / "constraints.txt").read_text().split():
        name = line.split("==")[0].lower().replace("_", "-")
        # OpenCV's newest wheels ask for numpy 2; without a pin pip picks one that fits.
        if name not in installed and name not in {"numpy", "opencv-python-headless"}:
            kept.append(line)
    path = ROOT / ".cache" / "setup" / "constraints-beside-ros.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(kept) + "\n")
    return path


def install_rosa(python: Path) -> None:
    """The four packages in place (a plain path entry, so that new modules are found) with their executables."""
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"]
    run([*pip, "--config-settings", "editable_mode=compat", "-e", ROOT], "rosa")


def mention_browser(steps: Steps) -> None:
    """Only tests of the dashboard need one, so nobody is made to install it."""
    if not all(shutil.which(name) for name in BROWSER):
        steps.once("browser", NO_BROWSER)


def scene_cache(python: Path) -> None:
    env = {k: v for k, v in os.environ.items() if k != BOOTSTRAP_GUARD}
    run([python, "-m", "rosa_sim.cell.scene"], "scene", env=env)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--venv", type=Path, default=ROOT / ".venv", help="virtual environment to make or to complete"
    )
    parser.add_argument(
        "--demo", action="store_true", help="only what the demo needs; the rest comes with the next set-up"
    )
    arguments = parser.parse_args()
    demo: bool = arguments.demo
    venv: Path = arguments.venv.resolve()
    python = venv / "bin" / "python"
    with_ros = ros_is_sourced()
    begin_s = time.monotonic()
    try:
        check_machine(with_ros)
        if missing := missing_system_packages(with_ros):
            install_system_packages(missing)
        make_venv(venv, with_ros)
        steps = Steps(venv)
        here = f"{platform.python_version()} {os.environ.get('ROS_DISTRO') if with_ros else 'wheels'} {venv}"
        is_new = not steps.any() and not with_ros
        # One pip, then the compiler, beside another pip: half of what the robot's side does waits for the other half.
        with ThreadPoolExecutor() as side_by_side:
            robot_packages = side_by_side.submit(install_robot_packages, steps, python, with_ros, here)
            if not is_new:
                robot_packages.result()
            both = [
                side_by_side.submit(
                    server_side, steps, venv, with_ros, here, demo, robot_packages if is_new else None
                ),
                side_by_side.submit(robot_side, steps, venv, with_ros, here, demo, robot_packages),
            ]
        for each in both:
            each.result()
        if is_new:
            say(f"all of it in {time.monotonic() - begin_s:.0f} s")
        if not demo:
            mention_browser(steps)
    except SetupError as error:
        print(f"[setup] ERROR: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    try:
        status = main()
    except KeyboardInterrupt:
        status = 130  # what shells expect after Ctrl-C
    sys.exit(status)
