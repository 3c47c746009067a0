"""The shipped token policy acts from pictures, and every engine gives the same actions."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from rosa_server.engines.pipelined_decode.engine import FrameLeft
from rosa_server.models import registry
from rosa_server.models.cancellation import Cancellation
from rosa_server.models.token_policy.backend import ENGINES, TokenPolicyBackend
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.world import World
from rosa_sim.training.data.looks import look
from rosa_sim.training.data.pictures import POLICY_CAMERAS
from rosa_sim.training.judge.evaluate import BLANK, UNSEEN
from rosa_sim.training.judge.trials import play_kind


@pytest.fixture(scope="module")
def cell():
    renderer = SceneRenderer(POLICY_CAMERAS)
    yield World(0), renderer
    renderer.close()


@pytest.fixture(scope="module")
def looks(cell):
    world, renderer = cell
    seen = []
    for seed in range(30, 36):
        world.reset(seed)
        seen.append(replace(look(world, renderer), prompt="pick the cube and place it in the bin"))
    return seen


@pytest.fixture
def backend(request):
    made = TokenPolicyBackend(engine=request.param)
    made.load()
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["pipelined"], indirect=True)
def test_through_the_pipeline_it_solves_two_unseen_cells_from_pictures(backend):
    assert [one.outcome for one in play_kind((backend, {}), UNSEEN, (3, 4))] == ["done", "done"]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["pipelined"], indirect=True)
def test_blind_it_does_not(backend):
    assert play_kind((backend, {}), BLANK, [3])[0].outcome != "done"


@pytest.mark.parametrize("backend", ["continuous", "pipelined"], indirect=True)
def test_calls_at_the_same_time_get_the_actions_of_calls_alone(backend, looks):
    assert backend.capabilities.at_once == 7
    plain = TokenPolicyBackend()
    plain.load()
    with ThreadPoolExecutor(6) as threads:
        together = list(threads.map(lambda one: backend.infer([one])[0], looks))
    for one, answer in zip(looks, together, strict=True):
        expected = plain.infer([one])[0].arrays["actions"]
        assert expected.shape == (8, 8) and expected.dtype == np.float32
        np.testing.assert_array_equal(answer.arrays["actions"], expected)


def test_a_batch_answers_as_one_by_one(looks):
    plain = TokenPolicyBackend()
    plain.load()
    for one, answer in zip(looks, plain.infer(looks), strict=True):
        np.testing.assert_array_equal(answer.arrays["actions"], plain.infer([one])[0].arrays["actions"])


@pytest.mark.parametrize("backend", ENGINES, indirect=True)
def test_the_answer_says_how_old_its_observation_is(backend, looks):
    began_s = time.monotonic()
    answer = backend.infer([replace(looks[0], waited_s=2.0)])[0]
    spent_s = time.monotonic() - began_s
    age_s = float(answer.arrays["observation_age_s"][0])
    assert 2.0 < age_s <= 2.0 + spent_s + 1e-6


@pytest.mark.parametrize("backend", ["pipelined"], indirect=True)
def test_a_frame_that_is_due_already_is_refused_and_the_next_one_is_answered(backend, looks):
    with pytest.raises(TimeoutError, match="expired"):
        backend.infer([replace(looks[0], deadline_s=time.monotonic() - 1.0)])
    assert backend.infer([looks[0]])[0].arrays["actions"].shape == (8, 8)


@pytest.mark.parametrize("backend", ["continuous", "pipelined"], indirect=True)
def test_a_frame_that_nobody_waits_for_leaves_the_engine(backend, looks):
    before = backend.counts()["frames"]
    one = replace(looks[0], cancellation=Cancellation())
    one.cancellation.cancel()
    with pytest.raises(FrameLeft) as error:
        backend.infer([one])
    assert error.value.cause == "cancelled"
    assert backend.infer([looks[0]])[0].arrays["actions"].shape == (8, 8)
    counts = backend.counts()
    assert (counts["frames"], counts["frames_cancelled"]) == (before + 1, 1)


def test_an_unknown_engine_is_refused_with_the_known_ones():
    with pytest.raises(registry.BackendError, match="plain, continuous, pipelined"):
        registry.create("token_policy", engine="fast")
    with pytest.raises(registry.BackendError, match="slots"):
        registry.create("token_policy", slots=0)
