"""What sharing prefixes saved in a run, as the server's metrics count it."""

from __future__ import annotations

import urllib.request
from dataclasses import asdict, dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

LOOKED, FOUND = "rosa_prefills", "rosa_prefills_saved"
TIMEOUT_S = 2.0


@dataclass(frozen=True)
class Sharing:
    """Of all workers together, since they started."""

    prefills: int  # observations that were looked at
    saved: int  # questions that found their observation's prefix there

    @property
    def share(self) -> float:
        """Of the questions that needed a prefix, those that found one. A monitor asks one for each step of its task."""
        return self.saved / max(1, self.prefills + self.saved)

    def line(self) -> str:
        """For people."""
        asked = self.prefills + self.saved
        return (
            f"KV sharing: {asked} questions of all components, {self.prefills} passes over camera pictures;"
            f" {self.saved} questions ({self.share:.0%}) were about pictures that the model had just seen for another"
        ).replace("%)", " %)")

    def row(self) -> dict[str, Any]:
        """For the page of results."""
        return {
            "questions of all components": self.prefills + self.saved,
            "passes over camera pictures": self.prefills,
            "questions about pictures just seen": self.saved,
            "share": self.share,
        }

    def plain(self) -> dict[str, Any]:
        """For machines."""
        return {**asdict(self), "share": self.share}


def of_metrics(text: str) -> Sharing | None:
    """Sums a page of metrics; None when no worker shares."""
    counts = {LOOKED: 0.0, FOUND: 0.0}
    shares = False
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in counts:
                counts[sample.name] += sample.value
                shares = True
    return Sharing(int(counts[LOOKED]), int(counts[FOUND])) if shares else None


def read(port: int) -> Sharing | None:
    """From the gateway on this machine; None when it does not say, or no worker shares."""
    if port == 0:
        return None
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT_S) as page:
            return of_metrics(page.read().decode())
    except (OSError, ValueError):
        return None
