"""Backends by name, and what of a factory file's options they get."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from rosa_server.models.backend import ModelInput
from rosa_server.models.registry import create, with_engine


def test_a_backend_never_sees_that_its_engine_was_left_to_the_schedule() -> None:
    assert with_engine({"engine": "auto", "seed": 1}, "kv_sharing") == {"engine": "kv_sharing", "seed": 1}
    assert with_engine({"engine": "auto", "seed": 1}) == {"seed": 1}


def test_an_engine_that_the_file_names_stays() -> None:
    given = {"engine": "isolated"}
    assert with_engine(given, "kv_sharing") == given
    assert with_engine({}, "kv_sharing") == {}


def test_a_class_of_ones_own_is_found_in_the_current_folder_as_a_worker_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "somebodys_model.py").write_text(
        "from rosa_server.models.emulated import NullBackend\n\nclass Mine(NullBackend): ...\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one not in ("", str(tmp_path))])
    assert type(create("somebodys_model:Mine")).__name__ == "Mine"
    monkeypatch.delitem(sys.modules, "somebodys_model")


def test_null_answers_as_many_columns_as_the_robot_has() -> None:
    null = create("null")
    six = {"joint_position": np.zeros(6, np.float32)}
    for state, columns in ((six, 6), ({**six, "gripper_width": np.zeros(1, np.float32)}, 7), ({}, 8)):
        (output,) = null.infer([ModelInput("system1", state=state)])
        assert output.arrays["actions"].shape == (50, columns)
