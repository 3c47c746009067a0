"""Weights are data, and the factory file may say which: a worker reads no others."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from rosa_contract.config.factory import load_factory, parse_factory
from rosa_contract.errors import ConfigError
from rosa_server.models.checksums import verify
from rosa_server.models.registry import BackendError

FACTORY = """
server_cluster: {num_servers: 1}
robot_fleet: [{task: pick, num_robots: 1}]
pick:
  pipeline: {action_period_ms: 400}
  components:
    system1: {model: policy, slo_ms: 300}
models:
  policy:
    backend: flow_policy
    options: {weights: w.safetensors}
    sha256: {w.safetensors: SUM}
"""


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "w.safetensors"
    path.write_bytes(b"weights")
    return path


def cause(sums: dict[str, str], options: dict[str, str]) -> str:
    with pytest.raises(BackendError) as caught:
        verify(sums, options)
    return caught.value.cause


def test_the_right_file_passes_and_no_checksum_asks_for_none(weights: Path) -> None:
    verify({str(weights): digest(b"weights")}, {"weights": str(weights)})
    verify({}, {"weights": str(weights)})


def test_one_changed_byte_is_another_file(weights: Path) -> None:
    sums = {str(weights): digest(b"weights")}
    weights.write_bytes(b"Weights")
    assert cause(sums, {"weights": str(weights)}) == "checksum_mismatch"


def test_a_file_that_is_not_there_is_a_mismatch_too(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    assert cause({gone: digest(b"")}, {"weights": gone}) == "checksum_mismatch"


def test_checksums_of_other_files_do_not_vouch_for_these_weights(weights: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"other")
    assert cause({str(other): digest(b"other")}, {"weights": str(weights)}) == "checksum_missing"


def test_of_a_folder_every_file_needs_one(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    parts = {"a.safetensors": b"a", "config.json": b"{}"}
    for name, content in parts.items():
        (folder / name).write_bytes(content)
    sums = {str(folder / name): digest(content) for name, content in parts.items()}
    verify(sums, {"weights": str(folder)})
    (folder / "b.safetensors").write_bytes(b"b")
    assert cause(sums, {"weights": str(folder)}) == "checksum_missing"


def test_of_a_folder_that_is_a_link_every_file_needs_one_as_well(tmp_path: Path) -> None:
    """A library that is given the outer folder opens it like any other."""
    folder, elsewhere = tmp_path / "model", tmp_path / "elsewhere"
    for one in (folder, elsewhere):
        one.mkdir()
        (one / "a.safetensors").write_bytes(b"a")
    (folder / "encoder").symlink_to(elsewhere)
    (elsewhere / "round").symlink_to(folder)
    sums = {str(folder / "a.safetensors"): digest(b"a")}
    assert cause(sums, {"weights": str(folder)}) == "checksum_missing"
    sums[str(elsewhere / "a.safetensors")] = digest(b"a")
    verify(sums, {"weights": str(folder)})


def test_words_beside_weights_whose_name_looks_like_a_pattern_need_one(tmp_path: Path) -> None:
    weights, words = tmp_path / "policy[2].safetensors", tmp_path / "policy[2].words.json"
    weights.write_bytes(b"weights")
    words.write_text("[]")
    assert cause({str(weights): digest(b"weights")}, {"weights": str(weights)}) == "checksum_missing"


def test_words_beside_the_weights_need_one_as_well(weights: Path) -> None:
    """A backend reads them without being told."""
    weights.with_suffix(".words.json").write_text("[]")
    assert cause({str(weights): digest(b"weights")}, {"weights": str(weights)}) == "checksum_missing"


def test_paths_start_at_the_folder_of_the_factory_file(weights: Path, tmp_path: Path) -> None:
    (tmp_path / "factory.yaml").write_text(FACTORY.replace("SUM", digest(b"weights")))
    model = load_factory(tmp_path / "factory.yaml").models["policy"]
    verify(model.sha256, model.options)


@pytest.mark.parametrize("text", ["abc", "z" * 64, "A" * 63, "'" + "0" * 65 + "'"])
def test_what_is_no_checksum_is_refused_with_its_path(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_factory(FACTORY.replace("SUM", text))
    assert [problem.path for problem in caught.value.problems] == ["models.policy.sha256.w.safetensors"]
