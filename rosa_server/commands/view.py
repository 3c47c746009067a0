"""`rosa view`: a recording, or a running server, in Foxglove, Lichtblick or Rerun."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

RECORDING_NAME = "run.mcap"


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "view",
        help="show a recording or a running server in Foxglove, Lichtblick or Rerun",
        description="Without RECORDING, stream your running server and its robots to Foxglove or Lichtblick; connect"
        " them to the printed address. With RECORDING, play it back in real time; the viewer's play,"
        " pause, speed and seek controls work. --rerun opens a recording in Rerun instead. The viewers'"
        " libraries are not installed with ROSA: pip install foxglove-sdk, pip install rerun-sdk.",
    )
    parser.add_argument(
        "recording",
        nargs="?",
        type=Path,
        metavar="RECORDING",
        help=f"MCAP file, or a run folder that contains {RECORDING_NAME}",
    )
    parser.add_argument("--rerun", action="store_true", help="open the recording in Rerun instead")
    parser.add_argument(
        "--save",
        type=Path,
        metavar="FILE.rrd",
        help="with --rerun: write this file instead of opening the viewer",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=8765,
        help="port for viewers; default: %(default)s; 0: any free port",
    )
    parser.add_argument("--loop", action="store_true", help="repeat the recording")
    parser.add_argument(
        "--server",
        "--gateway",
        dest="gateway",
        default="",
        metavar="PORT",
        help="which running server: the port of its gateway.bind, or the ipc:// endpoint of its gateway.watch;"
        " default: the only one running",
    )
    return parser


def main(arguments: argparse.Namespace) -> int:
    from rosa_contract.shipped import shipped
    from rosa_server.viewing.errors import ViewError

    path: Path | None = arguments.recording
    if path is not None and path.is_dir():
        path = path / RECORDING_NAME
    if arguments.rerun:
        from rosa_server.viewing.rerun_view import view_in_rerun

        if path is None:
            words = "--rerun: name a recording; Foxglove shows a running server"
            raise ViewError("needs_recording", words)
        return view_in_rerun(path, arguments.save)
    if arguments.save is not None:
        raise ViewError("needs_recording", "--save: it goes with --rerun")
    from rosa_server.viewing.foxglove_view import view_live, view_recording

    layouts = shipped("configs", "foxglove")
    if path is not None:
        return view_recording(path, arguments.port, arguments.loop, layouts / "rosa.json")
    from rosa_server.dashboard.serve import find_gateway

    return view_live(find_gateway(arguments.gateway), arguments.port, layouts / "fleet.json")
