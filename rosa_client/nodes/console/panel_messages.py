"""Shapes and boards as RViz messages. Everything that RViz demands of them is here."""

from __future__ import annotations

from collections.abc import Callable

from builtin_interfaces.msg import Duration
from geometry_msgs.msg import Point, Pose, Vector3
from std_msgs.msg import ColorRGBA, Header
from visualization_msgs.msg import InteractiveMarker, InteractiveMarkerControl, Marker, MenuEntry

from rosa_client.operator.layout import CUBE, LINE_LIST, LINE_STRIP, SPHERE, TEXT, Board, Shape

KINDS = {
    CUBE: Marker.CUBE,
    SPHERE: Marker.SPHERE,
    TEXT: Marker.TEXT_VIEW_FACING,
    LINE_STRIP: Marker.LINE_STRIP,
    LINE_LIST: Marker.LINE_LIST,
}
LIFETIME_S = 2  # markers that are not sent again disappear: a dead panel must not leave green lights behind


def marker(shape: Shape, frame: str) -> Marker:
    """A shape as a marker in `frame`; "" for a part of an interactive marker, which is placed relative to it.

    Its stamp stays zero: RViz then takes the newest transform instead of waiting for one of that time.
    """
    message = Marker(header=Header(frame_id=frame), ns=shape.group, id=shape.number, type=KINDS[shape.kind])
    message.pose = _pose(shape.position)
    message.scale = Vector3(x=shape.size[0], y=shape.size[1], z=shape.size[2])
    message.color = _colour(shape.colour)
    message.text = shape.text
    message.points = [Point(x=x, y=y, z=z) for x, y, z in shape.points]
    if frame:
        message.lifetime = Duration(sec=LIFETIME_S)
    return message


def deletion(group: str, number: int, frame: str) -> Marker:
    """Removes a marker at once."""
    return Marker(header=Header(frame_id=frame), ns=group, id=number, action=Marker.DELETE)


def interactive_marker(board: Board, frame: str, entry: Callable[[str], int]) -> InteractiveMarker:
    """A board as an interactive marker. `entry(key)` gives the number of a menu entry.

    Every control faces the viewer. A click on the words opens the menu; a button can be clicked, and has the menu on
    the right mouse button as everything here. A marker without any control would make RViz drop the whole display.
    """
    message = InteractiveMarker(header=Header(frame_id=frame), name=board.name, scale=1.0)
    message.description = board.title[:39]
    message.pose = _pose(board.position)
    if board.words:
        message.controls.append(_control("words", InteractiveMarkerControl.MENU, board.words, board.title))
    for button in board.buttons:
        message.controls.append(
            _control(button.key, InteractiveMarkerControl.BUTTON, button.shapes, button.title)
        )
        message.menu_entries.append(
            MenuEntry(id=entry(button.key), title=button.title, command_type=MenuEntry.FEEDBACK)
        )
    return message


def _control(name: str, mode: int, shapes: tuple[Shape, ...], text: str) -> InteractiveMarkerControl:
    control = InteractiveMarkerControl(name=name, interaction_mode=mode, description=text[:39])
    control.orientation_mode = InteractiveMarkerControl.VIEW_FACING
    control.orientation.w = 1.0
    control.always_visible = True
    control.markers = [marker(shape, "") for shape in shapes]
    return control


def _pose(position: tuple[float, float, float]) -> Pose:
    pose = Pose()
    pose.position.x, pose.position.y, pose.position.z = position
    pose.orientation.w = 1.0
    return pose


def _colour(colour: tuple[float, float, float, float]) -> ColorRGBA:
    return ColorRGBA(r=colour[0], g=colour[1], b=colour[2], a=colour[3])
