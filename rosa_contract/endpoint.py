"""ZeroMQ endpoints: what one looks like, checked before a socket sees it.

libzmq takes a port modulo 2^16, so tcp://127.0.0.1:80000 would listen on 14464 without a word.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from rosa_contract.wording import shown

MAX_PORT = 65535
MAX_PATH_BYTES = 107  # sun_path of a Unix socket, less its final zero
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.\-:;_]*")  # what libzmq connects to; of another it raises an error


def endpoint_problem(endpoint: str, *, binds: bool, ipv6: bool = False) -> str:
    """What is wrong with `endpoint`, or an empty string. `binds`: to listen on it, so that "*" may stand in it.

    `ipv6`: whether such an address may stand in it; ROSA's ZeroMQ sockets have none.
    """
    scheme, found, rest = endpoint.partition("://")
    if scheme == "ipc" and found:
        fits = 0 < len(rest.encode()) <= MAX_PATH_BYTES
        return "" if fits else f"expected ipc://PATH of 1 to {MAX_PATH_BYTES} bytes, got {shown(endpoint)}"
    if scheme == "inproc" and found:
        return "" if rest else f"expected inproc://NAME, got {shown(endpoint)}"
    host, colon, port = rest.rpartition(":")
    if scheme != "tcp" or not found or not colon or not host or any(c.isspace() or c == "/" for c in rest):
        return f"expected an endpoint such as tcp://HOST:PORT, got {shown(endpoint)}"
    if host == "*" and not binds:
        return f"expected the address of a machine, got {shown(endpoint)}: '*' is only for listening"
    if not ipv6 and ("[" in host or ":" in host.rpartition(";")[2]):
        return f"expected an IPv4 address or a name, got {shown(host)} in {shown(endpoint)}: IPv6 is not supported"
    if not binds and not HOST.fullmatch(host):
        return f"expected the address of a machine, got {shown(endpoint)}: no host is called {shown(host)}"
    if port == "*" and binds:
        return ""
    lowest = 0 if binds else 1
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and lowest <= int(port) <= MAX_PORT):
        return f"expected a port from {lowest} to {MAX_PORT}, got {shown(port)} in {shown(endpoint)}"
    return ""


def gateways_of(text: str) -> tuple[str, ...]:
    """The endpoints of the gateways that a robot may use: one, or several with commas between them."""
    return tuple(one.strip() for one in text.split(","))


def gateways_problem(text: str) -> str:
    """What is wrong with the endpoints of a robot's gateways, or an empty string."""
    found = gateways_of(text)
    problems = (endpoint_problem(one, binds=False) for one in found)
    twice = next((one for one in found if found.count(one) > 1), "")
    return next((one for one in problems if one), f"{shown(twice)} is named twice" if twice else "")


def is_loopback(endpoint: str) -> bool:
    """Whether only processes of this machine can reach a ZeroMQ endpoint."""
    try:
        parts = urlsplit(endpoint)
    except ValueError:  # half of an IPv6 address, which a gateway may have told
        return False
    return parts.scheme in ("ipc", "inproc") or is_loopback_host(parts.hostname or "")


def is_loopback_host(host: str) -> bool:
    """The same of a host: an address, or a name, of which only `localhost` counts."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, an interface or "*"
        return False
