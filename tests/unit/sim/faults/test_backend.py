"""A real model inside one that spoils its answers only while a switch says so."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from rosa_contract.errors import CodecError
from rosa_contract.wire import codec
from rosa_contract.wire.messages import Output
from rosa_server.models import registry
from rosa_server.models.backend import Backend, ModelInput, capabilities_of
from rosa_sim.faults.backend import FAR_RAD, SPOILS
from rosa_sim.faults.switch import Switch, turn

NAME = "rosa_sim.faults.backend:FaultyBackend"
POSE = np.linspace(-0.5, 0.5, 7).astype(np.float32)
INPUT = ModelInput("system1", state={"joint_position": POSE, "gripper_width": np.array([0.04], np.float32)})


def made(control: Path, **options: object) -> Backend:
    return registry.create(NAME, inner="emulated", control=str(control), options=options)


def answer(backend: Backend) -> np.ndarray:
    return backend.infer([INPUT])[0].arrays["actions"]


def test_it_is_the_model_inside_until_the_switch_is_turned(tmp_path: Path) -> None:
    control = tmp_path / "switch.json"
    backend = made(control, max_batch=3, memory_mb=7.0, state={"joint_position": 7})
    inside = registry.create("emulated", max_batch=3, memory_mb=7.0, state={"joint_position": 7})
    assert (backend.max_batch, backend.memory_mb) == (3, 7.0)
    assert backend.input_spec == inside.input_spec
    assert np.array_equal(answer(backend), answer(inside))
    turn(control, spoil="nan")
    assert not np.array_equal(answer(backend), answer(inside))
    turn(control)
    assert np.array_equal(answer(backend), answer(inside))


def test_it_can_what_the_model_inside_can(tmp_path: Path) -> None:
    backend = made(tmp_path / "switch.json", at_once=4)
    assert capabilities_of(backend) == capabilities_of(registry.create("emulated", at_once=4))
    assert capabilities_of(backend).at_once == 4


def test_nan_cannot_leave_the_worker(tmp_path: Path) -> None:
    turn(tmp_path / "switch.json", spoil="nan")
    actions = answer(made(tmp_path / "switch.json"))
    assert np.isnan(actions).any()
    with pytest.raises(CodecError):
        codec.encode_output(Output({"actions": actions}))


def test_a_wrong_shape_and_a_value_out_of_range_can(tmp_path: Path) -> None:
    turn(tmp_path / "switch.json", spoil="wrong_shape")
    backend = made(tmp_path / "switch.json")
    assert answer(backend).shape == (16, 7)
    turn(tmp_path / "switch.json", spoil="out_of_range")
    far = answer(backend)
    assert far.shape == (16, 8)
    assert far[-1, 0] == pytest.approx(POSE[0] + FAR_RAD)
    assert far[0, 0] == pytest.approx(POSE[0])
    for actions in (far, far[:, :-1]):
        codec.encode_output(Output({"actions": actions}))


def test_a_slow_model_answers_right_but_late(tmp_path: Path) -> None:
    backend = made(tmp_path / "switch.json")
    good = answer(backend)
    turn(tmp_path / "switch.json", spoil="slow", seconds=0.2)
    began_s = time.monotonic()
    assert np.array_equal(answer(backend), good)
    assert time.monotonic() - began_s >= 0.2


def test_an_unknown_spoil_is_an_error_that_lists_the_known_ones(tmp_path: Path) -> None:
    turn(tmp_path / "switch.json", spoil="rotten")
    with pytest.raises(RuntimeError, match=", ".join(SPOILS)):
        answer(made(tmp_path / "switch.json"))


def test_a_switch_that_was_never_turned_is_off_and_one_that_is_removed_is_off_again(tmp_path: Path) -> None:
    switch = Switch(tmp_path / "switch.json")
    assert switch.state() == {}
    turn(tmp_path / "switch.json", late=["front"], seconds=1.0)
    assert switch.state() == {"late": ["front"], "seconds": 1.0}
    (tmp_path / "switch.json").unlink()
    assert switch.state() == {}
