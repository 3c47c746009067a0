"""What the arm enforces by itself: it holds without a living sender, when stopped, when faulty, and inside its box."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_client.motion.arm_orders import Hold, MoveTo, Order, OrderId, Play, PlayerState
from rosa_client.motion.chunk_player import ALIVE_WITHIN_S, GUARD_M, ChunkPlayer
from rosa_client.motion.following import LEAD_S
from rosa_client.motion.limits import MotionLimits
from rosa_client.motion.refusal import Refusal
from rosa_client.motion.setpoint_filter import SetpointFilter
from rosa_contract.config.body.chain import ChainSpec
from rosa_contract.config.robot import GripperSpec, JointLimits, Limb, WorkspaceSpec, load_robot
from tests.unit.client.refusals import because

SPEC = load_robot(Path(__file__).parents[4] / "configs" / "robots" / "panda.yaml")
MOTION = MotionLimits.of(SPEC)
HOME, SAFE = np.array(SPEC.home_rad), np.array(SPEC.safe_rad)
RATE_HZ = 100.0
STOP_S = SetpointFilter(SPEC.limits, RATE_HZ).stop_s


@pytest.fixture
def player() -> ChunkPlayer:
    return at_home()


def at_home() -> ChunkPlayer:
    made = ChunkPlayer(MOTION, RATE_HZ)
    made.reset(HOME, 0.08)
    return made


def run(player: ChunkPlayer, begin_s: float, seconds: float, alive: bool = True) -> np.ndarray:
    """Joint setpoints (n, 7) of the control periods in [begin_s, begin_s + seconds)."""
    rows = []
    for i in range(round(seconds * RATE_HZ)):
        if alive:
            player.alive(begin_s + i / RATE_HZ, player.last)
        setpoint = player.update(begin_s + i / RATE_HZ)
        rows += rows[-1:] if setpoint is None else [setpoint.q_rad]
    return np.array(rows)


def chunk(by_rad: float, horizon: int = 40) -> np.ndarray:
    """(horizon, 8): joint 1 turns by `by_rad` from home."""
    rows = np.tile([*HOME, 0.04], (horizon, 1))
    rows[:, 0] += np.linspace(by_rad / horizon, by_rad, horizon)
    return rows


# -- watchdog --------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [Play(chunk(0.8), 0.05), MoveTo(SAFE, 0.08)])
def test_an_arm_whose_sender_dies_holds_after_100_ms_and_says_why(player: ChunkPlayer, order: Order) -> None:
    assert player.order(0.0, OrderId(1, 1), order) is None
    run(player, 0.0, 0.5)
    run(player, 0.5, ALIVE_WITHIN_S - 0.01, alive=False)  # the last sign of life was at 0.49 s
    assert player.state is not PlayerState.HOLDING
    stopped = run(player, 0.59, 1.0, alive=False)
    assert player.state is PlayerState.HOLDING
    assert player.cut_short == "no sign of life from the runtime for 0.1 s"
    assert np.ptp(stopped[round(STOP_S * RATE_HZ) :], axis=0).max() < 1e-12


def test_the_next_order_that_is_obeyed_clears_it_and_a_late_sign_of_life_starts_nothing(
    player: ChunkPlayer,
) -> None:
    player.order(0.0, OrderId(1, 1), MoveTo(SAFE, 0.08))
    run(player, 0.0, 0.5, alive=False)
    player.alive(0.5, OrderId(1, 1))
    still = run(player, 0.8, 0.5)
    assert np.ptp(still, axis=0).max() < 1e-12
    assert player.cut_short
    assert player.order(1.3, OrderId(1, 2), MoveTo(SAFE, 0.08)) is None
    assert player.cut_short == ""
    assert run(player, 1.3, 5.0)[-1] == pytest.approx(SAFE, abs=1e-6)
    assert player.cut_short == ""


@pytest.mark.parametrize(
    "number", [OrderId(4, 9), OrderId(5, 1), OrderId(5, 3), OrderId(6, 2), OrderId(0, 0)]
)
def test_signs_of_life_of_another_sender_or_about_another_order_do_not_count(
    player: ChunkPlayer, number: OrderId
) -> None:
    player.order(0.0, OrderId(5, 2), MoveTo(SAFE, 0.08))
    for i in range(15):
        player.alive(i / RATE_HZ, number)
        player.update(i / RATE_HZ)
    assert player.cut_short.startswith("no sign of life")


def test_what_is_left_of_a_way_after_the_chunk_s_time_ends_with_the_sender_too(player: ChunkPlayer) -> None:
    """A chunk that asks for more than the speed allows: its time is over, the arm is still on its way."""
    player.order(0.0, OrderId(1, 1), Play(chunk(1.0, horizon=1), 0.05))
    run(player, 0.0, 0.1)
    assert player.state is PlayerState.HOLDING
    rest = run(player, 0.1, 2.0, alive=False)
    assert rest[-1, 0] < 0.5
    assert np.ptp(rest[round((ALIVE_WITHIN_S + STOP_S) * RATE_HZ) :], axis=0).max() < 1e-12


# -- workspace -------------------------------------------------------------------------------------


def test_a_chunk_into_the_table_is_refused_whole_and_the_arm_stays(player: ChunkPlayer) -> None:
    down = np.tile([*HOME, 0.08], (16, 1))
    down[:, 1] += np.linspace(0.0, 0.9, 16)
    said = because("workspace", player.order(0.0, OrderId(1, 1), Play(down, 0.05)))
    assert "(the workspace)" in said and "waypoint" in said and " is at z = " in said
    assert player.fault == said
    assert np.ptp(run(player, 0.0, 1.0), axis=0).max() == 0.0


def test_an_arm_that_was_pushed_out_of_its_box_may_come_in_and_never_goes_farther_out() -> None:
    player = ChunkPlayer(MOTION, RATE_HZ)
    low = np.array(SPEC.drop_rad) + np.array([0, 0.12, 0, 0, 0, 0, 0])
    start_m = MOTION.depth_m(low)
    assert start_m > 0.01
    player.reset(low, 0.08)
    assert player.order(0.0, OrderId(1, 1), MoveTo(SPEC.clear_rad, math.nan)) is None
    way = run(player, 0.0, 6.0)
    assert way[-1] == pytest.approx(SPEC.clear_rad, abs=1e-6)
    assert max(MOTION.depth_m(q) for q in way) <= start_m + GUARD_M


PLANAR = MotionLimits(
    JointLimits((-3.0, -3.0), (3.0, 3.0), (2.0, 2.0), (10.0, 10.0), (500.0, 500.0)),
    [GripperSpec()],
    [
        Limb(
            "",
            slice(0, 2),
            ChainSpec(
                (0.0, 0.5, 0.5), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
            ),  # two links of half a metre in a plane
            WorkspaceSpec((-1.0, -1.0, -1.0), (0.95, 1.0, 1.0)),
            GripperSpec(),
        )
    ],
)
RIGHT, FOLDED, LEFT = (-0.9, 0.0), (0.0, 2.2), (0.9, 0.0)


@pytest.mark.parametrize("begins_outside", [False, True])
def test_an_arm_too_slow_for_its_waypoints_stops_before_it_cuts_the_corner_out_of_the_box(
    begins_outside: bool,
) -> None:
    """By way of the folded arm all is well; straight from right to left the stretched arm would reach 1 m far."""
    player = ChunkPlayer(PLANAR, RATE_HZ)
    player.reset((-0.2, 0.0) if begins_outside else RIGHT, 0.05)
    assert player.order(0.0, OrderId(1, 1), MoveTo(RIGHT, math.nan)) is None
    run(player, 0.0, 4.0)
    hurried = [[*FOLDED, 0.05], [*LEFT, 0.05]]
    assert player.order(4.0, OrderId(1, 2), Play(hurried, 0.02)) is None
    way = run(player, 4.0, 6.0)
    assert "the path leaves the workspace: flange is at x = 0.95" in player.cut_short
    assert max(PLANAR.depth_m(q) for q in way) <= GUARD_M + 0.001
    assert player.order(10.0, OrderId(1, 3), MoveTo(RIGHT, math.nan)) is None
    run(player, 10.0, 4.0)
    slowly = [[*FOLDED, 0.05]] * 100 + [[*LEFT, 0.05]] * 100
    assert player.order(14.0, OrderId(1, 4), Play(slowly, 0.05)) is None
    assert run(player, 14.0, 12.0)[-1] == pytest.approx(LEFT, abs=1e-6)
    assert player.cut_short == ""


# -- emergency stop --------------------------------------------------------------------------------


def test_the_emergency_stop_holds_at_once_and_refuses_until_a_person_releases(player: ChunkPlayer) -> None:
    player.order(0.0, OrderId(1, 1), Play(chunk(0.8), 0.05))
    run(player, 0.0, 0.5)
    assert player.press_emergency_stop("topic /emergency_stop")
    assert player.state is PlayerState.HOLDING
    assert player.cut_short == "the emergency stop was pressed"
    stopping = run(player, 0.5, 1.0)
    assert np.ptp(stopping[round(STOP_S * RATE_HZ) :], axis=0).max() < 1e-12
    for seq, order in ((2, Play(chunk(0.8), 0.05)), (3, MoveTo(SAFE, 0.08))):
        said = because("emergency_stop", player.order(1.5, OrderId(1, seq), order))
        assert said == "the emergency stop is latched; release it first"
    assert player.order(1.5, OrderId(1, 4), Hold()) is None, "an order to hold asks nothing new"
    assert not player.press_emergency_stop("service"), "it is latched already"
    for who, why in (("", "cleared"), ("  ", "cleared"), ("Ada", "")):
        because("missing_text", player.release_emergency_stop(who, why))
    because("text_too_long", player.release_emergency_stop("Ada", "x" * 501))
    assert player.emergency_stop.latched
    assert player.emergency_stop.pressed_by == "topic /emergency_stop"
    assert player.release_emergency_stop("Ada", "the cell is clear") is None
    still = run(player, 1.5, 1.0)
    assert np.ptp(still, axis=0).max() == 0.0, "releasing moves nothing"
    assert player.order(2.5, OrderId(1, 5), MoveTo(SAFE, 0.08)) is None
    because("not_latched", player.release_emergency_stop("Ada", "again"))


def test_it_latches_before_any_order_and_a_refusal_does_not_outlive_the_release(player: ChunkPlayer) -> None:
    player.press_emergency_stop("service")
    assert player.cut_short == "", "nothing was cut short"
    refused = player.order(0.0, OrderId(1, 1), MoveTo(SAFE, 0.08))
    assert because("emergency_stop", refused) == player.fault
    assert player.release_emergency_stop("Ada", "test") is None
    assert player.fault == ""


def test_putting_the_arm_somewhere_else_does_not_unlatch(player: ChunkPlayer) -> None:
    player.press_emergency_stop("service")
    player.reset(SAFE, 0.08)
    because("emergency_stop", player.order(0.0, OrderId(1, 1), MoveTo(HOME, 0.08)))


# -- driver faults ---------------------------------------------------------------------------------


def fault_of(reason: str) -> Refusal:
    return Refusal("arm_driver", reason)


def test_a_driver_fault_stops_and_refuses_and_goes_when_the_driver_has_recovered(player: ChunkPlayer) -> None:
    player.order(0.0, OrderId(1, 1), Play(chunk(0.8), 0.05))
    q = run(player, 0.0, 0.5)[-1]
    player.sense(0.5, q, fault_of("joint 3: cartesian reflex"))
    assert (player.state, player.fault) == (PlayerState.HOLDING, "joint 3: cartesian reflex")
    assert player.fault_cause == "arm_driver"
    assert player.cut_short == "the arm reports: joint 3: cartesian reflex"
    q = run(player, 0.5, 1.0)[-1]
    assert player.update(1.5) is None, "an arm that cannot move gets nothing"
    refused = player.order(1.5, OrderId(1, 2), MoveTo(SAFE, 0.08))
    assert because("arm_fault", refused) == "the arm cannot move: joint 3: cartesian reflex"
    player.sense(1.6, q, None)
    leading = player.update(1.6)
    assert leading is not None and leading.within_s == LEAD_S, "its controller may still stand elsewhere"
    assert leading.q_rad == pytest.approx(q)
    assert player.fault_cause == "arm_returns"
    player.sense(1.6 + LEAD_S, q, None)
    assert (player.fault, player.fault_cause) == ("", "")
    assert player.update(2.6) is not None
    assert player.order(2.6, OrderId(1, 3), MoveTo(SAFE, 0.08)) is None


def faulty_elsewhere(player: ChunkPlayer, by_rad: float) -> np.ndarray:
    """The arm at `HOME` has a fault, after which it stands `by_rad` away and a person says recover; where that is."""
    elsewhere = HOME + by_rad
    player.sense(0.0, HOME, fault_of("brake"))
    run(player, 0.0, 0.1)
    player.sense(0.1, elsewhere, fault_of("brake"))
    assert player.update(0.1) is None
    player.sense(0.2, elsewhere, None)
    assert player.fault_cause == "arm_elsewhere", "no measurement alone moves it"
    assert player.update(0.2) is None
    player.recover(0.2)
    player.sense(0.2, elsewhere, None)
    return elsewhere


def test_an_arm_that_sagged_is_led_on_from_where_it_stands_in_the_time_that_the_way_takes(
    player: ChunkPlayer,
) -> None:
    """One that really stands there does not move; if the measurement lied, the arm moves there slowly."""
    sagged = faulty_elsewhere(player, 0.1)
    leading = player.update(0.2)
    assert leading is not None and leading.q_rad == pytest.approx(sagged)
    assert leading.rest_rad == pytest.approx(sagged)
    joints = SPEC.limits
    assert (1.5 * 0.1 / leading.within_s <= 0.3 * np.array(joints.velocity_rad_s) + 1e-9).all()
    assert (6 * 0.1 / leading.within_s**2 <= np.array(joints.acceleration_rad_s2) + 1e-9).all()
    assert player.fault_cause == "arm_returns"
    because("arm_fault", player.order(0.21, OrderId(1, 1), MoveTo(SAFE, 0.08)))
    player.sense(0.21, sagged, None)
    assert player.update(0.21) is None, "the command is not repeated"
    player.sense(0.2 + leading.within_s, sagged, None)
    assert player.fault == ""
    assert run(player, 2.0, 0.5) == pytest.approx(np.tile(sagged, (50, 1)))


def test_an_arm_that_is_led_on_says_so_and_that_it_did_not_carry_out_what_was_ordered_meanwhile(
    player: ChunkPlayer,
) -> None:
    """Its sender may hear of it only once the fault is over: an arm that merely held would seem to have arrived."""
    assert player.reported is PlayerState.HOLDING
    sagged = faulty_elsewhere(player, 0.1)
    leading = player.update(0.2)
    assert leading is not None and player.reported is PlayerState.RETURNING
    because("arm_fault", player.order(0.21, OrderId(1, 1), MoveTo(SAFE, 0.08)))
    assert player.reported is PlayerState.RETURNING
    player.sense(0.2 + leading.within_s, sagged, None)
    assert (player.fault, player.reported) == ("", PlayerState.HOLDING)
    assert "the arm is led on from where it stands" in player.cut_short
    assert player.order(2.0, OrderId(1, 2), MoveTo(SAFE, 0.08)) is None
    assert (player.cut_short, player.reported) == ("", PlayerState.MOVING)


def test_while_the_stop_is_latched_an_arm_that_was_moved_gets_nothing(player: ChunkPlayer) -> None:
    player.press_emergency_stop("test")
    moved = faulty_elsewhere(player, 0.1)
    assert player.update(0.2) is None
    assert player.fault_cause == "arm_elsewhere"
    assert "0.10 rad from its last setpoint: release the emergency stop," in player.fault
    assert player.release_emergency_stop("Ada", "test") is None
    player.recover(0.3)
    player.sense(0.3, moved, None)
    leading = player.update(0.3)
    assert leading is not None and leading.within_s > 0.1


def test_an_arm_whose_controller_was_active_returns_by_setpoints_and_stops_when_told_to(
    player: ChunkPlayer,
) -> None:
    """As one that something holds: its controller is still at the last setpoint."""
    held, doubt = HOME + 0.3, Refusal("not_following", "it is held")
    player.sense(0.0, held, doubt)
    run(player, 0.0, 0.1)
    player.recover(0.2)
    player.sense(0.2, held, None)
    assert player.fault_cause == "arm_returns"
    way = run(player, 0.2, 0.3)
    assert np.ptp(way, axis=0).min() > 0.01
    assert (
        np.abs(np.diff(way, axis=0)).max(axis=0) * RATE_HZ
        <= 0.3 * np.array(SPEC.limits.velocity_rad_s) + 1e-9
    ).all()
    player.press_emergency_stop("test")
    stopped = run(player, 0.5, 1.0)
    assert np.ptp(stopped[round(STOP_S * RATE_HZ) :], axis=0).max() < 1e-9
    player.sense(1.5, held, None)
    assert player.fault_cause == "arm_elsewhere"
    player.release_emergency_stop("Ada", "test")
    player.sense(1.6, held, None)
    assert player.fault_cause == "arm_elsewhere", "what was said before the stop counts no more"
    player.recover(1.6)
    player.sense(1.6, held, None)
    assert run(player, 1.6, 3.0)[-1] == pytest.approx(held)
    player.sense(4.6, held, None)
    assert player.fault == ""


def test_a_recovery_without_a_fault_allows_nothing_later(player: ChunkPlayer) -> None:
    player.recover(0.0)
    player.sense(0.0, HOME, fault_of("brake"))
    run(player, 0.0, 0.1)
    player.sense(0.2, HOME + 0.1, None)
    assert (player.update(0.2), player.fault_cause) == (None, "arm_elsewhere")


def test_an_arm_that_cannot_be_led_stays_without_commands_until_it_is_put_back() -> None:
    player = ChunkPlayer(MOTION, RATE_HZ, leads=False)
    player.reset(HOME, 0.08)
    faulty_elsewhere(player, 0.1)
    assert (player.update(0.2), player.fault_cause) == (None, "arm_elsewhere")
    player.sense(5.0, HOME, None)
    assert player.fault == ""
    again = player.update(5.0)
    assert again is not None and again.q_rad == pytest.approx(HOME)


def test_an_arm_that_was_moved_out_of_its_workspace_is_not_led_there(player: ChunkPlayer) -> None:
    low = np.array(SPEC.drop_rad) + np.array([0, 0.12, 0, 0, 0, 0, 0])
    player.sense(0.0, HOME, fault_of("brake"))
    run(player, 0.0, 0.1)
    player.recover(0.2)
    player.sense(0.2, low, None)
    assert (player.update(0.2), player.fault_cause) == (None, "arm_elsewhere")
    assert "last setpoint: workspace: put it back" in player.fault


def test_a_fault_on_the_way_back_waits_until_that_way_is_over(player: ChunkPlayer) -> None:
    """The controller finishes what it was sent: what comes next must begin there."""
    sagged = faulty_elsewhere(player, 0.1)
    leading = player.update(0.2)
    assert leading is not None
    player.sense(0.25, sagged, fault_of("brake"))
    player.sense(0.26, HOME, None)
    assert player.update(0.26) is None
    over_s = 0.2 + leading.within_s + 0.01
    player.sense(over_s, sagged, None)
    again = player.update(over_s)
    assert again is not None and again.q_rad == pytest.approx(sagged)
    player.sense(over_s + again.within_s, sagged, None)
    assert player.fault == ""


def test_an_arm_that_is_told_to_rest_in_mid_motion_ramps_down(player: ChunkPlayer) -> None:
    player.order(0.0, OrderId(1, 1), Play(chunk(0.8), 0.05))
    run(player, 0.0, 0.08)
    player.come_to_rest("the arm node ends")
    assert player.cut_short == "the arm node ends"
    run(player, 0.08, 1.0)
    assert player.settled


# -- whatever comes --------------------------------------------------------------------------------

joints = st.tuples(
    *[
        st.floats(low, high)
        for low, high in zip(SPEC.limits.position_min_rad, SPEC.limits.position_max_rad, strict=True)
    ]
)
near = st.tuples(*[st.floats(-0.5, 0.5)] * 7).map(lambda by: tuple(np.clip(HOME + by, *JOINT_RANGE)))
JOINT_RANGE = np.array(SPEC.limits.position_min_rad), np.array(SPEC.limits.position_max_rad)
places = st.one_of(near, near, joints)
orders = st.one_of(
    st.just(Hold()),
    places.map(lambda q: MoveTo(q, math.nan)),
    st.tuples(st.lists(places, min_size=1, max_size=6), st.sampled_from([0.02, 0.05, 0.3])).map(
        lambda it: Play([[*q, 0.01] for q in it[0]], it[1])
    ),
)
# What happens next, for how many periods, how often the sender is heard meanwhile (0: never), at what speed.
stories = st.lists(
    st.tuples(
        st.one_of(orders, st.sampled_from(["press", "release", "fault", "recover", "gap"])),
        st.integers(1, 60),
        st.sampled_from([0, 1, 2, 8]),
        st.sampled_from([1.0, 1.0, 0.3]),
    ),
    min_size=1,
    max_size=10,
)


@pytest.mark.slow
@settings(max_examples=120)
@given(stories)
def test_whatever_comes_nothing_moves_out_of_sight_or_when_stopped_and_no_setpoint_leaves_the_limits(
    story: list[tuple[Order | str, int, int, float]],
) -> None:
    player = at_home()
    low, high = JOINT_RANGE
    now_s, heard_s, seq, fault = 0.0, 0.0, 0, ""
    forbidden_s = 0.0  # since when nothing may move
    before = HOME
    for event, periods, hear_every, scale in story:
        player.slow_down(now_s, scale)
        if event == "press":
            player.press_emergency_stop("test")
        elif event == "release":
            player.release_emergency_stop("Ada", "test")
        elif event in ("fault", "recover"):
            fault = "brake" if event == "fault" else ""
        elif not isinstance(event, str):
            seq += 1
            player.order(now_s, OrderId(1, seq), event)
            heard_s = now_s
        for period in range(periods):
            now_s += 1 / RATE_HZ
            if hear_every and period % hear_every == 0:
                player.alive(now_s, OrderId(1, seq))
                heard_s = now_s
            player.sense(now_s, before, fault_of(fault) if fault else None)
            setpoint = player.update(now_s)
            q = before if setpoint is None else setpoint.q_rad
            silent = now_s - heard_s >= ALIVE_WITHIN_S + 1e-9
            if not (silent or fault or player.emergency_stop.latched):
                forbidden_s = math.inf
            else:
                forbidden_s = min(forbidden_s, now_s)
                assert player.state is PlayerState.HOLDING
            if now_s > forbidden_s + STOP_S:
                assert np.abs(q - before).max() < 1e-9
            assert ((q >= low - 1e-9) & (q <= high + 1e-9)).all()
            assert MOTION.depth_m(q) <= 0.005
            assert np.abs(q - before).max() * RATE_HZ <= 0.3 * 2.61 + 1e-9
            before = q
