"""The backend with random weights: roles, mixed batches, shared observations, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from rosa_server.engines.kv_sharing.engine import CallLeft
from rosa_server.models.backend import ModelInput
from rosa_server.models.cancellation import Cancellation
from rosa_server.models.panda.vision import save_weights
from rosa_server.models.registry import BackendError, create
from rosa_server.models.vla import judging
from rosa_server.models.vla.backend import VlaBackend
from rosa_server.models.vla.network import VlaNetwork
from rosa_server.models.vla.speech import VERDICTS, Speech
from rosa_server.models.vla.tokenizer import END, Tokenizer

PLANS = tuple(
    [
        f"put the {colour} block into the {side} bin"
        for colour in ("red", "blue")
        for side in ("left", "right")
    ]
    + ["all done"]
)
RULE = "red goes left, the rest goes right"


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """Random weights with words that fit them."""
    path = tmp_path_factory.mktemp("vla") / "random.safetensors"
    torch.manual_seed(5)
    save_weights(VlaNetwork(), path, {})
    verdicts = [word for words in VERDICTS.values() for word in words]
    Speech(Tokenizer.train([*PLANS, *verdicts] * 5, 400), PLANS).write(path.with_suffix(".words.json"))
    return path


@pytest.fixture(scope="module")
def backend(weights):
    made = VlaBackend(str(weights))
    made.load()
    return made


def looks(count):
    rng = np.random.default_rng(3)
    for number in range(count):
        yield ModelInput(
            "system1",
            images={name: rng.integers(0, 256, (96, 96, 3), dtype=np.uint8) for name in ("front", "wrist")},
            state={
                "joint_position": np.array([0.1 * number, -0.2, 0.0, -2.3, 0.0, 2.1, 0.8], np.float32),
                "gripper_width": np.array([0.04], np.float32),
            },
        )


def asks(look):
    return [
        replace(look, component="system1", prompt="put the red block into the left bin"),
        replace(look, component="system2", prompt=RULE),
        replace(look, component="safety", prompt="is the workcell safe?"),
        replace(look, component="monitor"),
    ]


def test_each_role_answers_in_its_own_way(backend):
    (look,) = looks(1)
    acts, plans, safety, progress = backend.infer(asks(look))
    assert acts.arrays["actions"].shape == (16, 8) and acts.arrays["actions"].dtype == np.float32
    assert acts.arrays["step_s"] == pytest.approx(0.05)
    assert plans.text in PLANS and not plans.verdict and not plans.arrays
    assert safety.verdict in VERDICTS["safety"]
    assert progress.verdict in VERDICTS["monitor"]


def test_a_mixed_batch_answers_as_one_by_one(backend):
    batch = [ask for look in looks(3) for ask in asks(look)]
    for one, together in zip(batch, backend.infer(batch), strict=True):
        (alone,) = backend.infer([one])
        assert (alone.verdict, alone.text) == (together.verdict, together.text)
        if one.component == "system1":
            np.testing.assert_allclose(alone.arrays["actions"], together.arrays["actions"], atol=1e-3)


def test_components_that_ask_about_one_observation_share_what_is_seen(backend, monkeypatch):
    rows = []
    observe = VlaNetwork.observe
    monkeypatch.setattr(
        VlaNetwork, "observe", lambda self, seen, told: rows.append(len(told)) or observe(self, seen, told)
    )
    backend.infer([ask for look in looks(2) for ask in asks(look)])
    assert rows == [2]


def test_in_doubt_a_workcell_is_unsafe_and_a_task_goes_on(backend, weights):
    def said(model, role, *likelihoods):
        return model._verdict(role, [np.array(one) for one in likelihoods], judging.Task("")).verdict

    assert said(backend, "safety", [0.49, 0.51]) == "unsafe"
    assert said(backend, "safety", [0.51, 0.49]) == "safe"
    careful = VlaBackend(str(weights), safe_certainty=0.8)
    assert said(careful, "safety", [0.79, 0.21]) == "unsafe"
    assert said(careful, "safety", [0.81, 0.19]) == "safe"
    assert said(backend, "monitor", [0.35, 0.59, 0.06]) == "ongoing"
    assert said(backend, "monitor", [0.3, 0.61, 0.09]) == "done"
    assert said(backend, "monitor", [0.3, 0.09, 0.61]) == "failed"


def test_a_monitor_is_asked_about_each_step_of_its_task(backend, monkeypatch):
    (look,) = looks(1)
    heard = []
    judged = judging.Task.judged
    monkeypatch.setattr(
        judging.Task, "judged", lambda self, asked, sure: heard.append(asked) or judged(self, asked, sure)
    )
    question = "ongoing, done, or failed?"
    prompts = [f"{RULE}: {question}", f"{PLANS[0]}: {question}", f"{PLANS[3]}: {question}"]
    alone = backend.infer([replace(look, component="monitor", prompt=prompt) for prompt in prompts])
    steps = "\n".join([prompts[0], PLANS[0], PLANS[3], "all done"])
    together = backend.infer([*asks(look)[:3], replace(look, component="monitor", prompt=steps)])
    assert [len(one) for one in heard] == [1, 1, 1, 3]
    np.testing.assert_allclose(heard[3], [one[0] for one in heard[:3]], atol=1e-5)
    assert together[3].verdict in VERDICTS["monitor"] and len(alone) == 3
    assert [one.text for one in together[:3]] == [one.text for one in backend.infer(asks(look)[:3])]


def test_of_a_covered_lens_nothing_good_is_said(backend):
    (look,) = looks(1)
    for camera in look.images:
        for grey in (0, 128):
            blank = replace(look, images=look.images | {camera: np.full((96, 96, 3), grey, np.uint8)})
            acts, plans, safety, progress = backend.infer(asks(blank))
            assert (safety.verdict, progress.verdict) == ("unsafe", "ongoing")
            assert f"blank: the {camera} picture" in safety.text and safety.text == progress.text
            assert acts.arrays and plans.text in PLANS


def test_a_role_may_have_another_component_name(weights, backend):
    named = VlaBackend(str(weights), roles={"guard": "safety"})
    named.load()
    (look,) = looks(1)
    assert named.infer([replace(look, component="guard")])[0].verdict in VERDICTS["safety"]
    with pytest.raises(ValueError, match=r"'guard' has no role.*options\.roles"):
        backend.infer([replace(look, component="guard")])
    with pytest.raises(BackendError, match=r"roles\.guard: expected one of system1"):
        create("vla", roles={"guard": "watchman"})


def test_a_prompt_that_is_too_long_is_refused(backend):
    (look,) = looks(1)
    with pytest.raises(ValueError, match="tokens came"):
        backend.infer([replace(look, prompt="xyz " * 100)])


def test_plans_are_completed_from_any_beginning(backend):
    speech = backend.speech
    said = speech.answer(PLANS[0])
    for begun in range(len(said)):
        assert said[begun] in speech.next_tokens(said[:begun])
    assert said[-1] == END and speech.next_tokens(said) == []
    assert speech.next_tokens([1, 2]) == []


def test_words_that_do_not_fit_are_refused(weights, tmp_path):
    copy = tmp_path / "w.safetensors"
    copy.write_bytes(weights.read_bytes())
    words = copy.with_suffix(".words.json")
    with pytest.raises(FileNotFoundError, match="make train"):
        VlaBackend(str(copy)).load()
    nested = "[" * 100_000
    for text, why in (
        ("{}", "not a model's words"),
        (nested, "not a model's words"),
        ('{"merges": [], "plans": ["x"]}', "not one token"),
    ):
        words.write_text(text)
        with pytest.raises(BackendError, match=why):
            VlaBackend(str(copy)).load()


def test_it_warms_up_every_role(backend):
    backend.warm_up()


@pytest.fixture(scope="module")
def sharing(weights):
    made = VlaBackend(str(weights), engine="kv_sharing", memory_mb=4.0, slice_tokens=2)
    made.load()
    yield made
    made.close()


def test_the_sharing_engine_answers_as_isolated_execution(backend, sharing):
    batch = [
        replace(ask, observation=f"1:{number}") for number, look in enumerate(looks(3)) for ask in asks(look)
    ]
    for one, together in zip(batch, sharing.infer(batch), strict=True):
        (alone,) = backend.infer([one])
        assert (alone.verdict, alone.text) == (together.verdict, together.text)
        if one.component == "system1":
            np.testing.assert_allclose(alone.arrays["actions"], together.arrays["actions"], atol=1e-3)
            assert together.updates.shape == (8, 16, 4)  # for horizon policies
            np.testing.assert_allclose(alone.updates, together.updates, atol=1e-4)
    counts = sharing.counts()
    assert (counts["prefills"], counts["prefills_saved"]) == (3, 9)


def test_the_questions_about_the_steps_of_a_task_share_one_look(backend, sharing):
    (look,) = looks(1)
    ask = replace(look, component="monitor", prompt="\n".join([RULE, *PLANS]), observation="4:1")
    before = sharing.counts()
    (together,), (alone,) = sharing.infer([ask]), backend.infer([ask])
    assert together == alone
    counts = sharing.counts()
    assert counts["prefills"] - before["prefills"] == 1
    assert counts["prefills_saved"] - before["prefills_saved"] == 4


def test_a_name_that_is_said_for_two_observations_shares_nothing(sharing):
    before = sharing.counts()["prefills"]
    first, second = (replace(look, prompt="put it away", observation="2:7") for look in looks(2))
    sharing.infer([first, second])
    assert sharing.counts()["prefills"] == before + 2


def test_an_expired_request_is_told_so_and_the_engine_goes_on(sharing):
    (look,) = looks(1)
    late = replace(asks(look)[0], deadline_s=0.0)
    with pytest.raises(TimeoutError, match="deadline"):
        sharing.infer([late])
    assert sharing.infer(asks(look)[2:3])[0].verdict


def test_a_request_that_nobody_waits_for_leaves_the_engine(sharing):
    (look,) = looks(1)
    for ask in asks(look):
        one = replace(ask, cancellation=Cancellation())
        one.cancellation.cancel()
        with pytest.raises(CallLeft) as error:
            sharing.infer([one])
        assert error.value.cause == "cancelled"
    assert sharing.infer(asks(look)[2:3])[0].verdict


def test_engine_options_are_checked(weights):
    with pytest.raises(ValueError, match="expected one of isolated, kv_sharing"):
        VlaBackend(str(weights), engine="plain")
    with pytest.raises(ValueError, match="slice_tokens"):
        VlaBackend(str(weights), slice_tokens=0)


def test_what_the_warm_up_looked_at_is_not_counted(sharing):
    sharing.warm_up()
    assert (sharing.counts()["prefills"], sharing.counts()["prefills_saved"]) == (0, 0)
