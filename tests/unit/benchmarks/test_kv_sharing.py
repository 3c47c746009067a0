"""The benchmark of KV sharing runs, its ways say the same, and pi0.5's kind of eyes and numbers work in it too."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.engines import kv_sharing
from rosa_server.models.token_policy.vision_transformer import VisionConfig
from rosa_server.models.vla.config import PI05


def test_the_short_mode_measures_every_way_and_says_what_it_found(tmp_path: Path) -> None:
    kv_sharing.main(["--short", "--seconds", "0", "--rounds", "1", "--out", str(tmp_path)])
    report = json.loads((tmp_path / "kv_sharing.json").read_text())
    measured = [row for row in report["rows"] if isinstance(row["actions_hz"], float)]
    assert [row["way"] for row in measured] == ["isolated", "shared", "batched"]
    assert all(row["tokens_s"] > 0 for row in measured)
    assert measured[2]["mean_batch"] > measured[1]["mean_batch"] == 1.0
    assert {row["actions_hz"] for row in report["rows"][3:]} == {"not measured: run with --device cuda"}
    assert report["aims"][1]["holds"], "the words of all ways are the same"
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
        ("shared", 6),
        ("batched", 2),
        ("batched", 3),
    ]
    assert all(row["actions_hz"] > 0 for row in rows)
    components = [row | {"work": "components"} for row in rows]
    assert [aim["aim"].split()[0] for aim in kv_sharing.judged([*components, *rows], "cuda")] == [
        "from",
        "in",
        "words",
    ]


VISION = VisionConfig(width=16, depth=2, heads=2, mlp=24, image=28, patch=14)
