"""`rosa dashboard`: a page that shows a running server's fleet and takes decisions."""

from __future__ import annotations

import argparse
from typing import Any


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "dashboard",
        help="a page in the browser: robots, servers, alerts, decisions",
        description="Serve a page that shows what a running server and its robots do, and takes decisions. It finds the"
        " server of this user on this machine. Open the address that it prints: the token in it says who you are.",
    )
    parser.add_argument(
        "--server",
        "--gateway",
        dest="gateway",
        default="",
        metavar="PORT",
        help="which server, by the port of its gateway.bind, or the ipc:// endpoint of its gateway.watch; default: the"
        " only one that there is",
    )
    parser.add_argument("--bind", default="127.0.0.1", metavar="ADDRESS", help="default: %(default)s")
    parser.add_argument("--port", type=int, default=8570, help="default: %(default)s; 0: any that is free")
    parser.add_argument(
        "--people", default="", metavar="FILE", help="who may look and decide; needed beyond loopback"
    )
    parser.add_argument(
        "--add-person", default="", metavar="NAME", help="put NAME into --people, and print the token"
    )
    parser.add_argument("--tls-cert", default="", metavar="FILE", help="certificate; needed beyond loopback")
    parser.add_argument("--tls-key", default="", metavar="FILE", help="its private key")
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="a further name of this machine in addresses",
    )
    parser.add_argument(
        "--webhook",
        action="append",
        default=[],
        metavar="URL",
        help="tell this address of every alert, as JSON by POST; @FILE reads it from a file; may stand several times"
        " (docs/alerts.md)",
    )
    parser.add_argument(
        "--on-alert",
        action="append",
        default=[],
        metavar="COMMAND",
        help="run this program for every alert, which it gets as JSON on its standard input; may stand several times",
    )
    return parser


def main(arguments: argparse.Namespace) -> int:
    from rosa_server.dashboard.serve import DashboardOptions, serve_dashboard

    return serve_dashboard(
        DashboardOptions(
            arguments.gateway,
            arguments.bind,
            arguments.port,
            arguments.people,
            arguments.add_person,
            arguments.tls_cert,
            arguments.tls_key,
            tuple(arguments.host),
            tuple(arguments.webhook),
            tuple(arguments.on_alert),
        )
    )
