"""`rosa models`: the backends by name, what each needs, and whether it is installed."""

from __future__ import annotations

import argparse
import json
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from typing import Any

from rosa_server.models.requirements.catalog import CATALOG, Entry


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "models",
        help="list the available backends, what each needs, and whether it is installed",
        description="List the backends that a factory file can name, what each needs, and whether that is installed"
        " in this Python. Use any other class as module:Class (docs/add_a_model.md).",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def main(arguments: argparse.Namespace) -> int:
    told = {name: installed(entry) for name, entry in CATALOG.items()}
    if arguments.json:
        rows = {
            name: {
                "what": entry.what,
                "packages": told[name],
                "environment": entry.environment,
                "needs": entry.also,
            }
            for name, entry in CATALOG.items()
        }
        print(json.dumps({"python": sys.executable, "backends": rows}, indent=2))
        return 0
    width = max(map(len, CATALOG))
    for name, entry in CATALOG.items():
        print(f"{name:{width}}  {entry.what}; {needs_words(entry, told[name])}")
    return 0


def installed(entry: Entry) -> dict[str, str]:
    """Package -> its version, empty where it cannot be found."""
    return {name: _version(name) for name in entry.packages}


def needs_words(entry: Entry, versions: dict[str, str]) -> str:
    """Such as "ready (torch 2.13.0)", or what is missing and what brings it."""
    needs = f"; needs {entry.also}" if entry.also else ""
    if missing := [name for name, number in versions.items() if not number]:
        brings = (
            f"`rosa env {entry.environment}`" if entry.environment else f"`pip install {' '.join(missing)}`"
        )
        return f"missing: {', '.join(missing)} ({brings} brings it){needs}"
    found = ", ".join(f"{name} {number}" for name, number in versions.items())
    return (f"ready ({found})" if found else "ready") + needs


def _version(package: str) -> str:
    """Of an installed package, by the name under which it is imported."""
    if find_spec(package) is None:
        return ""
    for name in packages_distributions().get(package, [package]):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "of unknown version"
