"""The arm plays the newest order within limits, refuses impossible ones, and holds when there is nothing to play."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_client.motion.arm_orders import Hold, MoveTo, Order, OrderId, Play, PlayerState, Unreadable
from rosa_client.motion.chunk_player import ChunkPlayer
from rosa_client.motion.limits import MotionLimits
from rosa_client.motion.setpoint_filter import SetpointFilter
from rosa_contract.config.robot import GripperSpec, JointLimits
from tests.unit.client.refusals import because

RATE_HZ = 100.0
LIMITS = JointLimits((-2.0, -2.0), (2.0, 2.0), (2.0, 2.0), (10.0, 10.0), (500.0, 500.0))
MOTION = MotionLimits(LIMITS, [GripperSpec(0.0, 0.08)])


@pytest.fixture
def player() -> ChunkPlayer:
    made = ChunkPlayer(MOTION, RATE_HZ)
    made.reset([0.0, 0.0], 0.08)
    return made


def run(player: ChunkPlayer, begin_s: float, seconds: float) -> np.ndarray:
    """Setpoints (n, 3) of the control periods in [begin_s, begin_s + seconds), with a sender that is alive."""
    rows = []
    for i in range(round(seconds * RATE_HZ)):
        player.alive(begin_s + i / RATE_HZ, player.last)
        setpoint = player.update(begin_s + i / RATE_HZ)
        rows.append([*setpoint.q_rad, *setpoint.gripper_m])
    return np.array(rows)


def ramp_chunk(to_rad: float, horizon: int = 16) -> np.ndarray:
    """(horizon, 3): both joints go to `to_rad` in equal steps while the gripper closes."""
    part = np.linspace(1 / horizon, 1, horizon)[:, None]
    return np.hstack([part * to_rad, part * to_rad, 0.08 * (1 - part)])


def test_a_chunk_is_played_to_its_end_and_then_held(player: ChunkPlayer) -> None:
    assert player.order(10.0, OrderId(1, 1), Play(ramp_chunk(0.2), step_s=0.05)) is None
    assert player.state is PlayerState.PLAYING
    assert player.remaining_s(10.0) == pytest.approx(0.8)
    run(player, 10.0, 0.81)
    assert player.state is PlayerState.HOLDING
    end = run(player, 10.81, 0.5)[-1]
    assert end == pytest.approx([0.2, 0.2, 0.0], abs=1e-6)
    assert player.settled


def test_only_the_part_to_be_executed_is_played(player: ChunkPlayer) -> None:
    player.order(0.0, OrderId(1, 1), Play(ramp_chunk(0.2), step_s=0.05, execute_s=0.4))
    assert run(player, 0.0, 1.5)[-1] == pytest.approx([0.1, 0.1, 0.04], abs=1e-6)


def test_a_chunk_that_is_joined_late_starts_where_time_says(player: ChunkPlayer) -> None:
    player.order(0.0, OrderId(1, 1), Play(ramp_chunk(0.2), step_s=0.05, skip_s=0.6))
    assert player.remaining_s(0.0) == pytest.approx(0.2)
    assert run(player, 0.0, 1.0)[-1] == pytest.approx([0.2, 0.2, 0.0], abs=1e-6)


def test_a_hold_in_mid_chunk_stops_soon_and_goes_nowhere_after(player: ChunkPlayer) -> None:
    player.order(0.0, OrderId(1, 1), Play(ramp_chunk(0.4), step_s=0.05))
    run(player, 0.0, 0.4)
    player.order(0.4, OrderId(1, 2), Hold())
    assert player.state is PlayerState.HOLDING
    stopping = run(player, 0.4, 2.0)
    velocity = np.diff(stopping[:, 0]) * RATE_HZ
    assert velocity[0] > 0.1, "a stop from speed is smooth, not a jump"
    assert np.abs(velocity[30:]).max() < 1e-9
    assert stopping[-1, 0] < 0.3
    assert player.settled


def test_a_move_reaches_its_target_and_then_holds(player: ChunkPlayer) -> None:
    player.order(0.0, OrderId(1, 1), MoveTo([1.0, -1.0], 0.02))
    assert player.state is PlayerState.MOVING
    assert math.isnan(player.remaining_s(0.0))
    assert run(player, 0.0, 4.0)[-1] == pytest.approx([1.0, -1.0, 0.02], abs=1e-5)
    assert player.state is PlayerState.HOLDING


@pytest.mark.parametrize("number", [OrderId(5, 7), OrderId(5, 6), OrderId(4, 99)])
def test_a_repeated_or_older_order_changes_nothing(player: ChunkPlayer, number: OrderId) -> None:
    player.order(0.0, OrderId(5, 7), Hold())
    assert "is not newer than 5:7" in because("old_order", player.order(0.0, number, MoveTo([1.0, 1.0], 0.0)))
    assert player.state is PlayerState.HOLDING
    assert player.last == OrderId(5, 7)


def test_a_restarted_sender_begins_to_count_again(player: ChunkPlayer) -> None:
    player.order(0.0, OrderId(5, 900), Hold())
    assert player.order(0.1, OrderId(6, 1), MoveTo([0.1, 0.1], 0.0)) is None


@pytest.mark.parametrize(
    ("order", "says", "cause"),
    [
        (Play(np.array([[0.0, math.nan, 0.0]]), 0.05), "waypoint 0, joint 2 is nan", "joint_limit"),
        (
            Play(np.array([[0.0, 0.0, 0.0], [9.0, 0.0, 0.0]]), 0.05),
            "waypoint 1, joint 1 is 9 rad, expected -2..2",
            "joint_limit",
        ),
        (Play(np.array([[0.0, 0.0, 0.5]]), 0.05), "gripper is 0.5", "gripper_range"),
        (Play(np.zeros((0, 3)), 0.05), "got shape (0, 3)", "wrong_shape"),
        (Play(np.zeros((4, 2)), 0.05), "got shape (4, 2)", "wrong_shape"),
        (Play(np.zeros((4, 3)), 0.0), "step_s > 0", "chunk_time"),
        (Play(np.zeros((4, 3)), math.inf), "finite step_s", "chunk_time"),
        (Play(np.zeros((4, 3)), 0.05, skip_s=0.2), "0.2 s long", "chunk_time"),
        (MoveTo([0.0, math.inf], 0.0), "joint 2 is inf", "joint_limit"),
        (Unreadable("kind 9 is unknown"), "kind 9 is unknown", "unreadable"),
        (MoveTo([0.0], 0.0), "got shape (1, 2)", "wrong_shape"),
    ],
)
def test_an_impossible_order_is_refused_with_its_reason_and_the_arm_holds(
    player: ChunkPlayer, order: Order, says: str, cause: str
) -> None:
    player.order(0.0, OrderId(1, 1), Play(ramp_chunk(0.2), step_s=0.05))
    run(player, 0.0, 0.2)
    assert says in because(cause, player.order(0.2, OrderId(1, 2), order))
    assert says in player.fault
    assert player.state is PlayerState.HOLDING
    assert run(player, 0.2, 1.0)[-1, 0] < 0.15


def test_what_is_beyond_a_limit_by_rounding_is_taken_and_stops_at_the_limit(player: ChunkPlayer) -> None:
    assert player.order(0.0, OrderId(1, 1), Play(np.array([[2.0009, 0.0, -0.0009]]), 0.05)) is None
    setpoints = run(player, 0.0, 8.0)
    assert setpoints[:, 0].max() <= 2.0
    assert setpoints[-1, 2] == 0.0
    beyond = Play(np.array([[2.002, 0.0, 0.0]]), 0.05)
    assert "joint 1 is 2.002" in because("joint_limit", player.order(9.0, OrderId(1, 2), beyond))


def test_a_repeated_order_is_no_fault(player: ChunkPlayer) -> None:
    player.order(0.0, OrderId(1, 1), Play(ramp_chunk(0.2), step_s=0.05))
    because("old_order", player.order(0.01, OrderId(1, 1), Play(ramp_chunk(0.2), step_s=0.05)))
    assert (player.fault, player.state) == ("", PlayerState.PLAYING)


def test_a_move_without_a_width_keeps_what_the_gripper_holds(player: ChunkPlayer) -> None:
    player.order(0.0, OrderId(1, 1), MoveTo([0.1, 0.1], 0.01))
    run(player, 0.0, 2.0)
    assert player.order(2.0, OrderId(1, 2), MoveTo([0.0, 0.0], math.nan)) is None
    assert (run(player, 2.0, 2.0)[:, 2] == 0.01).all()


def test_a_slowed_arm_passes_the_same_places_and_takes_longer(player: ChunkPlayer) -> None:
    """Half the speed: half the velocity everywhere, and the gripper closes where it would have closed."""
    chunk = ramp_chunk(0.2)
    player.order(0.0, OrderId(1, 1), Play(chunk, step_s=0.05))
    full = run(player, 0.0, 1.5)
    slow = ChunkPlayer(MOTION, RATE_HZ, velocity_scale=0.5)
    slow.reset([0.0, 0.0], 0.08)
    slow.order(0.0, OrderId(1, 1), Play(chunk, step_s=0.05))
    assert slow.remaining_s(0.0) == pytest.approx(1.6)
    half = run(slow, 0.0, 3.0)
    assert half[-1] == pytest.approx(full[-1], abs=1e-6)
    assert np.diff(half[:, 0]).max() <= np.diff(full[:, 0]).max() / 2 * 1.05
    assert np.diff(half[20:150, 0]).min() > 0, "it does not stop at each waypoint"
    closes_at = [rows[np.argmax(rows[:, 2] < 0.03), 0] for rows in (full, half)]
    assert closes_at[0] == pytest.approx(closes_at[1], abs=0.02)


def test_an_arm_with_another_speed_takes_no_chunk_that_joins_one_in_mid_motion(player: ChunkPlayer) -> None:
    """The speed counts that the arm has when the order is taken: it may have been set after the order was sent."""
    chunk = ramp_chunk(0.2)
    for seq, (counted, now) in enumerate([(1.0, 0.25), (0.5, 1.0), (0.5, 0.25)]):
        player.slow_down(0.0, now)
        said = because(
            "chunk_time", player.order(0.0, OrderId(seq + 1, 1), Play(chunk, 0.05, 0.2, 0.0, counted))
        )
        assert f"velocity_scale {counted:g}, but the arm moves with {now:g}" in said
        begins = Play(chunk, 0.05, velocity_scale=counted)
        assert player.order(0.0, OrderId(seq + 1, 2), begins) is None, (
            "one that begins at rest is only slower"
        )
        player.slow_down(0.0, counted)
        assert player.order(0.0, OrderId(seq + 1, 3), Play(chunk, 0.05, 0.2, 0.0, counted)) is None


def test_a_move_is_slowed_too(player: ChunkPlayer) -> None:
    player.slow_down(0.0, 0.25)
    player.order(0.0, OrderId(1, 1), MoveTo([1.0, -1.0], 0.02))
    way = run(player, 0.0, 8.0)
    assert np.abs(np.diff(way[:, :2], axis=0)).max() * RATE_HZ == pytest.approx(0.25 * 0.3 * 2.0, rel=1e-6)
    assert way[-1] == pytest.approx([1.0, -1.0, 0.02], abs=1e-5)


def test_an_arm_can_be_slowed_in_mid_chunk_and_goes_on_from_there(player: ChunkPlayer) -> None:
    player.order(0.0, OrderId(1, 1), Play(ramp_chunk(0.2), step_s=0.05))
    run(player, 0.0, 0.4)
    player.slow_down(0.4, 0.25)
    assert player.remaining_s(0.4) == pytest.approx(0.4 / 0.25)
    assert run(player, 0.4, 1.5)[-1, 0] < 0.2
    assert player.state is PlayerState.PLAYING
    assert run(player, 1.9, 1.0)[-1, 0] == pytest.approx(0.2, abs=1e-6)
    for wrong in (0.0, -1.0, 1.01, math.nan):
        with pytest.raises(ValueError, match="scale"):
            player.slow_down(3.0, wrong)


targets = st.lists(st.floats(-2.0, 2.0), min_size=2, max_size=2)
orders = st.one_of(
    st.just(Hold()),
    targets.map(lambda q: MoveTo(q, 0.05)),
    st.lists(targets, min_size=1, max_size=6).map(lambda rows: Play([[*q, 0.01] for q in rows], 0.05)),
)


scales = st.sampled_from([1.0, 1.0, 0.5, 0.1])


@settings(max_examples=60)
@given(st.lists(st.tuples(orders, st.integers(1, 40), scales), min_size=1, max_size=8))
def test_no_sequence_of_orders_exceeds_the_limits(story: list[tuple[Order, int, float]]) -> None:
    player = ChunkPlayer(MOTION, RATE_HZ)
    player.reset([0.0, 0.0], 0.08)
    now_s, rows = 0.0, [np.zeros(2)] * 3
    for seq, (order, periods, scale) in enumerate(story, start=1):
        assert player.order(now_s, OrderId(1, seq), order) is None
        player.slow_down(now_s, scale)
        for _ in range(periods):
            player.alive(now_s, player.last)
            rows.append(player.update(now_s).q_rad)
            now_s += 1 / RATE_HZ
    q = np.array(rows)
    velocity, acceleration = np.diff(q, axis=0) * RATE_HZ, np.diff(q, n=2, axis=0) * RATE_HZ**2
    jerk = np.diff(q, n=3, axis=0) * RATE_HZ**3
    assert np.abs(q).max() <= 2.0
    assert np.abs(velocity).max() <= 2.0 + 1e-9
    assert np.abs(acceleration).max() <= 10.0 + 1e-6
    assert np.abs(jerk).max() <= 500.0 + 1e-3


def test_the_robot_plays_a_chunk_as_the_evaluation_does(player: ChunkPlayer) -> None:
    """One waypoint after the other is the filter's target for step_s, then the last one stays (cell/rollout.py)."""
    reference = SetpointFilter(LIMITS, RATE_HZ)
    reference.reset([0.0, 0.0])
    chunk = ramp_chunk(0.2)
    expected = [reference.step(row[:2]) for row in chunk[:8] for _ in range(5)]
    expected += [reference.step(chunk[7, :2]) for _ in range(10)]
    player.order(0.0, OrderId(1, 1), Play(chunk, step_s=0.05, execute_s=0.4))
    assert run(player, 0.0, 0.5)[:, :2] == pytest.approx(np.array(expected), abs=1e-12)
