"""The training set's truths, the questions about a look, and losses that fall when the model is right."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rosa_server.models.vla.eyes import PointEyes
from rosa_server.models.vla.network import VlaNetwork
from rosa_server.models.vla.tokenizer import ACT, END, MONITOR, PLAN, SAFETY
from rosa_sim.training.data import words
from rosa_sim.training.data.dataset import load, outcome_of_rule, points_in_world, target_of
from rosa_sim.training.data.pictures import shifted
from rosa_sim.training.networks.eyes import cells_of, eyes_loss, in_eyes, report
from rosa_sim.training.networks.prompts import PromptAsker, class_weights, make_speech
from rosa_sim.training.networks.vla import SHARES, FromMarks, Losses

LEFT_BIN, RIGHT_BIN = (0.48, 0.23), (0.48, -0.23)
RED, GREEN, BLUE = 0, 2, 3


def looks(places, rule, plan, tool=(0.5, 0.0, 0.3), **more):
    """One look for each entry of `places`, the three blocks' positions; red, green and blue."""
    n = len(places)
    marks = np.zeros((n, 12, 3), np.float32)
    marks[:, [RED, GREEN, BLUE, 8, 9, 11]] = [0.5, 0.5, 1.0]
    data = {
        "block_xyz": np.array(places, np.float32),
        "block_colour": np.tile(np.array([RED, GREEN, BLUE]), (n, 1)),
        "bin_xy": np.tile(np.array([LEFT_BIN, RIGHT_BIN], np.float32), (n, 1, 1)),
        "hand_xyz": np.full((n, 3), np.nan, np.float32),
        "tool": np.tile(np.array(tool, np.float32), (n, 1)),
        "rule": np.full(n, rule),
        "plan": np.array(plan),
        "colour": np.full(n, RED),
        "bin": np.zeros(n, np.int64),
        "safe": np.ones(n, bool),
        "outcome": np.zeros(n, np.int64),
        "settled": np.ones(n, bool),
        "seed": np.arange(n),
        "joint_position": np.tile(np.array([0, -0.2, 0, -2.3, 0, 2.1, 0.8], np.float32), (n, 1)),
        "gripper_width": np.full(n, 0.08, np.float32),
        "chunk": np.tile(np.array([0.5, 0.0, 0.3, 0.08], np.float32), (n, 16, 1)),
        "pixels_front": marks,
        "pixels_wrist": marks.copy(),
    }
    return data | more


ON_MAT = [[0.5, 0.0, 0.02], [0.4, 0.05, 0.02], [0.6, 0.05, 0.02]]
IN_LEFT, IN_RIGHT = [*LEFT_BIN, 0.022], [*RIGHT_BIN, 0.022]
ALL_IN = [IN_LEFT, IN_RIGHT, [0.54, RIGHT_BIN[1], 0.022]]
RED_LEFT = words.rule_of([RED])


def test_a_sort_is_done_when_every_block_lies_in_its_bin_and_failed_when_none_can_be_moved():
    wrong = [IN_RIGHT, [0.42, RIGHT_BIN[1], 0.022], [0.54, RIGHT_BIN[1], 0.022]]
    lost = [IN_LEFT, IN_RIGHT, [0.1, 0.9, -0.6]]
    data = looks([ON_MAT, ALL_IN, wrong, lost], RED_LEFT, [(RED, 0), (-1, -1), (-1, -1), (-1, -1)])
    assert outcome_of_rule(data).tolist() == [0, 1, 2, 2]
    held = looks([ALL_IN], RED_LEFT, [(-1, -1)], tool=(LEFT_BIN[0], LEFT_BIN[1], 0.03))
    assert outcome_of_rule(held).tolist() == [0]


def test_what_is_not_there_has_no_place():
    data = looks([[*ON_MAT[:2], [0.1, 0.9, -0.6]]], RED_LEFT, [(RED, 0)])
    points = points_in_world(data)[0]
    assert np.isfinite(points[[RED, GREEN, 8, 9, 11]]).all()
    assert np.isnan(points[[1, BLUE, 7, 10]]).any(axis=1).all()
    np.testing.assert_allclose(target_of(data)[0], [*ON_MAT[0], *LEFT_BIN], atol=1e-6)


def test_shards_are_split_by_their_seeds(tmp_path):
    for seed in (100_000, 500_000, 100_008, 300_000, 600_000):
        np.savez(tmp_path / f"{seed}.npz", seed=np.array([seed]), front=np.zeros(1))
    assert load(tmp_path, "train")["seed"].tolist() == [100_000, 100_008, 300_000]
    assert list(load(tmp_path, "choose", without=("front",))) == ["seed"]
    assert load(tmp_path, "choose")["seed"].tolist() == [500_000]
    assert load(tmp_path, "evaluate")["seed"].tolist() == [600_000]
    with pytest.raises(FileNotFoundError, match="sort_parts_collect"):
        load(tmp_path / "none", "train")


def test_questions_end_with_their_role_and_answers_are_true():
    data = looks([ON_MAT, ALL_IN], RED_LEFT, [(BLUE, 1), (-1, -1)])
    speech = make_speech()
    asker, rng = PromptAsker(data, speech), np.random.default_rng(0)
    for row, plan in ((0, "put the blue block into the right bin"), (1, "all done")):
        asked = asker.speak("system2", row, rng)
        assert asked.question[-1] == PLAN
        assert asked.answer[-1] == END and speech.tokenizer.decode(asked.answer[:-1]) == plan
    assert speech.tokenizer.decode(asker.speak("safety", 0, rng).answer) == "safe"
    assert asker.speak("safety", 0, rng).question[-1] == SAFETY
    told = {speech.tokenizer.decode(asker.speak("monitor", 1, rng).answer) for _ in range(30)}
    assert told == {"ongoing", "done"}, "the subtask goes on, the whole sort is done"
    assert asker.speak("monitor", 0, rng).question[-1] == MONITOR
    acts = [asker.act(1, rng) for _ in range(40)]
    assert all(one.question[-1] == ACT and not one.answer for one in acts)
    assert {one.stays for one in acts} == {True, False}
    assert all(one.stays != one.target for one in acts)


def test_blurred_prompts_keep_the_words_that_matter():
    data = looks([ON_MAT], RED_LEFT, [(BLUE, 1)])
    speech = make_speech()
    asker, rng = PromptAsker(data, speech), np.random.default_rng(1)
    red, left = (speech.tokenizer.encode(word) for word in (" red", " left"))
    said = [asker.act(0, rng).question for _ in range(60)]
    assert len({tuple(one) for one in said}) > 15
    assert all(set(one) & {*red, *speech.tokenizer.encode("red")} and set(left) <= set(one) for one in said)


def test_rare_classes_weigh_more():
    weights = class_weights(np.array([0] * 90 + [1] * 10), 3)
    assert weights[1] > 3 * weights[0] and weights[2] == 0
    assert 0.9 * weights[0] + 0.1 * weights[1] == pytest.approx(1.0, abs=1e-5)


def test_a_place_is_shared_by_the_four_cells_around_it():
    cells, shares = cells_of(torch.tensor([[0.5 / 96, 0.5 / 96], [0.3, 0.7]]))
    assert cells[0, 0] == 0 and shares[0].tolist() == [1, 0, 0, 0]
    assert shares.sum(dim=-1).tolist() == pytest.approx([1, 1])
    x, y = (cells[1] % 24).float() @ shares[1], (cells[1] // 24).float() @ shares[1]
    want = (in_eyes(torch.tensor([0.3, 0.7])) + 1) * 23 / 2
    assert [float(x), float(y)] == pytest.approx(want.tolist(), abs=1e-4)


def test_eyes_that_look_at_the_right_cells_have_the_smaller_loss(monkeypatch):
    eyes = PointEyes(12)
    marks = torch.zeros(2, 12, 3)
    marks[:, :, 2] = 1.0
    marks[..., 0], marks[..., 1] = 0.25, 0.75
    cells, shares = cells_of(marks[..., :2])
    right = torch.full((2, 12, 576), -10.0).scatter(2, cells, 5.0 + torch.log(shares + 1e-9))
    losses = []
    for maps in (right, right.flip(2)):
        monkeypatch.setattr(PointEyes, "maps", lambda self, pictures, said=maps: said.unflatten(2, (24, 24)))
        losses.append(float(eyes_loss(eyes, torch.zeros(2, 3, 96, 96), marks).detach()))
    assert losses[0] < 3.0 < losses[1]


def test_a_shifted_picture_says_how_far_it_was_moved():
    images = np.zeros((8, 96, 96, 3), np.uint8)
    images[:, 40, 50] = 255
    pictures, moved = shifted(images, np.random.default_rng(2), 3)
    assert len({tuple(one) for one in moved}) > 3 and np.abs(moved).max() <= 3
    for picture, (dx, dy) in zip(pictures, moved, strict=True):
        assert picture[40 + dy, 50 + dx].tolist() == [255, 255, 255]


def test_the_report_counts_what_was_found_and_how_far_off():
    data = looks([ON_MAT] * 4, RED_LEFT, [(BLUE, 1)] * 4)
    seen = np.zeros((4, 2, 12, 3), np.float32)
    seen[..., 2] = -1.0
    seen[:, :, RED] = [float(in_eyes(torch.tensor(0.5))) + 1 / 46, float(in_eyes(torch.tensor(0.5))), 1.0]
    row = next(one for one in report(data, seen) if one["what"] == "eyes, wrist: red")
    assert (row["found"], row["median_px"]) == (1.0, 1.0)
    assert next(one for one in report(data, seen) if one["what"] == "eyes, front: green")["found"] == 0.0


@pytest.mark.slow
def test_every_part_of_the_loss_falls_when_the_model_trains_on_a_few_looks():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = looks([ON_MAT, ALL_IN] * 4, RED_LEFT, [(BLUE, 1), (-1, -1)] * 4)
    losses = Losses(data, FromMarks(data), make_speech())
    network = VlaNetwork()
    optimiser = torch.optim.AdamW(network.parameters(), lr=2e-3)
    rng = np.random.default_rng(3)
    parts = []
    for _ in range(25):
        loss = losses.of(network, np.arange(8), rng)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        parts.append(dict(losses.parts))
    assert set(parts[0]) == set(SHARES)
    for name in parts[0]:
        assert parts[-1][name] < 0.6 * parts[0][name], name
