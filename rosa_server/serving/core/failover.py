"""Which host runs the streams of a failed one (ROSA 3.4.4): a look-up in the schedule's table, never a search."""

from __future__ import annotations

from collections.abc import Mapping

from rosa_server.serving.core.placement import Host


class Failover:
    """Who is warm, who has failed, and who stands in for whom.

    A host that has not warmed up yet has not failed. The streams go back to a failed host when it is warm again.
    """

    def __init__(self, hosts: Mapping[str, Host], standbys: Mapping[str, tuple[str, ...]]) -> None:
        self._hosts, self._standbys = hosts, standbys
        self._warm: set[str] = set()
        self._failed: dict[str, None] = {}  # in the order of failing: the first gets the standby
        self._instead: dict[str, str] = {}  # failed host -> the standby host that runs its streams

    def now(self, host: str) -> str:
        """The host that runs the streams of `host` now."""
        return self._instead.get(host, host)

    def is_live(self, host: str) -> bool:
        """Whether somebody warm runs the streams of `host`."""
        return self.now(host) in self._warm

    def served_by(self, host: str) -> tuple[str, ...]:
        """The hosts whose streams `host` runs now."""
        own = () if host in self._instead else (host,)
        return own + tuple(failed for failed, standby in self._instead.items() if standby == host)

    def warm(self, host: str) -> dict[str, str]:
        """A host has a warm worker. Returns the hosts whose streams move, and where to."""
        self._warm.add(host)
        self._failed.pop(host, None)
        return self._settle()

    def lost(self, host: str) -> dict[str, str]:
        """A host has no worker any more. Returns the hosts whose streams move, and where to."""
        self._warm.discard(host)
        self._failed[host] = None
        return self._settle()

    def _settle(self) -> dict[str, str]:
        before = dict(self._instead)
        for host, standby in before.items():
            if host not in self._failed or standby not in self._warm:
                del self._instead[host]
        for host in self._failed:
            if host not in self._instead:
                busy = {self._hosts[standby].server for standby in self._instead.values()}
                for standby in self._standbys.get(host, ()):
                    if standby in self._warm and self._hosts[standby].server not in busy:
                        self._instead[host] = standby
                        break
        touched = {*before, *self._instead}
        return {host: self.now(host) for host in touched if before.get(host, host) != self.now(host)}
