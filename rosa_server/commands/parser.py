"""The command line of `rosa`: which commands there are, and how a mistake ends."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from typing import Any

from rosa_contract.errors import ContractError

OWN = ("serve", "check", "keys")
PLUGINS = ("rosa_server.scheduler.commands.plan", "rosa_server.scheduler.commands.profile")


def run(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0, or 2 for wrong input, which is explained on standard error."""
    parser = argparse.ArgumentParser(
        prog="rosa", description="ROSA: serve robotics foundation models to a fleet of robots"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in _modules():
        made = module.add_parser(commands)
        if made is not None:
            made.set_defaults(run=module.main)
    arguments = parser.parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except ContractError as error:
        print(f"rosa {arguments.command}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # as in `rosa plan ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _modules() -> Iterator[Any]:
    """Ours, the scheduler's, and those of other packages, which the server must not import, by entry point.

    One of another package that cannot be imported is reported and left out, so that `rosa serve` still works.
    """
    for name in OWN:
        yield importlib.import_module(f"rosa_server.commands.{name}")
    for module_name in PLUGINS:
        yield importlib.import_module(module_name)
    for entry in sorted(entry_points(group="rosa.commands"), key=lambda entry: entry.name):
        try:
            yield entry.load()
        except ImportError as error:
            print(f"rosa: the command {entry.name!r} is not available: {error}", file=sys.stderr)
