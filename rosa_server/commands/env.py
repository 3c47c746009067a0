"""`rosa env NAME`: a Python environment of a model's own, with a worker in it."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from shlex import join
from typing import Any, ClassVar

from rosa_contract.errors import CausedError
from rosa_contract.wording import nearest
from rosa_server.environments.table import ENVIRONMENTS
from rosa_server.environments.wheel import build_wheel, wheel_name
from rosa_server.serving.base.worker_spec import MIN_PYTHON

PIP_S = 3600.0  # torch is gigabytes, and lines are slow
LISTED = "rosa-env.txt"  # in the environment: what was installed, as pip writes it


class EnvError(CausedError):
    """An environment cannot be made."""

    CAUSES: ClassVar = {
        "unknown_environment": "no environment has this name",
        "no_python": "the interpreter does not run, or is too old",
        "pip_failed": "pip could not install the packages",
    }


def add_parser(commands: Any) -> argparse.ArgumentParser:
    known = "\n".join(f"  {name:14}{one.what}" for name, one in ENVIRONMENTS.items())
    parser: argparse.ArgumentParser = commands.add_parser(
        "env",
        help="create a Python environment for a model whose packages differ from the server's",
        description="Create a Python environment with a worker and a model's packages, and print the line to add to the"
        f" factory file. An existing environment is updated.\n\nNAME is one of\n{known}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", help="package set, see above")
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter, 3.10 or newer (default: this one)"
    )
    parser.add_argument(
        "--folder", type=Path, help="where to create it (default: rosa/NAME in the user's data folder)"
    )
    parser.add_argument(
        "--with",
        dest="extra",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="also install this package (a pip requirement)",
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be done without doing it")
    parser.add_argument(
        "--wheel",
        type=Path,
        metavar="FOLDER",
        help="only write the worker's wheel to FOLDER, to install on another machine",
    )
    return parser


def main(arguments: argparse.Namespace) -> int:
    if arguments.wheel is not None:
        arguments.wheel.mkdir(parents=True, exist_ok=True)
        print(build_wheel(arguments.wheel))
        return 0
    if arguments.name not in ENVIRONMENTS:
        words = f"no environment {arguments.name!r}{nearest(arguments.name, ENVIRONMENTS)}"
        raise EnvError("unknown_environment", f"{words}; there are {', '.join(ENVIRONMENTS)}")
    environment = ENVIRONMENTS[arguments.name]
    folder = (arguments.folder or data_folder() / arguments.name).absolute()
    python = folder / "bin" / "python"
    packages = [*environment.base, *environment.packages, *arguments.extra]
    print(
        f"{arguments.name}: {environment.what}\n  in {folder}, of {arguments.python}\n  installs {wheel_name()}"
    )
    print("\n".join(f"  installs {one}" for one in packages), flush=True)
    if arguments.dry_run:
        return 0
    check_python(arguments.python)
    if not python.exists():
        _run([arguments.python, "-m", "venv", str(folder)], "no_python")
    with tempfile.TemporaryDirectory(prefix="rosa-") as made:
        wheel = build_wheel(Path(made))
        # --no-deps: the packages are listed with their versions, and a model may pin others.
        _run([str(python), *_pip(), "--no-deps", "--force-reinstall", str(wheel)], "pip_failed")
        if packages:
            _run([str(python), *_pip(), *packages], "pip_failed")
    installed = _run([str(python), "-m", "pip", "--disable-pip-version-check", "freeze"], "pip_failed")
    (folder / LISTED).write_text(installed)
    print(
        f"{len(installed.splitlines())} packages; {folder / LISTED} lists them\nin the factory file, under the model:"
    )
    print(f"  python: {python}")
    return 0


def _pip() -> list[str]:
    return ["-m", "pip", "--disable-pip-version-check", "install", "--quiet"]


def data_folder() -> Path:
    """Where environments are unless somebody says otherwise."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "rosa"


def check_python(python: str) -> None:
    """Raise unless `python` runs and is new enough."""
    told = _run([python, "-c", "import sys; print(*sys.version_info[:3])"], "no_python").split()
    if tuple(map(int, told)) < MIN_PYTHON:
        needed = ".".join(map(str, MIN_PYTHON))
        raise EnvError("no_python", f"{python} is Python {'.'.join(told)}; a worker needs {needed} or newer")


def _run(command: list[str], cause: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_S, env=kept)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvError(cause, f"{join(command)}: {error}") from None
    if done.returncode != 0:
        last = "\n".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-8:])
        raise EnvError(cause, f"{join(command)} ended with status {done.returncode}:\n{last}")
    return done.stdout
