"""The horizon of each answer: Kairos's threshold policy as the paper defines it, and how the worker applies it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rosa_contract.wire.horizon import Horizon
from rosa_server.models import horizon
from rosa_server.models.backend import ModelOutput
from rosa_server.models.horizon import Choice, Chunk, choose
from rosa_server.models.panda.flow_policy import CHUNK, FlowPolicy


def output(steps: int, updates: np.ndarray | None = None) -> ModelOutput:
    return ModelOutput({"actions": np.zeros((steps, 8), np.float32)}, updates=updates)


def sizes(*rows: list[float]) -> np.ndarray:
    """Updates (flow steps, steps, 2) of these magnitudes."""
    size = np.array(rows)
    return np.stack([0.6 * size, 0.8 * size], axis=-1)


# Six actions, of which the fifth is the first whose last update is 50 % above the mean of its earlier ones.
FIGURE_7 = sizes([4, 4, 4, 4, 2, 4], [2, 2, 2, 2, 2, 2], [0, 1, 1, 2, 2, 0], [0.5, 0.5, 1, 1, 3, 0.1])


def test_figure_7_of_kairos_stops_before_the_fifth_action() -> None:
    chosen = choose(Horizon("threshold", t=0.4), output(6, FIGURE_7))
    assert chosen == Choice(4, "step 5's last update is 1.50 times its mean before, over 1.4")


@pytest.mark.parametrize(("t", "steps"), [(0.4, 4), (0.49, 4), (0.51, 6), (-0.6, 2), (-0.9, 1)])
def test_a_higher_threshold_plays_longer(t: float, steps: int) -> None:
    assert choose(Horizon("threshold", t=t), output(6, FIGURE_7)).steps == steps


def test_h_min_is_played_however_unsure_the_model_is_and_the_reason_says_so() -> None:
    chosen = choose(Horizon("threshold", t=0.4, min=5), output(6, FIGURE_7))
    assert chosen.steps == 5
    assert chosen.reason.endswith("; at least 5")
    assert choose(Horizon("threshold", t=0.4, max=3), output(6, FIGURE_7)).steps == 3


magnitudes = arrays(
    np.float64,
    st.tuples(st.integers(2, 9), st.integers(1, 20)),
    elements=st.floats(0, 10, allow_subnormal=False).map(lambda size: round(size, 3)),
)


@given(magnitudes, st.floats(-0.9, 3), st.integers(1, 25))
def test_it_is_the_papers_definition(size: np.ndarray, t: float, lowest: int) -> None:
    converged = 0
    for action in range(size.shape[1]):  # "walking sequentially from A_1"
        if size[-1, action] > (1 + t) * np.mean(size[:-1, action]) + 1e-12:
            break
        converged += 1
    chosen = choose(Horizon("threshold", t=t, min=lowest), output(size.shape[1], size[..., None]))
    assert chosen.steps == min(max(converged, lowest), size.shape[1])


def test_static_ignores_the_updates_and_needs_none() -> None:
    assert choose(Horizon("static", steps=3), output(6, FIGURE_7)).steps == 3
    assert choose(Horizon("static", steps=8), output(6)).steps == 6


@pytest.mark.parametrize("updates", [None, FIGURE_7[:1]])
def test_without_flow_steps_there_is_no_threshold(updates: np.ndarray | None) -> None:
    with pytest.raises(ValueError, match="two or more flow steps"):
        choose(Horizon("threshold", t=0.4), output(6, updates))


def test_an_unknown_policy_names_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match=r"'treshold' \(did you mean 'threshold'\?\); known: static, threshold"
    ):
        choose(Horizon("treshold"), output(6))


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(horizon, "POLICIES", dict(horizon.POLICIES))


def test_a_policy_of_ones_own_is_used_by_its_name(registry: None) -> None:
    def halves(spec: Horizon, chunk: Chunk) -> Choice:
        return Choice(chunk.steps // 2, "half")

    horizon.register("half", halves)
    assert choose(Horizon("half"), output(6)) == Choice(3, "half")
    with pytest.raises(ValueError, match="already registered"):
        horizon.register("static", halves)


def test_the_flow_policy_exposes_what_each_flow_step_changed() -> None:
    torch.manual_seed(0)
    network = FlowPolicy(width=32, blocks=1).eval()
    noise, condition = torch.randn(3, CHUNK), torch.randn(3, 32)
    chunk, updates = network.refine(condition, noise, steps=5)
    assert updates.shape == (3, 5, CHUNK)
    assert torch.allclose(noise + updates.sum(dim=1), chunk, atol=1e-5)
    assert torch.equal(chunk, network.sample(condition, noise, steps=5))
