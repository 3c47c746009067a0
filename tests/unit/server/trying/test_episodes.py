"""Episodes of LeRobot's datasets, in both of their formats, as steps to try a model along.

Their tables are rows here, as Parquet's reader gives them; `make test-lerobot` reads datasets that LeRobot wrote.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import cv2
import numpy as np
import pytest

from rosa_contract.config.conventions import gripper_in
from rosa_server.bags.records import RecordingError
from rosa_server.trying.asker import TrialAsker
from rosa_server.trying.episodes import Rows, Units, frames_at, is_dataset, read_episode
from rosa_server.trying.judges import judge
from rosa_server.trying.trial import TriedRobot, try_model
from tests.unit.server.trying.toy import OPEN_M, STEP_S, ToyPolicy, frames

FPS = round(1 / STEP_S)
UNITS = Units("deg", "open_percent", ((0.0, OPEN_M),))
JOINTS = ("shoulder", "elbow")
FORMATS = ("v2.1", "v3.0")


class Dataset:
    """Two episodes, of which the second is the toy's world; the first stands still."""

    def __init__(self, folder: Path, version: str, films: bool = False, **state: Any) -> None:
        self.folder, self._tables = folder, dict[Path, list[dict[str, Any]]]()
        old = version.startswith("v2")
        names = [f"{name}.pos" for name in (*JOINTS, "gripper")]
        kind = "video" if films else "image"
        features: dict[str, Any] = {
            f"observation.images.{camera}": {"dtype": kind, "shape": [32, 32, 3], "names": ["h", "w", "c"]}
            for camera in ("front", "wrist")
        }
        features["observation.state"] = {"dtype": "float32", "shape": [3], "names": names} | state
        chunk = "chunk-{episode_chunk:03d}" if old else "chunk-{chunk_index:03d}"
        file = "episode_{episode_index:06d}" if old else "file-{file_index:03d}"
        info = {
            "codebase_version": version,
            "fps": FPS,
            "total_episodes": 2,
            "features": features,
            "data_path": f"data/{chunk}/{file}.parquet",
            "video_path": f"videos/{chunk}/{{video_key}}/{file}.mp4"
            if old
            else f"videos/{{video_key}}/{chunk}/{file}.mp4",
        }
        (folder / "meta" / "episodes" / "chunk-000").mkdir(parents=True)
        (folder / "meta" / "info.json").write_text(json.dumps(info))
        rows = list(frames())
        tables = [[_cells(0, number, rows[0], films) for number in range(FPS)]]
        tables.append([_cells(1, number, row, films) for number, row in enumerate(rows)])
        if old:
            told = [{"task_index": 0, "task": "rest"}, {"task_index": 1, "task": "go to red"}]
            (folder / "meta" / "tasks.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in told))
            for number, table in enumerate(tables):
                self._tables[folder / f"data/chunk-000/episode_{number:06d}.parquet"] = table
        else:
            self._tables[folder / "data/chunk-000/file-000.parquet"] = [
                row for table in tables for row in table
            ]
            self._tables[folder / "meta/tasks.parquet"] = [
                {"task_index": 0, "__index_level_0__": "rest"},
                {"task_index": 1, "__index_level_0__": "go to red"},
            ]
            listed = folder / "meta/episodes/chunk-000/file-000.parquet"
            listed.touch()
            begins = {key: 1.0 for key in features if films and "images" in key}
            self._tables[listed] = [
                {"episode_index": number, "data/chunk_index": 0, "data/file_index": 0}
                | {f"videos/{key}/{name}": 0 for key in begins for name in ("chunk_index", "file_index")}
                | {f"videos/{key}/from_timestamp": begins[key] * number for key in begins}
                for number in range(2)
            ]
        if films:
            for camera in ("front", "wrist"):
                key = f"observation.images.{camera}"
                pictures = [row[camera] for row in rows]
                where = f"chunk-000/{key}/episode_000001" if old else f"{key}/chunk-000/file-000"
                film(folder / f"videos/{where}.mp4", pictures if old else [pictures[0]] * FPS + pictures)

    def table(self, path: Path, columns: Sequence[str]) -> Rows:
        wanted = self._tables[path]
        assert all(name in wanted[0] for name in columns)
        return [{name: row[name] for name in columns or row} for row in wanted]


def _cells(episode: int, number: int, row: Mapping[str, Any], films: bool) -> dict[str, Any]:
    percent = gripper_in("open_percent", row["row"][2:], 0.0, OPEN_M)
    pictures = {} if films else {f"observation.images.{name}": _png(row[name]) for name in ("front", "wrist")}
    return {
        "episode_index": episode,
        "timestamp": number / FPS,
        "task_index": episode,
        "observation.state": [*np.degrees(row["row"][:2]), *percent],
        **pictures,
    }


def _png(picture: np.ndarray[Any, Any]) -> dict[str, Any]:
    return {
        "bytes": cv2.imencode(".png", np.ascontiguousarray(picture[..., ::-1]))[1].tobytes(),
        "path": None,
    }


def film(path: Path, pictures: Sequence[np.ndarray[Any, Any]]) -> None:
    """A video of them, at the dataset's rate."""
    path.parent.mkdir(parents=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS)
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv444p"
        stream.options = {"qp": "0"}
        for picture in pictures:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())


@pytest.mark.slow
@pytest.mark.parametrize("films", [False, True], ids=["pictures", "videos"])
@pytest.mark.parametrize("version", FORMATS)
def test_the_right_policy_fits_an_episode_and_the_wrong_one_is_named(
    tmp_path: Path, version: str, films: bool
) -> None:
    dataset = Dataset(tmp_path / "data", version, films)
    assert is_dataset(dataset.folder) and not is_dataset(tmp_path)
    steps = read_episode(dataset.folder, ["front", "wrist"], JOINTS, UNITS, 1, 12, dataset.table)
    assert 4 <= len(steps) <= 12
    assert {step.prompt for step in steps} == {"go to red"}
    body = TriedRobot((np.full(2, -3.0), np.full(2, 3.0)), ((0.0, OPEN_M),))

    def causes(policy: ToyPolicy) -> list[str]:
        return [
            one.cause for one in judge(try_model(TrialAsker(policy, "system1", STEP_S * 16), steps, body))
        ]

    assert causes(ToyPolicy()) == []
    assert causes(ToyPolicy(deg=True)) == ["degrees_for_radians"]
    assert causes(ToyPolicy(closed=True)) == ["gripper_upside_down"]


def test_joints_are_found_by_name_in_the_robots_order(tmp_path: Path) -> None:
    dataset = Dataset(tmp_path, "v3.0")
    [one] = read_episode(tmp_path, [], JOINTS[::-1], UNITS, 1, 1, dataset.table)
    [other] = read_episode(tmp_path, [], JOINTS, UNITS, 1, 1, dataset.table)
    assert np.allclose(one.state["joint_position"][::-1], other.state["joint_position"])
    assert np.abs(other.state["joint_position"]).max() < 1.0
    assert one.state["gripper_width"][0] in (0.0, np.float32(OPEN_M))


def test_shares_of_a_joints_range_are_read_with_the_robots_limits(tmp_path: Path) -> None:
    """Where the range is 100 degrees to either side, they are the same numbers as degrees."""
    dataset = Dataset(tmp_path, "v3.0")
    ends = np.radians([-100.0, -100.0]), np.radians([100.0, 100.0])
    shares = Units("range_m100_100", UNITS.gripper, UNITS.ranges, ends)
    [one] = read_episode(tmp_path, [], JOINTS, shares, 1, 1, dataset.table)
    [other] = read_episode(tmp_path, [], JOINTS, UNITS, 1, 1, dataset.table)
    assert np.allclose(one.state["joint_position"], other.state["joint_position"])
    assert np.allclose(one.recorded.rows, other.recorded.rows)  # type: ignore[union-attr]


@pytest.mark.parametrize("names", [None, {"motors": ["a", "b", "c"]}])
def test_columns_that_say_nothing_are_joints_and_then_the_gripper(tmp_path: Path, names: Any) -> None:
    dataset = Dataset(tmp_path, "v2.1", names=names)
    [one] = read_episode(tmp_path, [], JOINTS, UNITS, 1, 1, dataset.table)
    assert one.state["joint_position"].shape == (2,) and one.state["gripper_width"].shape == (1,)


@pytest.mark.parametrize(
    ("changes", "cause", "said"),
    [
        ({"units": Units("rad")}, "wrong_units", "--recorded-unit deg"),
        ({"units": Units("range_m100_100")}, "wrong_units", "needs the joints' limits: --robot FILE"),
        ({"joints": ("a", "b", "c", "d")}, "nothing_recorded", "expected the robot's joints, a, b, c, d"),
        ({"cameras": ["fron"]}, "unknown_camera", "did you mean 'front'?"),
        ({"episode": 0}, "nothing_recorded", "nothing moves in episode 0"),
        ({"episode": 7}, "nothing_recorded", "it has episodes 0 to 1"),
    ],
)
def test_what_does_not_fit_is_one_line(
    tmp_path: Path, changes: dict[str, Any], cause: str, said: str
) -> None:
    dataset = Dataset(tmp_path, "v3.0")
    given: dict[str, Any] = {"cameras": ["front"], "joints": JOINTS, "units": UNITS, "episode": 1} | changes
    with pytest.raises(RecordingError, match=said.replace("?", r"\?")) as caught:
        read_episode(tmp_path, **given, table=dataset.table)
    assert caught.value.cause == cause


@pytest.mark.parametrize(("module", "films"), [("pyarrow", False), ("av", True)])
def test_a_package_that_is_not_there_is_named(
    tmp_path: Path, module: str, films: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = Dataset(tmp_path, "v3.0", films)
    monkeypatch.setitem(sys.modules, module, None)
    table = dataset.table if films else None
    with pytest.raises(RecordingError, match=f"pip install {module}") as caught:
        read_episode(tmp_path, ["front"], JOINTS, UNITS, 1, table=table)
    assert caught.value.cause == "needs_package"


def test_a_video_that_ends_early_is_told(tmp_path: Path) -> None:
    film(tmp_path / "videos" / "short.mp4", [np.zeros((32, 32, 3), np.uint8)] * 4)
    with pytest.raises(RecordingError, match=r"it ends before 9\.00 s"):
        list(frames_at(tmp_path / "videos" / "short.mp4", [0.0, 9.0], FPS))


def test_a_video_without_a_clock_is_no_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Film:
        streams = SimpleNamespace(video=[SimpleNamespace(time_base=None)])

        def __enter__(self) -> Film:
            return self

        def __exit__(self, *exc: object) -> None:
            """Nothing is open."""

    monkeypatch.setattr(av, "open", lambda path: Film())
    with pytest.raises(RecordingError, match="its video says no times") as caught:
        list(frames_at(tmp_path / "film.mp4", [0.0], FPS))
    assert caught.value.cause == "not_a_recording"
