"""What a robot saw and did, from an MCAP recording: ROSA's own, or of any robot with JointState and pictures.

Of ROSA's own recordings a step is a chunk that the arm was told to play, and what the robot saw when it asked for it.
Of any other a step is a moment in which the arm moved, and what it did then is what it should do.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path as File
from typing import Any

import cv2
import numpy as np

from rosa_server.bags.cdr import CdrError, decode
from rosa_server.bags.records import ROS, RecordingError, records
from rosa_server.trying.steps import GRIPPER, JOINTS, Array, Path, TrialStep
from rosa_server.trying.what_ifs import spread

COMPRESSED, RAW = "sensor_msgs/msg/CompressedImage", "sensor_msgs/msg/Image"
JOINT_STATE, COMMAND, CALL = (
    "sensor_msgs/msg/JointState",
    "rosa_interfaces/msg/ArmCommand",
    "rosa_interfaces/msg/Call",
)
PROMPT = "diagnostic_msgs/msg/KeyValue"
PLAY = 1  # ArmCommand.kind
FINGER = "finger_joint"
MEASURED_STEP_S, MEASURED_ROWS = 0.05, 16  # of what a robot did, where no chunk was recorded
MOVED_RAD = 0.02  # within that time; less is standing still
BEFORE_S = 0.02  # a request leaves so long before its call counts as sent


@dataclass
class _Tracks:
    """Everything but the pictures."""

    joints: list[tuple[float, list[str], Array]] = field(default_factory=list)
    chunks: list[tuple[float, Mapping[str, Any]]] = field(default_factory=list)
    calls: list[tuple[float, float]] = field(
        default_factory=list
    )  # of system1: when it ended, how long it took, s
    prompts: list[tuple[float, str]] = field(default_factory=list)
    pictures: dict[str, list[float]] = field(default_factory=dict)  # topic -> times


def read_steps(
    path: File,
    cameras: Sequence[str],
    joints: Sequence[str] = (),
    robot: str = "",
    limit: int = 30,
    component: str = "system1",
    grippers: int = 1,
) -> list[TrialStep]:
    """At most `limit` steps, evenly over the recording. Raises `RecordingError`.

    `cameras`: which pictures are needed, by name; `joints`: the robot's, in its order; empty: as recorded, without
    fingers; `robot`: its namespace, where there are several; `component`: whose prompt is taken;
    `grippers`: how many the robot has.
    """
    tracks, namespace = _Tracks(), _namespace(path, robot)
    for kind, topic, at_s, message in _messages(path, namespace, pictures=False):
        _note(tracks, kind, topic, at_s, message, component)
    if not tracks.joints:
        raise RecordingError("nothing_recorded", f"{path}: no {JOINT_STATE} on any topic below {namespace}/")
    names = list(joints) or _own_joints(tracks)
    times, rows = _measured(tracks, names, path, grippers)
    moments = _chunk_moments(tracks, names) or moving_moments(times, rows)
    if not moments:
        raise RecordingError(
            "nothing_recorded", f"{path}: the arm did not move, so there is nothing to compare with"
        )
    chosen = [moments[index] for index in spread(len(moments), limit)]
    topics = {camera: _topic_of(camera, tracks.pictures, path) for camera in cameras}
    seen = _pictures(path, namespace, topics, [at_s for at_s, _ in chosen])
    steps = []
    for (at_s, recorded), images in zip(chosen, seen, strict=True):
        if images.keys() == topics.keys() and at_s >= times[0]:
            row = rows[bisect_right(times, at_s) - 1].astype(np.float32)
            state = {JOINTS: row[: len(names)]} | (
                {GRIPPER: row[len(names) :]} if len(row) > len(names) else {}
            )
            steps.append(TrialStep(at_s, images, state, _latest(tracks.prompts, at_s), recorded))
    if not steps:
        raise RecordingError("nothing_recorded", f"{path}: no picture came before any motion")
    return steps


def _own_joints(tracks: _Tracks) -> list[str]:
    for _, chunk in tracks.chunks:
        return [name for name in chunk["names"] if not _orders_gripper(name)]
    # An arm and a gripper often have a publisher each, and either may come first.
    found = (
        [name for name in known if FINGER not in name and "gripper" not in name]
        for _, known, _ in tracks.joints
    )
    return max(found, key=len)


def _orders_gripper(column: str) -> bool:
    """Of a chunk: one gripper's width, with the arm's name before it where there are several."""
    return column == "gripper" or column.endswith("_gripper")


def _measured(tracks: _Tracks, names: Sequence[str], path: File, grippers: int) -> tuple[list[float], Array]:
    """Times and rows `(n, joints)`, and a column more for each gripper that has fingers: their distance, m."""
    times: list[float] = []
    rows: list[list[float]] = []
    for at_s, known, positions in tracks.joints:
        if not set(names) <= set(known):
            continue
        row = [float(positions[known.index(name)]) for name in names]
        widths: dict[str, float] = {}  # by what stands before the finger: the arm
        for name, position in zip(known, positions, strict=False):
            if FINGER in name:
                arm = name.partition(FINGER)[0] if grippers > 1 else ""  # fingers may be left and right
                widths[arm] = widths.get(arm, 0.0) + float(position)
        times.append(at_s)
        rows.append(row + list(widths.values()))
    if not rows:
        had = list(dict.fromkeys(name for _, known, _ in tracks.joints for name in known))
        words = f"no {JOINT_STATE} has {', '.join(names)}; there are {', '.join(had)}"
        raise RecordingError("nothing_recorded", f"{path}: {words}")
    # The arm's own publisher may tell no fingers, and one of everything tell both: only what has all is compared.
    most = max(map(len, rows))
    whole = [index for index, row in enumerate(rows) if len(row) == most]
    return [times[index] for index in whole], np.array([rows[index] for index in whole])


def _chunk_moments(tracks: _Tracks, names: Sequence[str]) -> list[tuple[float, Path]]:
    """Of each chunk, when its observation was taken, and its rows."""
    found = []
    for at_s, chunk in tracks.chunks:
        columns = list(chunk["names"])
        rows = np.asarray(chunk["data"], np.float64)
        if not columns or rows.size % len(columns) or not set(names) <= set(columns):
            continue
        if not 0 < chunk["step_s"] < inf:
            continue
        wanted = [*names, *[name for name in columns if _orders_gripper(name)]]
        rows = rows.reshape(-1, len(columns))[:, [columns.index(name) for name in wanted]]
        nearest = min(tracks.calls, key=lambda call: abs(call[0] - at_s), default=(at_s, 0.0))
        asked_s = nearest[0] - nearest[1] if abs(nearest[0] - at_s) < 0.1 else at_s
        found.append((asked_s - BEFORE_S, Path(rows, float(chunk["step_s"]))))
    return found


def moving_moments(times: Sequence[float], rows: Array) -> list[tuple[float, Path]]:
    """Moments after which the arm moved, and how."""
    grid = np.arange(MEASURED_ROWS) * MEASURED_STEP_S
    every_s = grid[-1] / 4
    found = []
    columns = rows.shape[1]
    for at_s in np.arange(times[0], times[-1] - grid[-1], every_s):
        path = np.stack([np.interp(at_s + grid, times, rows[:, index]) for index in range(columns)], axis=1)
        begins, goes = np.abs(path[MEASURED_ROWS // 4] - path[0]).max(), np.abs(path[-1] - path[0]).max()
        if goes > MOVED_RAD and begins > MOVED_RAD / 4:  # what begins later, nothing shows yet
            found.append((float(at_s), Path(path, MEASURED_STEP_S)))
    return found


def _latest(prompts: Sequence[tuple[float, str]], at_s: float) -> str:
    said = [text for when_s, text in prompts if when_s <= at_s]
    return said[-1] if said else ""


def _topic_of(camera: str, pictures: Mapping[str, Any], path: File) -> str:
    """The topic of a camera: itself, or one with the camera's name between its slashes, compressed pictures first."""
    fitting = [topic for topic in pictures if topic == camera or camera in topic.split("/")]
    if not fitting:
        got = ", ".join(sorted(pictures)) or "no pictures at all"
        raise RecordingError("unknown_camera", f"{path}: no pictures of camera {camera!r}; it has {got}")
    return min(fitting, key=lambda topic: ("compressed" not in topic, len(topic)))


def _pictures(
    path: File, namespace: str, topics: Mapping[str, str], moments: Sequence[float]
) -> list[dict[str, np.ndarray[Any, Any]]]:
    """The newest picture of each camera at each of the moments, which are in order."""
    wanted = {topic: camera for camera, topic in topics.items()}
    newest: dict[str, tuple[str, Mapping[str, Any]]] = {}
    found: list[dict[str, np.ndarray[Any, Any]]] = []
    waiting = list(moments)
    order = sorted(range(len(moments)), key=moments.__getitem__)
    waiting = [moments[index] for index in order]
    if topics:
        for kind, topic, at_s, message in _messages(path, namespace, pictures=True):
            while waiting and at_s > waiting[0]:
                waiting.pop(0)
                found.append({camera: decoded(*newest[camera]) for camera in topics if camera in newest})
            if not waiting:
                break
            if topic in wanted:
                newest[wanted[topic]] = kind, message
    found += [{camera: decoded(*newest[camera]) for camera in topics if camera in newest} for _ in waiting]
    by_moment = dict(zip(order, found, strict=True))
    return [by_moment[index] for index in range(len(moments))]


def decoded(kind: str, message: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """RGB `(height, width, 3)` uint8 of an Image or a CompressedImage. Raises `RecordingError`."""
    if kind == COMPRESSED:
        data = np.frombuffer(message["data"], np.uint8)
        bgr = cv2.imdecode(data, cv2.IMREAD_COLOR) if len(data) else None  # OpenCV raises for none
        if bgr is None:
            raise RecordingError(
                "not_a_recording", f"a picture of format {message['format']!r} cannot be decoded"
            )
        return cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)
    encoding, height, width = message["encoding"], message["height"], message["width"]
    if encoding not in ("rgb8", "bgr8"):
        raise RecordingError("not_a_recording", f"pictures of encoding {encoding!r}; expected rgb8 or bgr8")
    if len(message["data"]) != height * message["step"] or message["step"] < width * 3:
        words = f"a picture of {width}x{height} px in {len(message['data'])} bytes, {message['step']} a row"
        raise RecordingError("not_a_recording", words)
    rows = np.frombuffer(message["data"], np.uint8).reshape(height, message["step"])
    picture = rows[:, : width * 3].reshape(height, width, 3)
    return np.ascontiguousarray(picture[..., ::-1] if encoding == "bgr8" else picture)


def _note(tracks: _Tracks, kind: str, topic: str, at_s: float, message: Any, component: str) -> None:
    if kind in (COMPRESSED, RAW):
        tracks.pictures.setdefault(topic, []).append(at_s)
    elif kind == JOINT_STATE:
        positions = np.asarray(message["position"], np.float64)  # of none, where only velocities are told
        if len(positions):
            tracks.joints.append((at_s, list(message["name"])[: len(positions)], positions))
    elif kind == COMMAND and message["kind"] == PLAY:
        tracks.chunks.append((at_s, message["chunk"]))
    elif kind == CALL and message["component"] == "system1" and message["ending"] == "in_time":
        tracks.calls.append((at_s, message["duration_ms"] / 1000))
    elif kind == PROMPT and topic.endswith("/prompts") and message["key"] == component:
        tracks.prompts.append((at_s, message["value"]))


def _namespace(path: File, robot: str) -> str:
    """Below which the robot's topics are. Raises `RecordingError` where that is not clear."""
    tracks = (track for track, _, _ in records(path) if track.definition_encoding == ROS)
    found = sorted({track.topic.rsplit("/", 1)[0] for track in tracks if track.kind == JOINT_STATE})
    if robot:
        fitting = [one for one in found if robot in one.split("/")]
        if fitting:
            return min(fitting, key=len)
        raise RecordingError(
            "several_robots", f"{path}: no robot {robot!r}; there are {', '.join(found) or 'none'}"
        )
    own = [one for one in found if not any(one.startswith(f"{other}/") for other in found)]
    if len(own) > 1:
        words = ", ".join(one.strip("/") for one in own)
        raise RecordingError("several_robots", f"{path}: several robots, {words}; name one with --namespace")
    return own[0] if own else ""


NEEDED = {COMPRESSED, RAW, JOINT_STATE, COMMAND, CALL, PROMPT}


def _messages(path: File, namespace: str, pictures: bool) -> Iterator[tuple[str, str, float, Any]]:
    """(type, topic, s since 1970, message) of one robot; of pictures either all, or only that they came."""
    for track, time_ns, data in records(path):
        kind, topic, at_s = track.kind, track.topic, time_ns / 1e9
        if track.definition_encoding != ROS:
            continue
        inside = topic.startswith(f"{namespace}/") or (kind in (COMPRESSED, RAW) and not namespace)
        if kind not in NEEDED or not inside:
            continue
        shown = kind in (COMPRESSED, RAW)
        if shown != pictures:
            if shown:
                yield kind, topic, at_s, None
            continue
        try:
            yield kind, topic, at_s, decode(kind, track.definition.decode(), data)
        except CdrError as error:
            raise RecordingError("not_a_recording", f"{path}: {topic}: {error}") from None
