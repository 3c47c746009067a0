"""Starts the dashboard: who may reach it, which gateway it shows, and what it says on the terminal."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rosa_contract.endpoint import is_loopback_host
from rosa_contract.errors import CausedError
from rosa_contract.say import say
from rosa_server.dashboard.guard import LOOPBACK, PageGuard
from rosa_server.dashboard.people import People, add_person, load_people, this_user
from rosa_server.serving.base import log
from rosa_server.serving.base.descriptors import more_descriptors
from rosa_server.serving.watching.place import watched_gateways


class DashboardError(CausedError):
    """The dashboard cannot start; the text says what to do."""

    CAUSES: ClassVar = {
        "needs_packages": "the dashboard's packages are not installed",
        "needs_keys_and_tls": "it would be reachable from other machines without personal tokens or without TLS",
        "no_gateway": "you have no running server on this machine that can be watched",
        "several_gateways": "several servers are running; choose one with --server",
        "bad_certificate": "the certificate or its key cannot be used",
        "cannot_bind": "it cannot listen on the given address",
    }


@dataclass(frozen=True)
class DashboardOptions:
    """As on the command line."""

    gateway: str = ""
    bind: str = "127.0.0.1"
    port: int = 8570
    people: str = ""
    add_person: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    hosts: tuple[str, ...] = ()
    webhooks: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()  # that are run for an alert


def serve_dashboard(options: DashboardOptions) -> int:
    """Serve until Ctrl-C. Raises `ContractError` where it cannot start."""
    if options.add_person:
        if not options.people:
            raise DashboardError("needs_keys_and_tls", "--add-person: name the file with --people FILE")
        token = add_person(options.people, options.add_person)
        say(f"{options.add_person} is in {options.people}; the token, which is shown only now: {token}")
        return 0
    check_reach(options)
    endpoint = find_gateway(options.gateway)
    try:
        import uvicorn

        from rosa_server.dashboard.app import Dashboard
        from rosa_server.dashboard.connections import PageConnection
        from rosa_server.dashboard.feed import Feed
        from rosa_server.dashboard.hooks import Hooks
        from rosa_server.dashboard.model import FleetModel
    except ImportError as error:
        words = f"{error.name} is not installed: pip install starlette uvicorn"
        raise DashboardError("needs_packages", words) from None
    model = FleetModel()
    hooks = Hooks(model, options.webhooks, options.commands)
    people, token = (
        (load_people(options.people), "") if options.people else People({}).with_person(this_user())
    )
    more_descriptors()  # of those who have connected, uvicorn knows no more than whose TLS handshake is over
    listener = listen(options.bind, options.port)
    port = int(listener.getsockname()[1])
    secure = bool(options.tls_cert)
    hosts = hosts_of(options)
    guard = PageGuard(hosts, port, people, secure)
    app = Dashboard(model, Feed(endpoint, model), guard, hooks).app()
    log.to_stderr()
    settings = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        http=PageConnection,
        loop="asyncio",
        timeout_graceful_shutdown=1,
        limit_concurrency=256,
        h11_max_incomplete_event_size=16 << 10,
        ssl_certfile=options.tls_cert or None,
        ssl_keyfile=options.tls_key or None,
    )
    try:
        server = uvicorn.Server(settings)
        settings.load()
    except (OSError, ssl.SSLError) as error:
        raise DashboardError("bad_certificate", f"--tls-cert, --tls-key: {error}") from None
    address = f"{'https' if secure else 'http'}://{hosts[0]}:{port}/"
    say(
        f"ROSA dashboard of {endpoint.removeprefix('ipc://')} on {address}{f'#token={token}' if token else ''}"
    )
    server.run(sockets=[listener])
    return 0


def check_reach(options: DashboardOptions) -> None:
    """Beyond loopback everybody has their own token, and nobody on the way reads it."""
    if is_loopback_host(options.bind) or (options.people and options.tls_cert):
        return
    missing = " and ".join(
        words
        for words, given in (
            ("--people FILE", options.people),
            ("--tls-cert FILE --tls-key FILE", options.tls_cert),
        )
        if not given
    )
    words = (
        f"--bind {options.bind}: other machines could reach it, so {missing} is needed; or bind to 127.0.0.1"
    )
    raise DashboardError("needs_keys_and_tls", words)


def hosts_of(options: DashboardOptions) -> list[str]:
    """The names under which it is reached, as in an address; the first one is printed."""
    shown = _in_address(options.bind if not _is_any(options.bind) else socket.gethostname())
    return [shown, *LOOPBACK, _in_address(options.bind), *options.hosts]


def find_gateway(wanted: str, folder: Path | None = None) -> str:
    """The endpoint of the gateway to watch."""
    if wanted.startswith("ipc://"):
        return wanted
    found = watched_gateways(folder)
    if wanted:
        if wanted in found:
            return found[wanted]
        known = f"there are {', '.join(found)}" if found else "there is none"
        raise DashboardError(
            "no_gateway", f"--server {wanted}: no server of this user can be watched; {known}"
        )
    if not found:
        words = "no server of this user can be watched on this machine: start `rosa serve`, or name one with --server"
        raise DashboardError("no_gateway", words)
    if len(found) > 1:
        raise DashboardError("several_gateways", f"--server: name one of {', '.join(found)}")
    return next(iter(found.values()))


def listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen()  # who opens the address that is printed next waits for uvicorn, and is not refused
    except (OSError, OverflowError) as error:  # the latter for a port that there cannot be
        listener.close()
        why = getattr(error, "strerror", None) or error
        words = f"--bind {address} --port {port}: {why}; name another port, or 0 for any"
        raise DashboardError("cannot_bind", words) from None
    return listener


def _is_any(address: str) -> bool:
    return address in ("0.0.0.0", "::")


def _in_address(host: str) -> str:
    return f"[{host}]" if ":" in host else host
