"""Where things stand: the emergency stop never moves, nothing covers a button, and RViz can draw every word."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from rosa_client.nodes.console.panel_messages import interactive_marker, marker
from rosa_client.operator.bases import Bases, format_bases, parse_bases
from rosa_client.operator.choices import STOP
from rosa_client.operator.layout import (
    BUTTON_M,
    LINE_STRIP,
    TEXT,
    Base,
    Board,
    board,
    plain,
    scene,
    stop_all_board,
)
from rosa_client.operator.robot_view import RobotView
from rosa_contract.errors import ConfigError
from tests.unit.client.operator.stage import alert, arm, component, decision, robot, status, waiting

HERE = Base()
ZONE = ((-0.3, -0.5, 0.0), (0.8, 0.5, 1.0))


def stop_of(one: Board) -> tuple[float, ...]:
    (button,) = [button for button in one.buttons if button.key == STOP]
    return tuple(a + b for a, b in zip(one.position, button.shapes[0].position, strict=True))


def test_the_emergency_stop_is_always_there_and_never_moves() -> None:
    stopped = waiting()
    stopped.hear_arm(100.0, arm(stopped=True))
    views = [RobotView("/panda0", 0.0), robot(), waiting(), stopped]
    assert len({stop_of(board(view, HERE)) for view in views}) == 1


def test_no_button_covers_another() -> None:
    view = waiting()
    heights = sorted(button.shapes[0].position[2] for button in board(view, HERE).buttons)
    assert len(heights) == 5
    assert all(high - low > BUTTON_M[2] for low, high in itertools.pairwise(heights))


def test_a_board_changes_only_when_there_is_something_else_to_click() -> None:
    """RViz closes the menu of a marker that is sent again, so time and latencies must not be on it."""
    view = waiting(100.0)
    before = board(view, HERE)
    view.hear_status(101.0, status("waiting_for_human", component(last_ms=99, in_a_row=2)))
    view.hear_outcome(101.0, "resume by anna: asked", True)
    assert board(view, HERE) == before
    view.hear_alert(102.0, alert(2))
    assert board(view, HERE) != before


def test_the_state_stands_above_what_can_be_clicked() -> None:
    for view in (robot(), waiting(), waiting(100.0)):
        view.hear_alert(100.0, alert(1, reason="word " * 60))
        one = board(view, HERE)
        top_m = one.position[2] + max(shape.position[2] for b in one.buttons for shape in b.shapes)
        (state,) = [s for s in scene(view, HERE, 100.1) if s.group.endswith("/state")]
        assert state.position[2] > top_m + BUTTON_M[2] / 2


def test_everything_of_a_robot_turns_and_shifts_with_its_base() -> None:
    base = Base(1.0, 2.0, 0.1, math.pi / 2)
    assert base.place((1.0, 0.0, 0.5)) == pytest.approx((1.0, 3.0, 0.6))
    view = robot()
    for here, there in zip(scene(view, HERE, 100.1, [ZONE]), scene(view, base, 100.1, [ZONE]), strict=True):
        for point, moved in zip(
            here.points or [here.position], there.points or [there.position], strict=True
        ):
            assert moved == pytest.approx(base.place(point))


def test_the_zone_is_the_twelve_edges_of_its_box() -> None:
    (zone,) = [shape for shape in scene(robot(), HERE, 100.1, [ZONE]) if shape.group.endswith("/zone")]
    edges = {frozenset(pair) for pair in zip(zone.points[::2], zone.points[1::2], strict=True)}
    corners = {point for edge in edges for point in edge}
    assert (len(edges), len(corners)) == (12, 8)
    assert all(sum(a != b for a, b in zip(*edge, strict=True)) == 1 for edge in edges)


def test_no_two_shapes_have_one_name() -> None:
    """RViz reports markers of one message that share namespace and number, and draws only the last."""
    view = waiting()
    view.hear_status(100.0, status("executing", component("system1"), component("monitor")))
    view.hear_decision(100.0, decision("stop_and_resend", "slo_missed"))
    shapes = scene(view, HERE, 100.1, [ZONE])
    assert len({(shape.group, shape.number) for shape in shapes}) == len(shapes)


def test_a_silent_robot_says_so_and_its_path_is_gone() -> None:
    view = robot(100.0)
    view.path_m = np.zeros((1, 3, 3))
    assert any(shape.kind == LINE_STRIP for shape in scene(view, HERE, 100.1))
    later = scene(view, HERE, 105.0)
    assert not any(shape.kind == LINE_STRIP for shape in later)
    assert any("no sign of life for 5 s" in shape.text for shape in later)


def test_an_arm_that_is_gone_is_said_too() -> None:
    view = robot(100.0)
    view.hear_arm(100.0, arm())
    view.hear_status(104.0, status())
    assert "the arm has been silent for 4 s" in " ".join(scene(view, HERE, 104.1)[0].text.split("\n"))
    view.hear_arm(104.1, arm())
    assert "silent" not in scene(view, HERE, 104.2)[0].text


def test_a_long_reason_is_cut_before_it_covers_the_room() -> None:
    view = waiting()
    view.hear_alert(100.0, alert(1, reason="word " * 2000))
    (words,) = board(view, HERE).words
    assert words.text.count("\n") <= 7
    assert words.text.endswith(" ...")


def test_words_are_of_letters_that_rviz_can_draw() -> None:
    assert plain("Gerät\t\u2028stop→\n") == "Ger?t  stop?\n"
    view = RobotView("/panda0", 100.0)
    said = status("waiting_for_human")
    said.task = "köpfe"
    view.hear_status(100.0, said)
    view.hear_alert(100.0, alert(reason="Überlast – 3 µs"))
    one = board(view, HERE)
    shapes = [*one.words, *(s for b in one.buttons for s in b.shapes), *scene(view, HERE, 100.1)]
    texts = [shape.text for shape in shapes if shape.kind == TEXT]
    assert texts
    assert all(text and text.isascii() for text in texts), "and an empty text is none"


def test_one_button_stops_all_and_stands_beside_them() -> None:
    one = stop_all_board([Base(y_m=1.6), Base(y_m=0.0)])
    assert [button.key for button in one.buttons] == [STOP]
    assert one.position[1] < 0.0


def test_messages_keep_the_rules_of_rviz() -> None:
    one = interactive_marker(waiting_board(), "world", lambda key: 1 + len(key))
    assert one.header.frame_id == "world"
    assert one.header.stamp.sec == 0, "a stamp would make RViz wait for a transform of that time"
    assert one.controls, "a marker without controls makes RViz drop the display"
    assert len({control.name for control in one.controls}) == len(one.controls)
    for control in one.controls:
        assert control.markers
        assert all(part.header.frame_id == "" for part in control.markers), "placed relative to the board"
    assert all(entry.id > 0 and entry.parent_id == 0 for entry in one.menu_entries)
    drawn = [marker(shape, "world") for shape in scene(waiting(), HERE, 100.1, [ZONE])]
    assert all(m.lifetime.sec > 0 for m in drawn), "a panel that dies leaves nothing behind"
    assert all(m.color.a > 0 and m.pose.orientation.w == 1.0 for m in drawn)


def waiting_board() -> Board:
    return board(waiting(), HERE)


def test_robots_stand_where_the_parameter_says_and_the_others_beside_them() -> None:
    bases = Bases(parse_bases("panda0: 0 0 0 0; /panda1/: 1 2.5 0.1 3.14;"))
    assert bases.of("/panda1") == Base(1, 2.5, 0.1, 3.14)
    left, right = bases.of("/left"), bases.of("/right")
    assert left.y_m > 2.5 + 1.0
    assert right.y_m > left.y_m + 1.0
    assert bases.of("/left") == left, "a place is kept"
    text = "panda0: 0 0 0 0; panda1: 1 2.5 0.1 3.14"
    assert format_bases(parse_bases(text)) == text
    assert parse_bases("") == {}


@pytest.mark.parametrize("text", ["panda0", "panda0: 1 2 3", "panda0: 1 2 3 x", ": 1 2 3 4", "a: 1 2 3 nan"])
def test_a_wrong_place_is_explained(text: str) -> None:
    with pytest.raises(ConfigError, match="expected 'namespace: x y z yaw; "):
        parse_bases(text)
