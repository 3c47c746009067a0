"""Build both ROS 2 packages with colcon in a workspace of their own, as on a robot, and check what was installed.

    python scripts/colcon_build.py [--workspace .cache/colcon] [--reuse]

Without an installed ROS 2 it builds against the wheels of this virtual environment. Compiling the interfaces takes most
of the time. With `--reuse`, colcon builds in the folder in which `make setup` has compiled them with the same options:
it configures and installs them, and compiles what has changed since.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from build_interfaces import INTERFACES, correct_wheel_paths
from setup_env import ros_is_sourced
from setup_steps import BOOTSTRAP_GUARD, ROOT, SetupError, run

SETUP_BUILD = ROOT / ".cache" / "build"
INSTALLED = (
    "bin/rosa",
    "lib/rosa_client/arm_node",
    "lib/rosa_client/camera_node",
    "lib/rosa_client/runtime_node",
    "lib/rosa_client/recorder_node",
    "lib/rosa_client/rosa",
    "share/ament_index/resource_index/packages/rosa_client",
    "share/ament_index/resource_index/packages/rosa_interfaces",
    "share/rosa_client/package.xml",
    "share/rosa_client/launch/pick_place.launch.py",
    "share/rosa_client/configs/factory.yaml",
    "share/rosa_client/configs/robots/panda.yaml",
    "share/rosa_client/configs/dds/fastdds.xml",
    "share/rosa_client/configs/dds/fastdds_arm.xml",
    "share/rosa_client/hardware/panda/scene.yaml",
    "share/rosa_interfaces/msg/ArmCommand.msg",
)


def compiled() -> Path | None:
    """The build folder of `make setup` when it holds the compiled interfaces of this checkout."""
    cache = SETUP_BUILD / INTERFACES.name / "CMakeCache.txt"
    here = f"CMAKE_CACHEFILE_DIR:INTERNAL={cache.parent}"
    return SETUP_BUILD if cache.exists() and here in cache.read_text().splitlines() else None


def build(workspace: Path, build_base: Path) -> Path:
    """Build into `workspace`/install, whose path is returned; raises `SetupError` when anything is missing there."""
    prefix = Path(sys.prefix)
    env = {k: v for k, v in os.environ.items() if k != BOOTSTRAP_GUARD}
    if not ros_is_sourced():
        correct_wheel_paths(prefix, Path(sys.executable))
        env |= {"CMAKE_PREFIX_PATH": str(prefix), "AMENT_PREFIX_PATH": str(prefix)}
        env["PATH"] = f"{prefix / 'bin'}:{env['PATH']}"
    install = workspace / "install"
    command = ["colcon", "--log-base", workspace / "log", "build", "--merge-install"]
    command += ["--build-base", build_base, "--install-base", install]
    # Else a folder that was configured before would be installed where it was then.
    command += ["--cmake-force-configure"]
    command += ["--paths", ROOT, INTERFACES, "--cmake-args", "-G", "Ninja", "-DBUILD_TESTING=OFF"]
    command += ["-DCMAKE_BUILD_TYPE=Release", "-Wno-dev", f"-DPython3_EXECUTABLE={sys.executable}"]
    run(command, "colcon", env=env)
    check(install, env)
    return install


def check(install: Path, env: dict[str, str]) -> None:
    missing = [name for name in INSTALLED if not (install / name).exists()]
    if missing:
        raise SetupError(f"colcon did not install {', '.join(missing)} in {install}")
    # As a user does: source the workspace, then use it. The checkout is not on the path.
    load = "import rosa_client as m; from rosa_interfaces.msg import ArmCommand as A; A(); print(m.__file__)"
    shell = f". {install / 'local_setup.sh'} && cd / && {sys.executable} -c '{load}'"
    found = subprocess.run(["sh", "-c", shell], env=env, capture_output=True, text=True)
    if found.returncode != 0:
        raise SetupError(f"the built workspace cannot be used: {found.stderr.strip()}")
    # A node's program is silent on a Ctrl-C before Python has found its packages only with these options.
    first = (install / "lib/rosa_client/arm_node").read_text().split("\n")[0]
    if first != f"#!{sys.executable} -SP":
        raise SetupError(f"lib/rosa_client/arm_node begins with {first!r}")
    node = f"{install}/lib/rosa_client/arm_node --ros-args -p autostart:=true"
    shell = f". {install / 'local_setup.sh'} && cd / && {node}"
    found = subprocess.run(["sh", "-c", shell], env=env, capture_output=True, text=True, timeout=60)
    if found.returncode != 2:  # as without a robot file
        raise SetupError(f"arm_node does not start: {found.stdout}{found.stderr}")
    on_path = (
        f". {install / 'local_setup.sh'} && cd / && command -v rosa && rosa check {ROOT}/configs/factory.yaml"
    )
    found = subprocess.run(["sh", "-c", on_path], env=env, capture_output=True, text=True)
    if found.returncode != 0 or found.stdout.splitlines()[0] != str(install / "bin" / "rosa"):
        raise SetupError(f"`rosa` is not on the PATH of the workspace: {found.stdout}{found.stderr}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("--workspace", type=Path, default=ROOT / ".cache" / "colcon", help="where to build")
    parser.add_argument("--reuse", action="store_true", help="what `make setup` has compiled")
    arguments = parser.parse_args()
    workspace = arguments.workspace.resolve()
    build_base = (compiled() if arguments.reuse else None) or workspace / "build"
    try:
        print(f"built and checked: {build(workspace, build_base)}")
    except SetupError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
