"""What a worker's engine has shared, in words."""

from __future__ import annotations

from collections.abc import Mapping


def sharing(counts: Mapping[str, int]) -> str:
    """`, 10 prefills, 30 saved, 2 prefixes evicted, 1.5 MB held`; empty for a worker that shares nothing."""
    if "prefills" not in counts:
        return ""
    held_mb = counts.get("held_bytes", 0) / 1e6
    saved, evicted = counts.get("prefills_saved", 0), counts.get("evictions", 0)
    return (
        f", {counts['prefills']} prefills, {saved} saved, {evicted} prefixes evicted, {held_mb:.1f} MB held"
    )
