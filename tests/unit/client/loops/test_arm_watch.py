"""Why an arm must not be moved, in the words that a person reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rosa_client.drivers.arms import ArmState
from rosa_client.loops.arm_watch import ArmWatch
from rosa_client.motion.measurement import Sample
from rosa_contract.config.robot import load_robot

SPEC = load_robot(Path(__file__).parents[4] / "configs" / "robots" / "panda.yaml")


def test_a_wrong_measurement_is_told_with_its_source_as_it_is_known_by_now() -> None:
    """The second publisher is often found only after its first joint state has come."""
    watch = ArmWatch(SPEC)
    home = np.array(SPEC.pose("home"))

    def look(now_s: float, q_rad: np.ndarray, source: str) -> str:
        samples = (Sample(q_rad, now_s, now_s),)
        state = ArmState(q_rad, np.zeros(7), np.zeros(1), samples=samples, source=source)
        fault = watch.look(now_s, state, None)[1]
        return "" if fault is None else fault.reason

    for tick in range(40):
        said = look(tick / 100, home, "one node")
    assert said == ""
    first = look(0.4, np.zeros(7), "one node")
    later = look(0.41, np.zeros(7), "two nodes")
    assert first.endswith("(one node)") and later.endswith("(two nodes)")
    assert first.removesuffix("(one node)") == later.removesuffix("(two nodes)")
