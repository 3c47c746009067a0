"""Backends by name, and what of a factory file's options they get."""

from __future__ import annotations

from rosa_server.models.registry import with_engine


def test_a_backend_never_sees_that_its_engine_was_left_to_the_schedule() -> None:
    assert with_engine({"engine": "auto", "seed": 1}, "kv_sharing") == {"engine": "kv_sharing", "seed": 1}
    assert with_engine({"engine": "auto", "seed": 1}) == {"seed": 1}


def test_an_engine_that_the_file_names_stays() -> None:
    given = {"engine": "isolated"}
    assert with_engine(given, "kv_sharing") == given
    assert with_engine({}, "kv_sharing") == {}
