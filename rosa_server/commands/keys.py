"""`rosa keys FOLDER`: the keys that a server beyond loopback needs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "keys", help="make the keys that a server beyond loopback needs"
    )
    parser.add_argument("folder", help="key folder, for gateway.curve_keys; made if missing")
    parser.add_argument("--robot", help="also make the key of this robot")
    return parser


def main(arguments: argparse.Namespace) -> int:
    from rosa_server.serving.access import make_keys

    made = make_keys(Path(arguments.folder), arguments.robot)
    for path in made:
        print(f"made {path}")
    if arguments.robot:
        secret = Path(arguments.folder) / "robots" / f"{arguments.robot}.key_secret"
        print(f"the robot needs a folder of its own with two files: robot.key_secret, moved from {secret},")
        print(f"and server.key, a copy of {Path(arguments.folder) / 'server.key'}")
    elif not made:
        print(f"{arguments.folder} already has its server key; --robot NAME makes a key for a robot")
    return 0
