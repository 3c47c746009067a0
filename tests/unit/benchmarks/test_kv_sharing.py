"""The benchmark of KV sharing runs, its ways say the same, and pi0.5's kind of eyes and numbers work in it too."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.engines import kv_sharing
from benchmarks.engines.graphed_network import GraphedNetwork
from rosa_server.models.token_policy.vision_transformer import VisionConfig
from rosa_server.models.vla.config import PI05


def test_the_short_mode_measures_every_way_and_says_what_it_found(tmp_path: Path) -> None:
    kv_sharing.main(["--short", "--seconds", "0", "--rounds", "1", "--out", str(tmp_path)])
    report = json.loads((tmp_path / "kv_sharing.json").read_text())
    measured = [row for row in report["rows"] if isinstance(row["actions_hz"], float)]
    assert [row["way"] for row in measured] == ["isolated", "together", "shared", "batched"]
    assert all(row["tokens_s"] > 0 for row in measured)
    assert measured[3]["mean_batch"] > measured[2]["mean_batch"] == 1.0
    assert {row["actions_hz"] for row in report["rows"][4:]} == {"not measured: run with --device cuda"}
    assert report["aims"][2]["holds"], "the words of all ways are the same"
    assert [path.name for path in tmp_path.iterdir()] == ["kv_sharing.json"]


def test_the_kind_of_model_that_a_gpu_measures_runs_in_16_bits() -> None:
    small = replace(
        PI05,
        width=32,
        layers=2,
        heads=2,
        head_dim=16,
        mlp=48,
        vocabulary=64,
        expert_width=32,
        expert_mlp=48,
        vision=replace(VISION, depth=2),
    )
    network = kv_sharing.random_network(small, torch.device("cpu"), torch.bfloat16)
    rows = list(
        kv_sharing.measure(
            kv_sharing.Bench(network, kv_sharing.Work("paper", 1, 2, 6, (2, 3))), "small", 0.0, 1
        )
    )
    assert [(row["way"], row["k"]) for row in rows] == [
        ("isolated", 6),
        ("together", 6),
        ("shared", 6),
        ("batched", 2),
        ("batched", 3),
    ]
    assert all(row["actions_hz"] > 0 for row in rows)
    components = [row | {"work": "components"} for row in rows]
    assert [aim["aim"].split()[0] for aim in kv_sharing.judged([*components, *rows], "cuda")] == [
        "from",
        "in",
        "four",
        "in",
    ]


VISION = VisionConfig(width=16, depth=2, heads=2, mlp=24, image=28, patch=14)


def test_passes_that_are_recorded_lose_nothing_on_the_way() -> None:
    small = replace(PI05, width=32, layers=2, heads=2, head_dim=16, mlp=48, vocabulary=64, expert_width=32)
    small = replace(small, expert_mlp=48, vision=replace(VISION, depth=2))
    network = kv_sharing.random_network(small, torch.device("cpu"), torch.float32)
    bench = kv_sharing.Bench(network, kv_sharing.Work("components", 2, 2, 4, (2,)))
    plain = bench.batch(bench.calls(0))
    bench.network = GraphedNetwork(network)
    assert bench.equal() == (True, pytest.approx(0.0, abs=1e-5))
    again = bench.batch(bench.calls(0))
    for one, other in zip(plain, again, strict=True):
        if isinstance(one, torch.Tensor):
            assert torch.allclose(one, other, atol=1e-6)
        else:
            assert one.tokens == other.tokens
    assert bench.network._graphs, "they went through it"


def test_unequal_words_or_chunks_are_a_missed_aim_on_a_gpu_as_well() -> None:
    row = {"work": "components", "robots": 1, "S": 1, "N": 1, "k": 1, "over_together": 2.0}
    rows = [
        row | {"way": way, "speedup": 4.0, "equal": True, "off": 0.0}
        for way in ("isolated", "together", "shared", "batched")
    ]
    assert all(aim["holds"] for aim in kv_sharing.judged(rows, "cuda"))
    for wrong in ({"equal": False}, {"off": 0.1}):
        assert not all(aim["holds"] for aim in kv_sharing.judged([rows[0] | wrong, *rows[1:]], "cuda"))
    assert not kv_sharing.judged([], "cuda")[0]["holds"]
