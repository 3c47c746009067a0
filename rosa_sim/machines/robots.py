"""Virtual robots on their own machine, which write down every call that ends.

python -m rosa_sim.machines.robots ENDPOINT FACTORY.yaml COUNT SECONDS CALLS.jsonl [NAME]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rosa_client.runtime.commands import Alert, CallEnded, Send
from rosa_contract.clock import MonotonicClock
from rosa_contract.config.factory import load_factory
from rosa_sim.fleet.live import LiveFleet
from rosa_sim.fleet.robot import Habits, VirtualRobot
from rosa_sim.fleet.simulation import Joining

TASK = "pick"  # theirs, in the factory file
STAGGER_S = 0.05
PERSON_S = 1.0  # after which somebody resumes a robot that has called


class Writer:
    """One line per ended call or escalation: when, of which robot, what, how it ended, and its duration."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", buffering=1)

    def sent(self, robot: VirtualRobot, send: Send, now_s: float) -> None: ...

    def late(self, robot: VirtualRobot, component: str, now_s: float) -> None: ...

    def acted(self, robot: VirtualRobot, now_s: float) -> None: ...

    def ended(self, robot: VirtualRobot, ended: CallEnded, now_s: float) -> None:
        self._file.write(
            json.dumps([now_s, robot.name, ended.component, ended.ending, ended.duration_ms]) + "\n"
        )

    def escalated(self, robot: VirtualRobot, alert: Alert, now_s: float) -> None:
        self._file.write(json.dumps([now_s, robot.name, "", "escalated", 0.0]) + "\n")


def main(argv: Sequence[str]) -> int:
    endpoint, path, count, seconds, calls, *named = argv
    name = named[0] if named else "robot"
    factory, clock = load_factory(path), MonotonicClock()
    joining = [Joining(f"{name}{i:02d}", TASK, i * STAGGER_S) for i in range(int(count))]
    fleet = LiveFleet(
        endpoint, factory, joining, Writer(Path(calls)), clock.now_s(), Habits(operator_s=PERSON_S)
    )
    try:
        fleet.run(clock.now_s() + float(seconds))
    finally:
        fleet.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
