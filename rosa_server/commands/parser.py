"""The command line of `rosa`: which commands there are, and how a mistake ends."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from rosa_contract.errors import ContractError
from rosa_contract.shipped import from_wheel
from rosa_contract.wording import nearest

DISTRIBUTIONS = (
    "rosa-serving",
    "rosa_client",
)  # of wheels; of a clone or a ROS workspace, which hold everything
# Packages that a command may lack, and what pip calls those of another name. Any other is ROSA's own, and on no index.
PUBLIC = (
    *(
        "matplotlib",
        "mcap",
        "msgpack",
        "mujoco",
        "numpy",
        "ortools",
        "prometheus_client",
        "ray",
        "safetensors",
    ),
    *("starlette", "torch", "transformers", "uvicorn", "websockets"),
)
PIP_NAMES = {"cv2": "opencv-python-headless", "PIL": "pillow", "yaml": "PyYAML", "zmq": "pyzmq"}
MODULES = {
    "serve": "rosa_server.commands.serve",
    "check": "rosa_server.commands.check",
    "try": "rosa_server.commands.try_model",
    "models": "rosa_server.commands.models",
    "env": "rosa_server.commands.env",
    "keys": "rosa_server.commands.keys",
    "up": "rosa_server.commands.up",
    "down": "rosa_server.commands.down",
    "robots": "rosa_server.commands.live.robots",
    "drain": "rosa_server.commands.live.drain",
    "undrain": "rosa_server.commands.live.undrain",
    "rollout": "rosa_server.commands.live.rollout",
    "reschedule": "rosa_server.commands.live.reschedule",
    "scale": "rosa_server.commands.live.scale",
    "cancel": "rosa_server.commands.live.cancel",
    "remove": "rosa_server.commands.live.remove",
    "admit": "rosa_server.commands.live.admit",
    "dashboard": "rosa_server.commands.dashboard",
    "view": "rosa_server.commands.view",
    "completion": "rosa_server.completion",
    "plan": "rosa_server.scheduler.commands.plan",
    "profile": "rosa_server.scheduler.commands.profile",
}

WHEEL_OF = {"bench": "rosa-sim"}  # commands of wheels that may not be installed


def run(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0, or 2 for wrong input, which is explained on standard error."""
    words = sys.argv[1:] if argv is None else argv
    command = words[0] if words else ""
    if wheel := _elsewhere(command):
        print(f"rosa {command}: {from_wheel(wheel)}", file=sys.stderr)
        return 2
    if hint := _unknown(command):
        print(f"rosa {command}: {hint}", file=sys.stderr)
        return 2
    try:
        arguments = parser_for(command).parse_args(argv)
        return int(arguments.run(arguments))
    except ContractError as error:
        print(f"rosa {command}: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        print(f"rosa {command}: not available here: {_missing(command, error)}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # as in `rosa plan ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


class Version(argparse.Action):
    """As argparse's own, but the packages are asked only when somebody wants to know."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from rosa_server.serving.base.compiled import compiled

        print(f"rosa {installed_version()}{' (compiled)' if compiled() else ''}")
        parser.exit()


def parser_for(command: str = "") -> argparse.ArgumentParser:
    """The parser of one command, or of all of them. Raises `ImportError` where the one asked for cannot be imported."""
    parser = argparse.ArgumentParser(
        prog="rosa", description="ROSA: serve robotics foundation models to a fleet of robots"
    )
    parser.add_argument("--version", action=Version, help="show program's version number and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in _modules(command):
        made = module.add_parser(commands)
        if made is not None:
            made.set_defaults(run=module.main)
    return parser


def _modules(command: str) -> list[Any]:
    """Ours, the scheduler's, and those of other packages, which the server must not import, by entry point.

    Of a command that there is, its module alone: an emergency stop does not wait for the scheduler's libraries. One
    that cannot be imported is left out; when it is the one that was asked for, that is an error.
    """
    if command == "--version":
        return []
    if (
        command in MODULES
    ):  # other packages are not asked: reading what each of them offers takes a tenth of a second
        return [importlib.import_module(MODULES[command])]
    known: dict[str, Callable[[], Any]] = {
        name: partial(importlib.import_module, module) for name, module in MODULES.items()
    }
    for entry in sorted(_of_other_packages(), key=lambda entry: entry.name):
        known[entry.name] = entry.load
    modules = []
    for name in [command] if command in known else known:
        try:
            modules.append(known[name]())
        except ImportError as error:
            if name == command:
                raise
            print(f"rosa: the command {name!r} is not available: {_missing(name, error)}", file=sys.stderr)
    return modules


def _elsewhere(command: str) -> str:
    """The wheel of a command that is not installed; empty for any other word."""
    wheel = WHEEL_OF.get(command, "")
    return "" if wheel and any(entry.name == command for entry in _of_other_packages()) else wheel


def _unknown(command: str) -> str:
    """What to say of a word that is no command; empty for a command, an option or nothing."""
    if command in MODULES or not command or command.startswith("-"):
        return ""
    known = {*MODULES, *(entry.name for entry in _of_other_packages())}
    return "" if command in known else f"no such command{nearest(command, known)}; `rosa --help` lists them"


def _of_other_packages() -> Any:
    """The entry points of commands that installed packages bring."""
    from importlib.metadata import entry_points

    return entry_points(group="rosa.commands")


def _missing(command: str, error: ImportError) -> str:
    package = (error.name or "").partition(".")[0]
    if name := PIP_NAMES.get(package, package if package in PUBLIC else ""):
        return f"{error}; `pip install {name}` brings it"
    return f"{error}; {from_wheel(WHEEL_OF.get(command, 'rosa-serving'))}"


def installed_version() -> str:
    """Of the installed package; a source folder that was never installed has none."""
    from importlib.metadata import PackageNotFoundError, version

    for name in DISTRIBUTIONS:
        with suppress(PackageNotFoundError):
            return version(name)
    return "(not installed)"
