"""What of backend `jax_policy` needs no JAX: its options and parameters. The rest: `make test-jax`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from rosa_server.models.policies.jax_policy import load_parameters
from rosa_server.models.registry import BackendError, create


def test_parameters_of_either_format_are_the_same(tmp_path: Path) -> None:
    arrays = {"weight": np.arange(6, dtype=np.float16).reshape(2, 3), "steps": np.array([3], np.int32)}
    np.savez(tmp_path / "p.npz", **arrays)
    save_file(arrays, str(tmp_path / "p.safetensors"))
    for name in ("p.npz", "p.safetensors"):
        found = load_parameters(str(tmp_path / name))
        assert found["weight"].dtype == np.float32 and found["steps"].dtype == np.int32
        assert np.array_equal(found["weight"], arrays["weight"])


def test_parameters_that_cannot_be_read_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.npz: no such file"):
        load_parameters(str(tmp_path / "nowhere.npz"))
    for name in ("p.npz", "p.safetensors", "p.pickle"):
        (tmp_path / name).write_bytes(b"x" * 64)
        with pytest.raises(BackendError, match=name) as error:
            load_parameters(str(tmp_path / name))
        assert error.value.cause == "bad_weights" and "\n" not in str(error.value)


def test_a_folder_of_orbax_names_what_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "orbax", None)
    with pytest.raises(BackendError, match="rosa env jax --with orbax-checkpoint"):
        load_parameters(str(tmp_path))


def test_an_array_of_objects_is_not_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "p.npz", weights=np.array([{}], dtype=object))
    with pytest.raises(BackendError, match="allow_pickle"):
        load_parameters(str(tmp_path / "p.npz"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"policy": "no_function"}, "expected module:function, got 'no_function'"),
        ({"policy": "a.b:c", "max_batch": 0}, "max_batch: expected 1 to"),
        ({}, "missing a required argument: 'policy'"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BackendError, match=words) as error:
        create("jax_policy", **options)
    assert error.value.cause == "bad_options"


def test_sizes_and_space_are_known_before_it_is_loaded() -> None:
    made: Any = create(
        "jax_policy",
        policy="m:f",
        images={"front": [48, 64]},
        state={"q": 6},
        answers="joint_delta",
        max_batch=6,
    )
    assert made.input_spec.images == {"front": (48, 64)} and made.input_spec.actions == "joint_delta"
    assert made.capabilities.batch_sizes == (1, 2, 4, 6)


def test_without_jax_the_environment_that_has_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(BackendError, match="rosa env jax") as error:
        create("jax_policy", policy="m:f").load()
    assert error.value.cause == "not_importable"
