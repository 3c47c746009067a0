"""What a robot saw and did, from an episode of a LeRobot dataset (formats 2.1 and 3.0).

A step is a moment in which the arm moved, and what it did then is what it should do, as of a recording without chunks.
The dataset's `observation.state` has to be the robot's joints and grippers; in which units, only its owner knows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any

import cv2
import numpy as np

from rosa_contract.config.conventions import OF_RANGE, WIDTH, from_range, from_unit, gripper_from
from rosa_contract.wording import nearest
from rosa_server.bags.records import RecordingError
from rosa_server.trying.recordings import moving_moments
from rosa_server.trying.steps import GRIPPER, JOINTS, Array, TrialStep
from rosa_server.trying.what_ifs import spread

STATE, PICTURES = "observation.state", "observation.images."
MAX_RAD = 4 * np.pi  # no joint of an arm is that far from its zero: these are no radians
Rows = Sequence[Mapping[str, Any]]  # of a table, a mapping of columns each
Table = Callable[[File, Sequence[str]], Rows]


@dataclass(frozen=True)
class Units:
    """How the dataset writes the robot's state."""

    joints: str = "rad"  # of `JOINT_UNITS`
    gripper: str = WIDTH  # of `GRIPPERS`, but for pairs of fingers
    ranges: Sequence[tuple[float, float]] = ((0.0, 0.08),)  # closed and open width of each gripper, m
    limits_rad: tuple[Array, Array] | None = None  # lowest and highest position of each joint


def is_dataset(path: File) -> bool:
    return (path / "meta" / "info.json").is_file()


def read_episode(
    path: File,
    cameras: Sequence[str],
    joints: Sequence[str],
    units: Units,
    episode: int = 0,
    limit: int = 30,
    table: Table | None = None,
) -> list[TrialStep]:
    """At most `limit` steps, evenly over the episode. Raises `RecordingError`.

    `cameras`: which pictures are needed, by name; `joints`: the robot's, in its order; empty: every column that is no
    gripper; `table`: reads columns of a table, by default of a Parquet file.
    """
    place = _Dataset(path, table or parquet)
    place.check(episode)
    columns = place.joint_columns(joints)
    keys = {camera: place.picture_key(camera) for camera in cameras}
    stored = [key for key in keys.values() if place.features[key]["dtype"] == "image"]
    rows = place.rows(episode, [STATE, "timestamp", "task_index", *stored])
    times = [float(row["timestamp"]) for row in rows]
    measured = _measured(np.array([row[STATE] for row in rows], np.float64), *columns, units, path)
    moments = moving_moments(times, measured)
    if not moments:
        raise RecordingError("nothing_recorded", f"{path}: nothing moves in episode {episode}")
    chosen = [moments[index] for index in spread(len(moments), limit)]
    at = [int(np.searchsorted(times, at_s + 1e-6, "right")) - 1 for at_s, _ in chosen]
    seen = {
        camera: [decoded(rows[index][key], path) for index in at]
        if key in stored
        else place.film(key, episode, [times[index] for index in at])
        for camera, key in keys.items()
    }
    count = len(columns[0])
    steps = []
    for number, (index, (at_s, recorded)) in enumerate(zip(at, chosen, strict=True)):
        row = measured[index].astype(np.float32)
        state: dict[str, Array] = {JOINTS: row[:count]} | ({GRIPPER: row[count:]} if columns[1] else {})
        images = {camera: pictures[number] for camera, pictures in seen.items()}
        steps.append(TrialStep(at_s, images, state, place.task(int(rows[index]["task_index"])), recorded))
    return steps


def _measured(
    values: Array, joints: Sequence[int], grippers: Sequence[int], units: Units, path: File
) -> Array:
    """`(n, joints + grippers)`, rad and m."""
    if units.joints == OF_RANGE:
        if units.limits_rad is None:
            words = f"{path}: {OF_RANGE} needs the joints' limits: --robot FILE"
            raise RecordingError("wrong_units", words)
        q_rad = from_range(values[:, joints], *units.limits_rad)
    else:
        q_rad = from_unit(values[:, joints], units.joints)
    if np.abs(q_rad).max() > MAX_RAD:
        words = f"{path}: {STATE} goes up to {np.abs(values[:, joints]).max():.4g}, which cannot be {units.joints}"
        raise RecordingError("wrong_units", f"{words}; say which unit, such as --recorded-unit deg")
    widths = []
    for number, column in enumerate(grippers):
        ends = units.ranges[min(number, len(units.ranges) - 1)]
        widths.append(gripper_from(units.gripper, values[:, column], *ends)[:, None])
    return np.concatenate([q_rad, *widths], axis=1)


class _Dataset:
    """Where things are in a dataset."""

    def __init__(self, path: File, table: Table) -> None:
        self._path, self._table = path, table
        try:
            self._info = json.loads((path / "meta" / "info.json").read_text())
            self.features: Mapping[str, Any] = self._info["features"]
            self._old = str(self._info["codebase_version"]).startswith("v2")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RecordingError("not_a_recording", f"{path}/meta/info.json: {error!r}") from None

    def check(self, episode: int) -> None:
        """Raise where it has no such episode, or no state."""
        count = int(self._info.get("total_episodes", 0))
        if not 0 <= episode < count:
            raise RecordingError(
                "nothing_recorded", f"{self._path}: it has episodes 0 to {count - 1}, got {episode}"
            )
        if STATE not in self.features:
            got = ", ".join(self.features)
            raise RecordingError("nothing_recorded", f"{self._path}: it has no {STATE}; it has {got}")

    def joint_columns(self, joints: Sequence[str]) -> tuple[list[int], list[int]]:
        """Which columns of the state are the robot's joints, in its order, and which are its grippers."""
        names = _names(self.features[STATE])
        grippers = [index for index, name in enumerate(names) if "gripper" in name]
        others = [index for index in range(len(names)) if index not in grippers]
        if joints and set(joints) <= set(names):
            return [names.index(joint) for joint in joints], grippers
        if joints and len(others) != len(joints):
            if len(names) == len(joints) + 1 and not grippers:  # columns without names
                return list(range(len(joints))), [len(joints)]
            words = f"{STATE} has {', '.join(names)}; expected the robot's joints, {', '.join(joints)}"
            raise RecordingError("nothing_recorded", f"{self._path}: {words}, and its grippers")
        return others, grippers

    def picture_key(self, camera: str) -> str:
        """The feature that shows what a camera saw."""
        shown = {
            key: key.removeprefix(PICTURES)
            for key, one in self.features.items()
            if one.get("dtype") in ("image", "video")
        }
        for key, name in shown.items():
            if camera in (key, name):
                return key
        got = ", ".join(shown.values()) or "no pictures at all"
        hint = nearest(camera, shown.values())
        words = f"{self._path}: no pictures of camera {camera!r}{hint}; it has {got}"
        raise RecordingError("unknown_camera", words)

    def rows(self, episode: int, columns: Sequence[str]) -> Rows:
        """One episode's rows of the table."""
        where = self._named(self._info["data_path"], episode, "data")
        found = self._table(where, ["episode_index", *columns])
        return [row for row in found if int(row["episode_index"]) == episode]

    def task(self, index: int) -> str:
        """What the robot was told."""
        if self._old:
            lines = (self._path / "meta" / "tasks.jsonl").read_text().splitlines()
            told = {int(one["task_index"]): str(one["task"]) for one in map(json.loads, lines)}
        else:
            rows = self._table(self._path / "meta" / "tasks.parquet", [])
            # pandas wrote the task as the table's index, which has no name of its own in some versions
            told = {int(row["task_index"]): str(_task_of(row)) for row in rows}
        return told.get(index, "")

    def film(self, key: str, episode: int, times_s: Sequence[float]) -> list[np.ndarray[Any, Any]]:
        """The pictures of a video at these times of the episode, which are in order."""
        begins_s = 0.0 if self._old else float(self._episode(episode)[f"videos/{key}/from_timestamp"])
        where = self._named(self._info["video_path"], episode, f"videos/{key}", video_key=key)
        fps = float(self._info["fps"])
        return list(frames_at(where, [begins_s + one for one in times_s], fps))

    def _named(self, template: str, episode: int, kind: str, **more: str) -> File:
        if self._old:
            chunk = episode // int(self._info.get("chunks_size", 1000))
            return self._path / template.format(episode_chunk=chunk, episode_index=episode, **more)
        row = self._episode(episode)
        at = {name: int(row[f"{kind}/{name}"]) for name in ("chunk_index", "file_index")}
        return self._path / template.format(**at, **more)

    def _episode(self, episode: int) -> Mapping[str, Any]:
        for file in sorted((self._path / "meta" / "episodes").glob("*/*.parquet")):
            for row in self._table(file, []):
                if int(row["episode_index"]) == episode:
                    return row
        raise RecordingError(
            "nothing_recorded", f"{self._path}: no file of meta/episodes has episode {episode}"
        )


def _task_of(row: Mapping[str, Any]) -> Any:
    return next((value for name, value in row.items() if name != "task_index"), "")


def _names(feature: Mapping[str, Any]) -> list[str]:
    """Of a feature's columns; `.pos` behind a name is LeRobot's way to say that it is a position."""
    given: Any = feature.get("names")
    if isinstance(given, Mapping):  # {"motors": [...]}
        given = next(iter(given.values()), None)
    count = int(feature["shape"][0])
    if not isinstance(given, list) or len(given) != count:
        return [f"column {number}" for number in range(count)]
    return [str(one).removesuffix(".pos") for one in given]


def parquet(path: File, columns: Sequence[str]) -> Rows:
    """Rows of a Parquet file, of these columns; none named: of all. Raises `RecordingError`."""
    try:
        from pyarrow import ArrowException
        from pyarrow import parquet as files
    except ImportError:
        raise RecordingError(
            "needs_package", f"{path}: datasets of LeRobot need the package pyarrow: pip install pyarrow"
        ) from None
    try:
        rows: Rows = files.read_table(path, columns=list(columns) or None).to_pylist()
        return rows
    except (OSError, ArrowException) as error:
        raise RecordingError("not_a_recording", f"{path}: {error}") from None


def decoded(cell: Any, path: File) -> np.ndarray[Any, Any]:
    """RGB `(height, width, 3)` uint8 of a picture in a table: its bytes, or where its file is."""
    data = cell.get("bytes") if isinstance(cell, Mapping) else None
    if data is None and isinstance(cell, Mapping) and cell.get("path"):
        file = path / str(cell["path"])
        data = file.read_bytes() if file.is_file() else None
    bgr = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) if data else None
    if bgr is None:
        raise RecordingError("not_a_recording", f"{path}: a picture of it cannot be decoded")
    return cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)


def frames_at(path: File, times_s: Sequence[float], fps: float) -> Iterator[np.ndarray[Any, Any]]:
    """RGB frames of a video at these times, which are in order. Raises `RecordingError`."""
    try:
        import av  # OpenCV's wheels cannot decode AV1, which LeRobot writes
    except ImportError:
        raise RecordingError(
            "needs_package", f"{path}: videos of LeRobot's datasets need the package av: pip install av"
        ) from None
    waiting = list(times_s)
    try:
        with av.open(str(path)) as film:
            stream = film.streams.video[0]
            if stream.time_base is None:
                raise RecordingError("not_a_recording", f"{path}: its video says no times")
            film.seek(max(0, int((waiting[0] - 1.0) / float(stream.time_base))), stream=stream)
            for frame in film.decode(stream):
                while waiting and frame.time is not None and frame.time > waiting[0] - 0.5 / fps:
                    waiting.pop(0)
                    yield frame.to_ndarray(format="rgb24")
                if not waiting:
                    return
    except (OSError, av.FFmpegError, IndexError) as error:
        raise RecordingError("not_a_recording", f"{path}: {error}") from None
    raise RecordingError("not_a_recording", f"{path}: it ends before {waiting[0]:.2f} s")
