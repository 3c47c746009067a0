"""Out of the range that the monitor was trained on nothing is called done, and the answer says why."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from rosa_server.models.panda.picture_range import PictureRange
from rosa_server.models.panda.task_monitor import TaskMonitorBackend
from rosa_server.models.panda.vision import WEIGHTS_DIR
from rosa_server.models.registry import BackendError
from rosa_sim.cell.layout.variation import CHANGES, with_light
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.world import World
from rosa_sim.training.data.looks import look
from rosa_sim.training.data.pictures import POLICY_CAMERAS
from rosa_sim.training.networks.picture_range import bin_region

RANGE_FILE = WEIGHTS_DIR / "panda_task_monitor.range.json"
SEEDS = range(21, 31)


@pytest.fixture(scope="module")
def shipped():
    return PictureRange.read(RANGE_FILE)


def monitor(**options):
    backend = TaskMonitorBackend(**options)
    backend.load()
    return backend


def finished_looks(change):
    """The cube in the bin, the arm at home: what the robot sees when the task is done."""
    world, renderer = World(0), SceneRenderer(POLICY_CAMERAS, change)
    try:
        for seed in SEEDS:
            world.reset(seed)
            qpos, at = world.qpos, world.model.joint("block0").qposadr[0]
            qpos[at : at + 3] = [*world.bin_positions[0], 0.022]
            world.set_state(seed, qpos)
            assert world.outcome() == "done"
            yield look(world, renderer)
    finally:
        renderer.close()


@pytest.mark.parametrize("name", ["none", "magenta cube", "camera moved by 3 cm"])
def test_in_range_the_verdict_is_the_networks(name):
    checked, unchecked = monitor(), monitor(range_check=False)
    for seen in finished_looks(CHANGES[name]):
        answer = checked.infer([seen])[0]
        assert (answer.verdict, answer.text) == (unchecked.infer([seen])[0].verdict, "")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (CHANGES["a quarter of the light"], "out_of_range: too dark: mean brightness"),
        (with_light(4.0), "out_of_range: too bright: mean brightness"),
        (CHANGES["white cube"], "out_of_range: no vivid target in the bin"),
        (CHANGES["black cube"], "out_of_range: no vivid target in the bin"),
    ],
)
def test_out_of_range_done_becomes_ongoing_and_says_why(shipped, change, why):
    for seen in finished_looks(change):
        verdict, text = shipped.restrained("done", seen.images["front"])
        assert verdict == "ongoing"
        assert text.startswith(why)


def test_the_backend_answers_a_dark_finished_cell_with_ongoing():
    checked = monitor()
    for seen in finished_looks(CHANGES["a quarter of the light"]):
        answer = checked.infer([seen])[0]
        assert answer.verdict == "ongoing"
        assert "too dark" in answer.text


def test_in_the_dark_nothing_failed_but_without_a_target_it_may_have(shipped):
    assert shipped.restrained("failed", np.full((96, 96, 3), 20, np.uint8))[0] == "ongoing"
    gray = np.full((96, 96, 3), 150, np.uint8)
    assert shipped.restrained("failed", gray) == ("failed", "")
    assert shipped.restrained("ongoing", gray) == ("ongoing", "")
    assert shipped.restrained("done", gray)[0] == "ongoing"


def test_vivid_pixels_count_only_in_the_region_and_only_where_they_are_bright_enough(shipped):
    top, bottom, left, right = shipped.region
    picture = np.full((96, 96, 3), 150, np.uint8)
    picture[:top] = (200, 20, 20)
    assert shipped.vivid_pixels(picture) == 0
    picture[top : top + 3, left : left + 4] = (200, 20, 20)
    assert shipped.vivid_pixels(picture) == 12
    # The picture's mean is above 120.
    picture[top : top + 3, left : left + 4] = (int(shipped.darkest_vivid * 120), 0, 0)
    assert picture.mean() > 121
    assert shipped.vivid_pixels(picture) == 0
    assert (bottom, right) <= (96, 96)


def test_the_region_is_that_of_the_scene(shipped):
    assert shipped.region == bin_region()


def test_own_weights_without_a_range_are_not_checked_and_with_a_broken_one_are_refused(tmp_path):
    weights = tmp_path / "own.safetensors"
    shutil.copy(WEIGHTS_DIR / "panda_task_monitor.safetensors", weights)
    dark = next(finished_looks(CHANGES["a quarter of the light"]))
    assert monitor(weights=str(weights)).infer([dark])[0].text == ""
    shutil.copy(RANGE_FILE, tmp_path / "own.range.json")
    assert "too dark" in monitor(weights=str(weights)).infer([dark])[0].text
    (tmp_path / "own.range.json").write_text(json.dumps({"range": {"brightness": [1]}}))
    with pytest.raises(BackendError, match=r"own\.range\.json is not a range"):
        monitor(weights=str(weights))


@pytest.mark.parametrize("pixels", ["1e999", "[" * 100_000])
def test_a_range_that_cannot_be_read_is_named(pixels, tmp_path):
    told = json.loads(RANGE_FILE.read_text()) | {"range": {"target_pixels": "PIXELS"}}
    told["range"] = json.loads(RANGE_FILE.read_text())["range"] | told["range"]
    (tmp_path / "own.range.json").write_text(json.dumps(told).replace('"PIXELS"', pixels))
    with pytest.raises(BackendError, match="is not a range"):
        PictureRange.read(tmp_path / "own.range.json")
