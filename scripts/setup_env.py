"""Set everything up: virtual environment, pinned packages, ROS 2, the interface package, the scene cache.

    python3 scripts/setup_env.py [--venv .venv]

Needs only the standard library. Every step is skipped when what it depends on has not changed, so a second run takes
well under a second. Where a ROS 2 is sourced (`import rclpy` works), that ROS 2 is used; elsewhere its wheels are.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Sequence
from ctypes.util import find_library
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INTERFACES = ROOT / "ros_ws" / "src" / "rosa_interfaces"
# Interfaces of ros2_control, Franka and TF that exist as packages of a ROS 2 installation, but not as wheels.
STAND_INS = ROOT / "ros_ws" / "stand_ins"
REQUIREMENTS = ROOT / "requirements"
# The wheels' executables start Python once more to find their libraries, and mark that with this variable. A child that
# runs in another environment must do the same, so it must not inherit the mark.
BOOTSTRAP_GUARD = "_ROS_WHEELS_BOOTSTRAP_COMPLETE"
OLDEST, WHEELS_PYTHON = (3, 11), (3, 11)


class SetupError(Exception):
    """What went wrong and what to do about it."""


def say(text: str) -> None:
    print(f"[setup] {text}", flush=True)


def run(
    command: Sequence[str | Path], step: str, cwd: Path = ROOT, env: dict[str, str] | None = None
) -> None:
    """Run `command`, its output in .cache/setup/<step>.log; show the end of that when it fails."""
    log = ROOT / ".cache" / "setup" / f"{step}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as out:
        done = subprocess.run(
            [str(c) for c in command], cwd=cwd, env=env, stdout=out, stderr=subprocess.STDOUT
        )
    if done.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
        raise SetupError(
            f"step '{step}' failed with status {done.returncode}: {' '.join(map(str, command))}\n"
            f"{tail}\n(the whole output is in {log.relative_to(ROOT)})"
        )


def digest(*parts: Path | str) -> str:
    """One hash of texts, files and whole folders (names and contents)."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            total.update(part.encode())
            continue
        for path in [part] if part.is_file() else sorted(p for p in part.rglob("*") if p.is_file()):
            total.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return total.hexdigest()


class Steps:
    """Runs a step only when its key differs from the one of its last success (kept in <venv>/rosa-setup.json)."""

    def __init__(self, venv: Path) -> None:
        self._file = venv / "rosa-setup.json"
        self._done: dict[str, str] = json.loads(self._file.read_text()) if self._file.exists() else {}

    def step(self, name: str, key: str, what: str, action: Callable[[], None]) -> None:
        if self._done.get(name) == key:
            return
        say(f"{what} ...")
        begin_s = time.monotonic()
        action()
        self._done[name] = key
        self._file.write_text(json.dumps(self._done, indent=1))
        say(f"{what}: done in {time.monotonic() - begin_s:.0f} s")


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
            "source /opt/ros/kilted/setup.bash"
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


def install_packages(python: Path, with_ros: bool) -> None:
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off"]
    constraints = REQUIREMENTS / "constraints.txt"
    if with_ros:
        constraints = constraints_beside_ros(python)
    # The robot's packages come from rosdep where there is a ROS 2; pip then finds them installed and leaves them.
    lists = ["base", "server", "sim", "dev"] + ([] if with_ros else ["ros", "build"])
    wanted = [arg for name in lists for arg in ("-r", REQUIREMENTS / f"{name}.txt")]
    run([*pip, "-c", constraints, *wanted], "packages")
    run([*pip, "-c", constraints, "--no-deps", "-r", REQUIREMENTS / "no-deps.txt"], "packages-no-deps")


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


def build_stand_ins(venv: Path, python: Path) -> None:
    """The same for the interfaces of ros2_control, Franka and TF, as far as the tests and the demo need them."""
    correct_wheel_paths(venv, python)
    for package in sorted(path.parent for path in STAND_INS.glob("*/package.xml")):
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
    venv: Path = parser.parse_args().venv.resolve()
    python = venv / "bin" / "python"
    with_ros = ros_is_sourced()
    try:
        check_machine(with_ros)
        if missing := missing_system_packages(with_ros):
            install_system_packages(missing)
        make_venv(venv, with_ros)
        steps = Steps(venv)
        here = f"{platform.python_version()} {os.environ.get('ROS_DISTRO') if with_ros else 'wheels'} {venv}"
        steps.step(
            "packages",
            digest(REQUIREMENTS, here),
            "installing pinned packages (about a gigabyte the first time)",
            lambda: install_packages(python, with_ros),
        )
        steps.step(
            "interfaces",
            digest(INTERFACES, REQUIREMENTS, here),
            "building the ROS 2 interface package",
            lambda: (build_interfaces_with_colcon if with_ros else build_interfaces_for_wheels)(venv, python),
        )
        if not with_ros:
            steps.step(
                "stand-ins",
                digest(STAND_INS, REQUIREMENTS / "ros.txt", REQUIREMENTS / "build.txt", here),
                "building stand-ins for the interfaces of ros2_control, Franka and TF",
                lambda: build_stand_ins(venv, python),
            )
        steps.step(
            "rosa",
            digest(ROOT / "setup.py", ROOT / "setup.cfg", here),
            "installing the ROSA packages in place",
            lambda: install_rosa(python),
        )
        scene = [ROOT / "rosa_sim" / "cell" / "scene.py", ROOT / "hardware"]
        steps.step(
            "scene",
            digest(*scene, REQUIREMENTS),
            "preparing the simulated scene",
            lambda: scene_cache(python),
        )
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
