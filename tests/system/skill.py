"""What a test of the whole system asks of the learned policy: to finish, but for the cube that it loses now and then.

It loses one of a hundred (`make evaluate`), and no retry brings that cube back. Such an episode is told once more: what
makes the arm lose cubes, which a test is there to find, shows twice.
"""

from __future__ import annotations

import pytest

DONE, FAILED = "done", "failed"


class CubeLost(AssertionError):
    """The policy lost the cube, and the robot knew it."""


may_lose_the_cube = pytest.mark.flaky(reruns=1, only_rerun=["CubeLost"])


def finished(outcome: str, truth: str, account: object) -> None:
    """`outcome`: what the robot says; `truth`: how the cell stands. `account` is shown when the task is not done.

    Raises `CubeLost` when the cube is out of reach and the robot does not claim otherwise.
    """
    if truth == FAILED and outcome != DONE:
        raise CubeLost(f"{outcome}: {account}")
    assert (outcome, truth) == (DONE, DONE), account
