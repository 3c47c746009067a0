"""`rosa keys FOLDER`: the keys that a server beyond loopback needs, and how to use them."""

from __future__ import annotations

import argparse
import socket
from pathlib import Path
from shlex import quote
from typing import Any

from rosa_contract.shipped import shipped

CONFIG = shipped("configs", "pick_place.yaml")
PORT = 5570
ELSEWHERE = ("192.0.2.1", 9)  # a documentation address (RFC 5737); connecting a UDP socket sends nothing


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "keys",
        help="create the keys that a server needs to accept other machines",
        description="Create the keys that a server needs to accept other machines, and print the commands to run on"
        " each machine.",
    )
    parser.add_argument("folder", help="key folder; created if missing")
    parser.add_argument(
        "--robot",
        action="append",
        default=[],
        metavar="NAME",
        help="also create a key for this robot and print the commands that use it; repeatable",
    )
    parser.add_argument(
        "--node",
        action="append",
        default=[],
        metavar="NAME",
        help="also create a key for the gateway on this node, for several gateways that share a schedule"
        " (`rosa serve --nodes`); repeatable",
    )
    parser.add_argument("--config", default=str(CONFIG), help="factory file to use in the printed commands")
    parser.add_argument(
        "--server", default="", metavar="ADDRESS", help="server address (default: this machine's)"
    )
    parser.add_argument("--port", type=int, default=PORT, help=f"server port (default: {PORT})")
    return parser


def main(arguments: argparse.Namespace) -> int:
    from rosa_server.serving.edge.access import make_keys

    folder = Path(arguments.folder)
    made = make_keys(folder, *arguments.robot, nodes=arguments.node)
    for path in made:
        print(f"made {path}")
    if arguments.node:
        print(
            "\nThe gateway of node NAME needs server.key_secret, slots.key_secret, robots/*.key, gateways/*.key and"
            "\ngateways/NAME.key_secret, in a folder with the same layout. No robot gets slots.key_secret."
        )
    if arguments.robot:
        folder = folder.resolve()
        print(
            f"\nA robot NAME needs two of these files, in a folder with the same layout, here {folder}:\n"
            "copy server.key, move robots/NAME.key_secret. Then one command per machine.\n"
        )
        host = arguments.server or own_address()
        print(f"on the server:\n  {serve_command(folder, arguments.config, arguments.port)}")
        for robot in dict.fromkeys(arguments.robot):
            print(f"on the robot {robot}:\n  {robot_command(folder, robot, host, arguments.port)}")
    elif not made:
        print(f"{folder} already has its server key; --robot NAME makes a key for a robot")
    return 0


def serve_command(folder: Path, config: str, port: int) -> str:
    return f"rosa serve {quote(config)} --bind tcp://0.0.0.0:{port} --keys {quote(str(folder))}"


def robot_command(folder: Path, robot: str, server: str, port: int) -> str:
    host = f"[{server}]" if ":" in server else server
    keys = quote(str(folder))
    return f"python -m rosa_client.bringup namespace:={robot} gateway:=tcp://{host}:{port} keys:={keys}"


def own_address() -> str:
    """Where other machines reach this one: its address towards the network, or its name where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(ELSEWHERE)
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()
