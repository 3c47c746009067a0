"""All attacks at once, again and again, beside sixteen well-behaved robots: what is served, and what memory is left."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rosa_sim.hostile.attempt import (
    MAX_LINES_PER_S,
    MIN_IN_TIME,
    Attempt,
    Place,
    as_lowest_priority,
    peak_mb,
    place_of,
    seen,
    undisturbed,
)
from rosa_sim.hostile.attempts import ATTEMPTS
from rosa_sim.hostile.robots import ServedRequests, serving_well

ROBOTS = 16
AT_ONCE = 3  # attackers; each takes another attempt when one has ended
MAX_LEFT = 0.10  # of the memory before, that may stay
WARM_S, CALM_S = 15.0, 75.0  # before the attack, and until memory is read again
KINDS = 4  # of log lines that peers can cause


@dataclass
class Together:
    """What happened."""

    seconds: float
    served: ServedRequests = field(default_factory=ServedRequests)
    undisturbed: ServedRequests = field(default_factory=ServedRequests)
    made: dict[str, int] = field(default_factory=dict)  # attempt -> how often
    before_mb: float = 0.0
    peak_mb: float = 0.0
    after_mb: float = 0.0
    lines_per_s: float = 0.0
    seen: dict[str, int] = field(default_factory=dict)
    alive: bool = False

    def aims(self) -> list[dict[str, object]]:
        left = self.after_mb / max(1.0, self.before_mb) - 1.0
        return [
            {
                "aim": f"all attacks for {self.seconds:.0f} s: of {ROBOTS} robots' requests at least"
                f" {MIN_IN_TIME:.0%} of what is in time at a server that nobody attacks",
                "value": f"{self.served.share:.2%} of {self.served.asked}; {self.undisturbed.share:.2%} there",
                "holds": self.alive and self.served.share >= MIN_IN_TIME * self.undisturbed.share,
            },
            {
                "aim": f"memory is back within {MAX_LEFT:.0%}",
                "value": f"{self.before_mb:.0f} MB, at most {self.peak_mb:.0f} MB, {self.after_mb:.0f} MB in the end",
                "holds": self.alive and left <= MAX_LEFT,
            },
            {
                "aim": f"less than {KINDS * MAX_LINES_PER_S:.0f} log lines per second",
                "value": f"{self.lines_per_s:.1f}",
                "holds": self.lines_per_s < KINDS * MAX_LINES_PER_S,
            },
        ]


def attack_together(
    folder: Path, seconds: float, seed: int = 1, tell: Callable[[str], None] = lambda _: None
) -> Together:
    """Attempts that need no keys and no server of their own, in random order."""
    outcome = Together(seconds)
    can = [one for one in ATTEMPTS if not one.keys and not one.descriptors]
    stop = threading.Event()
    lock = threading.Lock()

    def attack(number: int, place: Place) -> None:
        as_lowest_priority()
        chance = random.Random(f"{seed} {number}")
        while not stop.is_set() and place.alive():
            one: Attempt = chance.choice(can)
            with contextlib.suppress(OSError, RuntimeError):
                one.run(place)
            with lock:
                outcome.made[one.name] = outcome.made.get(one.name, 0) + 1

    with (
        place_of(folder, keys=False, robots=0) as place,
        undisturbed(folder, ROBOTS) as outcome.undisturbed,
    ):
        with serving_well(place.endpoint, ROBOTS) as outcome.served, peak_mb(place) as samples:
            time.sleep(WARM_S)
            outcome.before_mb = place.resident_mb()
            lines, began_s = count_lines(place), time.monotonic()
            threads = [
                threading.Thread(target=attack, args=(number, place), daemon=True)
                for number in range(AT_ONCE)
            ]
            for thread in threads:
                thread.start()
            while place.alive() and (spent_s := time.monotonic() - began_s) < seconds:
                time.sleep(min(30.0, seconds - spent_s))
                tell(f"{time.monotonic() - began_s:.0f} s, {place.resident_mb():.0f} MB, {outcome.made}")
            stop.set()
            for thread in threads:
                thread.join(60.0)
            outcome.lines_per_s = (count_lines(place) - lines) / (time.monotonic() - began_s)
            time.sleep(CALM_S)
            outcome.after_mb, outcome.peak_mb = place.resident_mb(), max(samples, default=0.0)
            outcome.seen = seen(place) if place.alive() else {}
        outcome.alive = place.alive() and "Traceback" not in place.log.read_text()
    return outcome


def count_lines(place: Place) -> int:
    return place.log.read_text().count("\n")
