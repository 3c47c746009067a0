"""Which requests are refused before anything looks at them: other hosts' names, other sites' pages, unknown tokens.

A page of another site can make a browser send requests here, and the name of that site can be made to mean this address
(DNS rebinding). So the name that a request was sent to has to be ours, a page that asks has to be ours, and the token
is in a header, which no browser adds by itself. There are no cookies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rosa_server.dashboard.people import People
from rosa_server.serving.core.guard.bucket import Bucket

REFUSALS = {
    "wrong_host": (421, "the request names a host that is not this dashboard"),
    "wrong_origin": (403, "the request comes from another site's page"),
    "no_token": (401, "a token is required"),
    "wrong_token": (401, "the token is not known"),
    "too_many_attempts": (429, "too many wrong tokens; try again later"),
}
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
WRONG_PER_S, WRONG_AT_ONCE = 2.0, 20.0
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class PageRefusal(NamedTuple):
    status: int
    cause: str  # one of REFUSALS
    reason: str


class PageGuard:
    """Pure: the shell hands in the headers of a request and a time."""

    def __init__(self, hosts: Iterable[str], port: int, people: People, secure: bool) -> None:
        """`hosts`: names under which this dashboard is reached. `secure`: over TLS."""
        scheme, usual = ("https", 443) if secure else ("http", 80)
        names = {host.lower() for host in hosts}
        self._hosts = {f"{name}:{port}" for name in names} | (names if port == usual else set())
        self._origins = {f"{scheme}://{host}" for host in self._hosts}
        self._people = people
        self._wrong = Bucket(WRONG_PER_S, WRONG_AT_ONCE)

    def refuses(self, headers: dict[str, str]) -> PageRefusal | None:
        """Why nothing at all is answered to this request; None when it may be. `headers`: in lower case."""
        if headers.get("host", "").lower() not in self._hosts:
            return _refused("wrong_host", "use the address that `rosa dashboard` has printed, or --host NAME")
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self._origins:
            site = origin.partition("://")[2]  # not `urlsplit`, which raises for what is no address
            return _refused(
                "wrong_origin", f"the request comes from a page of {site[:80] or 'an unknown site'}"
            )
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return _refused("wrong_origin", "the request comes from another site's page")
        return None

    def person(self, headers: dict[str, str], now_s: float) -> str | PageRefusal:
        """Who asks, by the token in `authorization`."""
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not token:
            return _refused("no_token", "send it as `Authorization: Bearer TOKEN`")
        name = self._people.of(token.strip())
        if name:  # whoever guesses must not be able to lock others out
            return name
        return _refused("wrong_token" if self._wrong.take(1.0, now_s) else "too_many_attempts", "")


def _refused(cause: str, words: str) -> PageRefusal:
    status, meaning = REFUSALS[cause]
    return PageRefusal(status, cause, f"{meaning}: {words}" if words else meaning)
