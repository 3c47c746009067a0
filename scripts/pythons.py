"""Server, scheduler, client and dashboard on each Python that is here: `make test-pythons`.

    python3 scripts/pythons.py [--only 3.12] [tests ...]

Each gets an environment in .venv-pythons/, with the pinned packages and without ROS, PyTorch and the simulator: what
a server for models in environments of their own, a client or a dashboard needs. Needs only the standard library.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from setup_steps import BOOTSTRAP_GUARD, ROOT, SetupError, Steps, digest, fresh_venv, run

VERSIONS = ("3.11", "3.12", "3.13")
FOLDER = ROOT / ".venv-pythons"
REQUIREMENTS = ROOT / "requirements"
TOOLS = ("hypothesis", "mcap", "pillow", "psutil", "pytest", "pytest-xdist")
LEAVES_OUT = "without"  # a plugin beside this file: tests that need ROS, PyTorch or the simulated cell
# What these look at is ROS, the drivers that need it, and the demo's models; they could not tell its absence.
WITH_ROS = (
    "tests/unit/contract/test_interrupt.py",
    "tests/unit/client/doctor/test_probes.py::test_a_driver_with_its_packages_has_no_problem",
    "tests/unit/client/doctor/test_probes.py::test_needs_are_those_that_rosa_check_knows",
    "tests/unit/client/doctor/test_probes.py::test_a_camera_that_a_model_needs_and_the_robot_lacks",
    "tests/system/examples/test_tutorials.py::test_a_checkpoint_becomes_a_factory_in_five_commands",
)
TESTS = (
    *("tests/unit/contract", "tests/unit/client", "tests/unit/server"),
    *("tests/system/python_client", "tests/system/dashboard", "tests/system/examples"),
)


def interpreter(version: str) -> str | None:
    """Of this version: of pyenv, or on the PATH."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = sorted(root.glob(f"versions/{version}.*/bin/python"))
    return str(found[-1]) if found else shutil.which(f"python{version}")


def wanted() -> list[str]:
    """The packages of the robot's link and of the server; models bring theirs."""
    lists = (REQUIREMENTS / f"{name}.txt" for name in ("base", "server"))
    return [line for each in lists for line in each.read_text().splitlines()]


def make(version: str, python: str) -> Path:
    """The environment of a version. Raises `SetupError` with what pip said."""
    venv = FOLDER / version
    packages = [*wanted(), *TOOLS]

    def install() -> None:
        pip = fresh_venv(venv, f"python-{version}", python)
        run([*pip, "-c", REQUIREMENTS / "constraints.txt", *packages], f"packages-{version}")
        # openpi's client declares far more than it needs.
        run([*pip, "--no-deps", "-c", REQUIREMENTS / "constraints.txt", "openpi-client"], f"peers-{version}")
        # For their commands; the code that is tested is that of here.
        wheels = ROOT / ".cache" / "wheels"
        run([sys.executable, ROOT / "scripts" / "release" / "wheels.py", "--folder", wheels], "wheels")
        run([*pip, "--no-deps", *sorted(wheels.glob("*.whl"))], f"rosa-{version}")

    wheels = ROOT / "scripts" / "release" / "wheels.py"
    key = digest(REQUIREMENTS / "constraints.txt", wheels, " ".join(packages), python)
    Steps(venv).step("packages", key, f"Python {version}: packages", install)
    return venv / "bin" / "python"


def tested(python: Path, tests: Sequence[str]) -> int:
    environment = {key: value for key, value in os.environ.items() if key != BOOTSTRAP_GUARD}
    path = os.pathsep.join(map(str, (ROOT, Path(__file__).parent)))
    options = [
        "-q",
        "-n0",
        "-p",
        "no:cacheprovider",
        "-p",
        LEAVES_OUT,
        *(f"--deselect={one}" for one in WITH_ROS),
    ]
    command = [python, "-m", "pytest", *options, *tests]
    return subprocess.run(command, cwd=ROOT, env={**environment, "PYTHONPATH": path}).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", choices=VERSIONS, help="this version")
    parser.add_argument("tests", nargs="*", default=TESTS, help="files or folders instead of the usual ones")
    options = parser.parse_args()
    results = {}
    for version in [options.only] if options.only else VERSIONS:
        python = interpreter(version)
        if python is None:
            results[version] = "not here"
            continue
        try:
            status = tested(make(version, python), options.tests)
        except SetupError as error:
            print(f"[setup] ERROR: {error}", file=sys.stderr)
            status = 1
        results[version] = "passed" if status == 0 else "FAILED"
    for version, outcome in results.items():
        print(f"Python {version}: {outcome}")
    return 1 if "FAILED" in results.values() else 0


if __name__ == "__main__":
    raise SystemExit(main())
