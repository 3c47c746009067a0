"""`rosa keys FOLDER`: the keys that a server beyond loopback needs, and how to use them."""

from __future__ import annotations

import argparse
import socket
from pathlib import Path
from shlex import quote
from typing import Any

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "pick_place.yaml"
PORT = 5570
ELSEWHERE = ("192.0.2.1", 9)  # a documentation address (RFC 5737); connecting a UDP socket sends nothing


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "keys",
        help="make the keys that a server beyond loopback needs",
        description="Make the keys that a server beyond loopback needs, and print the command for each machine.",
    )
    parser.add_argument("folder", help="key folder; made if missing")
    parser.add_argument("--robot", help="also make the key of this robot, and print the commands that use it")
    parser.add_argument("--config", default=str(CONFIG), help="factory file for the printed commands")
    parser.add_argument(
        "--server", default="", metavar="ADDRESS", help="address of the server (default: this machine's)"
    )
    parser.add_argument("--port", type=int, default=PORT, help=f"port of the server (default: {PORT})")
    return parser


def main(arguments: argparse.Namespace) -> int:
    from rosa_server.serving.access import make_keys

    folder = Path(arguments.folder)
    made = make_keys(folder, arguments.robot)
    for path in made:
        print(f"made {path}")
    if arguments.robot:
        folder = folder.resolve()
        print(
            f"\nThe robot needs two of these files, in a folder with the same layout, here {folder}:\n"
            f"copy server.key, move robots/{arguments.robot}.key_secret. Then one command per machine.\n"
        )
        serve, bring_up = commands(
            folder, arguments.robot, arguments.config, arguments.server or own_address(), arguments.port
        )
        print(f"on the server:\n  {serve}\non the robot {arguments.robot}:\n  {bring_up}")
    elif not made:
        print(f"{folder} already has its server key; --robot NAME makes a key for a robot")
    return 0


def commands(folder: Path, robot: str, config: str, server: str, port: int) -> tuple[str, str]:
    """What to run on the server, and what on the robot."""
    host = f"[{server}]" if ":" in server else server
    files = quote(str(folder))
    return (
        f"rosa serve {quote(config)} --bind tcp://0.0.0.0:{port} --keys {files}",
        f"python -m rosa_client.bringup namespace:={robot} gateway:=tcp://{host}:{port} keys:={files}",
    )


def own_address() -> str:
    """Where other machines reach this one: its address towards the network, or its name where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(ELSEWHERE)
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()
