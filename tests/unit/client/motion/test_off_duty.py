"""An arm off duty, as of an inactive node: it comes to rest, holds, refuses what moves, and goes on with nothing."""

from __future__ import annotations

import numpy as np
import pytest

from rosa_client.motion.arm_orders import Hold, MoveTo, OrderId, Play, PlayerState
from rosa_client.motion.chunk_player import ChunkPlayer
from rosa_client.motion.emergency_stop import EmergencyStop
from rosa_client.motion.refusal import Refusal
from tests.unit.client.motion.test_chunk_player import MOTION, RATE_HZ, ramp_chunk, run
from tests.unit.client.refusals import because

WHY = "the arm node was deactivated"


@pytest.fixture
def player() -> ChunkPlayer:
    made = ChunkPlayer(MOTION, RATE_HZ)
    made.reset([0.0, 0.0], 0.08)
    return made


def test_going_off_duty_in_mid_chunk_ramps_down_and_says_why(player: ChunkPlayer) -> None:
    player.order(0.0, OrderId(1, 1), Play(ramp_chunk(0.4), step_s=0.05))
    run(player, 0.0, 0.4)
    player.go_off_duty(WHY)
    stopping = run(player, 0.4, 2.0)
    velocity = np.diff(stopping[:, 0]) * RATE_HZ
    assert velocity[0] > 0.1, "a stop from speed is smooth, not a jump"
    assert np.abs(velocity[30:]).max() < 1e-9
    assert (player.cut_short, player.fault, player.state) == (WHY, WHY, PlayerState.HOLDING)


def test_off_duty_every_order_that_moves_is_refused_and_none_of_them_begins_later(
    player: ChunkPlayer,
) -> None:
    player.go_off_duty(WHY)
    assert because("off_duty", player.order(0.0, OrderId(1, 1), MoveTo([1.0, 1.0], 0.0))) == WHY
    assert because("off_duty", player.order(0.0, OrderId(1, 2), Play(ramp_chunk(0.2), step_s=0.05))) == WHY
    assert player.order(0.0, OrderId(1, 3), Hold()) is None
    because("off_duty", player.order(0.1, OrderId(1, 4), MoveTo([1.0, 1.0], 0.0)))
    player.go_on_duty()
    assert np.ptp(run(player, 0.1, 1.0)[:, :2], axis=0).max() == 0.0
    assert player.fault == "", "its refusal is over"
    because("old_order", player.order(1.1, OrderId(1, 4), MoveTo([1.0, 1.0], 0.0)))
    assert player.order(1.1, OrderId(1, 5), MoveTo([1.0, 1.0], 0.0)) is None


def test_a_fault_of_the_driver_and_a_refusal_of_another_cause_outlive_it(player: ChunkPlayer) -> None:
    because("joint_limit", player.order(0.0, OrderId(1, 1), MoveTo([9.0, 0.0], 0.0)))
    player.go_off_duty(WHY)
    player.fail(Refusal("arm_driver", "a brake"))
    assert player.fault == "a brake"
    player.go_on_duty()
    assert player.fault == "a brake"


def test_a_latch_outlives_the_player_that_was_stopped_by_it() -> None:
    latch = EmergencyStop()
    first = ChunkPlayer(MOTION, RATE_HZ, emergency_stop=latch)
    first.press_emergency_stop("a button")
    second = ChunkPlayer(MOTION, RATE_HZ, emergency_stop=latch)
    second.reset([0.0, 0.0], 0.08)
    second.go_on_duty()
    because("emergency_stop", second.order(0.0, OrderId(1, 1), MoveTo([1.0, 1.0], 0.0)))
