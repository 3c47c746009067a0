"""`rosa dashboard`: a page that shows a running server's fleet and takes decisions."""

from __future__ import annotations

import argparse
from typing import Any


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "dashboard",
        help="serve a web page with robots, servers and alerts, for watching and deciding",
        description="Serve a web page that shows what a running server and its robots are doing, and lets operators"
        " answer alerts. It finds your running server on this machine. Open the printed address; its token"
        " identifies you.",
    )
    parser.add_argument(
        "--server",
        "--gateway",
        dest="gateway",
        default="",
        metavar="PORT",
        help="which server: the port of its gateway.bind, or the ipc:// endpoint of its gateway.watch;"
        " default: the only one running",
    )
    parser.add_argument(
        "--bind", default="127.0.0.1", metavar="ADDRESS", help="address to listen on; default: %(default)s"
    )
    parser.add_argument(
        "--port", type=int, default=8570, help="port to listen on; default: %(default)s; 0: any free port"
    )
    parser.add_argument(
        "--people",
        default="",
        metavar="FILE",
        help="file of people who may watch and decide; required when not on loopback",
    )
    parser.add_argument(
        "--add-person",
        default="",
        metavar="NAME",
        help="add NAME to the --people file and print the new token",
    )
    parser.add_argument(
        "--tls-cert", default="", metavar="FILE", help="TLS certificate; required when not on loopback"
    )
    parser.add_argument("--tls-key", default="", metavar="FILE", help="private key of the certificate")
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="another host name under which this machine is reached; repeatable",
    )
    parser.add_argument(
        "--webhook",
        action="append",
        default=[],
        metavar="URL",
        help="POST every alert to this URL as JSON; @FILE reads the URL from a file; repeatable"
        " (docs/alerts.md)",
    )
    parser.add_argument(
        "--on-alert",
        action="append",
        default=[],
        metavar="COMMAND",
        help="run this program for every alert, with the alert as JSON on its standard input; repeatable",
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
