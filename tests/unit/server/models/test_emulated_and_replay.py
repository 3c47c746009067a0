"""The models that need no weights."""

from __future__ import annotations

import io
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from rosa_contract.errors import ConfigError
from rosa_server.models import registry
from rosa_server.models.backend import ModelInput
from rosa_server.models.emulated import EmulatedBackend, load_components, load_prefills_s
from rosa_server.models.replay import ReplayBackend, ReplayError


def test_an_unknown_backend_names_the_known_ones() -> None:
    with pytest.raises(registry.BackendError, match=r"did you mean 'emulated'.*flow_policy") as error:
        registry.create("emulatd")
    assert error.value.cause == "unknown_backend"


def test_a_wrong_option_names_those_it_takes() -> None:
    with pytest.raises(registry.BackendError, match="latency_ms") as error:
        registry.create("emulated", latency=3)
    assert error.value.cause == "bad_options"


def test_a_backend_of_ones_own_is_named_by_module_and_class() -> None:
    made = registry.create("rosa_server.models.emulated:EmulatedBackend", max_batch=3)
    assert made.max_batch == 3
    with pytest.raises(registry.BackendError, match="no_such_module") as error:
        registry.create("no_such_module:Backend")
    assert error.value.cause == "not_importable"


def test_components_may_have_times_of_their_own(tmp_path: Path) -> None:
    profile = tmp_path / "h200.yaml"
    profile.write_text("batch_latency_ms: {1: 40.0}\ncomponent_latency_ms: {monitor: {1: 10.0}}\n")
    times = load_components(profile)
    assert list(times) == ["monitor"] and times["monitor"].service_s(1) == pytest.approx(0.01)
    assert (
        EmulatedBackend(profile=str(profile), at_once=2).infer([ModelInput("monitor")])[0].verdict
        == "ongoing"
    )


@pytest.mark.parametrize("wrong", ["[1]", "{monitor: {}}", "{monitor: {1: -3}}"])
def test_wrong_times_of_a_component_are_named(tmp_path: Path, wrong: str) -> None:
    profile = tmp_path / "h200.yaml"
    profile.write_text(f"batch_latency_ms: {{1: 40.0}}\ncomponent_latency_ms: {wrong}\n")
    with pytest.raises(ConfigError, match="component_latency_ms"):
        EmulatedBackend(profile=str(profile))


def test_a_prompt_that_holds_up_other_calls_is_read_by_component(tmp_path: Path) -> None:
    profile = tmp_path / "h200.yaml"
    profile.write_text("batch_latency_ms: {1: 40.0}\ncomponent_prefill_ms: {monitor: 5.0}\n")
    assert load_prefills_s(profile) == {"monitor": 0.005}
    assert EmulatedBackend(profile=str(profile), at_once=2).infer([ModelInput("monitor")])
    profile.write_text("batch_latency_ms: {1: 40.0}\ncomponent_prefill_ms: {monitor: long}\n")
    with pytest.raises(ConfigError, match="component_prefill_ms"):
        EmulatedBackend(profile=str(profile))


def test_the_time_of_a_batch_follows_the_profile(tmp_path: Path) -> None:
    profile = tmp_path / "h200.yaml"
    profile.write_text("batch_latency_ms: {1: 40.0, 8: 68.0}\n")
    model = EmulatedBackend(profile=str(profile))
    assert [model.batch_ms(size) for size in (1, 8, 16)] == pytest.approx([40, 68, 136])
    assert model.batch_ms(4) == pytest.approx(52)


@pytest.mark.parametrize(
    "text", ["[]", "batch_latency_ms: {}", "batch_latency_ms: {0: 3}", "batch_latency_ms: {1: -3}"]
)
def test_a_profile_without_times_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(ConfigError, match="batch_latency_ms"):
        EmulatedBackend(profile=str(tmp_path / "p.yaml"))


def test_jitter_is_the_same_in_every_run_and_never_negative() -> None:
    one, other = (EmulatedBackend(latency_ms=1, jitter_ms=5, seed=3) for _ in range(2))
    times = [one.batch_ms(1) for _ in range(100)]
    assert times == [other.batch_ms(1) for _ in range(100)]
    assert min(times) >= 0
    assert len(set(times)) > 10


def test_an_emulated_action_model_lets_the_arm_stand_where_it_is() -> None:
    state = {"joint_position": np.arange(7, dtype=np.float32), "gripper_width": np.full(1, 0.04, np.float32)}
    (output,) = EmulatedBackend(horizon=5).infer([ModelInput("system1", state=state)])
    actions = output.arrays["actions"]
    assert actions.shape == (5, 8)
    assert actions.dtype == np.float32
    assert actions[4].tolist() == pytest.approx([*range(7), 0.04])


def test_an_emulated_monitor_says_what_it_is_told() -> None:
    (output,) = EmulatedBackend(verdict="done").infer([ModelInput("monitor")])
    assert output.verdict == "done"


def test_replay_answers_in_order_and_begins_again(tmp_path: Path) -> None:
    np.savez(tmp_path / "1.npz", actions=np.stack([np.full((2, 8), n, np.float32) for n in (1, 2)]))
    np.savez(tmp_path / "2.npz", verdict=np.array(["done"]))
    model = ReplayBackend(str(tmp_path))
    model.load()
    outputs = [model.infer([ModelInput("system1")])[0] for _ in range(4)]
    assert [o.verdict or o.arrays["actions"][0, 0] for o in outputs] == [1, 2, "done", 1]


def test_replay_says_which_file_is_damaged_or_is_no_recording(tmp_path: Path) -> None:
    np.savez(tmp_path / "whole.npz", actions=np.zeros((2, 8), np.float32))
    whole = (tmp_path / "whole.npz").read_bytes()
    (tmp_path / "short.npz").write_bytes(whole[:-30])
    (tmp_path / "damaged.npz").write_bytes(whole[:200] + bytes([whole[200] ^ 255]) + whole[201:])
    np.save(tmp_path / "single.npy", np.zeros((2, 8), np.float32))
    (tmp_path / "text.npz").write_text("no archive")
    for name in ("short.npz", "damaged.npz", "single.npy", "text.npz"):
        with pytest.raises(ReplayError, match=name) as error:
            ReplayBackend(str(tmp_path / name)).load()
        assert "pickle" not in str(error.value), "it would be unsafe, and is not what is wrong"


def test_replay_names_whatever_is_wrong_within_an_archive(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez_compressed(tmp_path / "packed.npz", actions=rng.random((4, 16, 8)).astype(np.float32))
    data = bytearray((tmp_path / "packed.npz").read_bytes())
    data[60:90] = bytes(byte ^ 255 for byte in data[60:90])
    (tmp_path / "packed.npz").write_bytes(data)
    header = io.BytesIO()
    told = {"descr": "<f4", "fortran_order": False, "shape": (1 << 40, 16, 8)}
    np.lib.format.write_array_header_1_0(header, told)
    for name, inside in (("text.npz", b"hello"), ("huge.npz", header.getvalue())):
        with ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("actions.npy", inside)
    np.savez(tmp_path / "none.npz", actions=np.zeros((2, 0, 8), np.float32))
    np.savez(tmp_path / "large.npz", actions=np.full((2, 8), 1e300))
    for name in ("packed.npz", "text.npz", "huge.npz", "none.npz", "large.npz"):
        with pytest.raises(ReplayError, match=name):
            ReplayBackend(str(tmp_path / name)).load()


def test_replay_refuses_pickles_and_non_finite_chunks(tmp_path: Path) -> None:
    np.savez(tmp_path / "objects.npz", actions=np.array([{"a": 1}], dtype=object))
    np.savez(tmp_path / "nan.npz", actions=np.full((2, 8), np.nan, np.float32))
    for name in ("objects.npz", "nan.npz", "missing.npz"):
        with pytest.raises(ReplayError, match=name):
            ReplayBackend(str(tmp_path / name)).load()
