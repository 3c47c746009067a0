"""`rosa bench fleet`: one row per system, size and start, for people and for machines."""

from __future__ import annotations

import json

import pytest

from rosa_server.cli import main

QUICK = ["--systems", "rosa,gpu_per_model", "--seconds", "5", "--seeds", "2", "--robots", "8"]


@pytest.mark.slow
def test_json_has_one_object_per_system_and_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "fleet", "p4", "--json", *QUICK]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["system"], row["start"]) for row in rows] == [
        ("rosa", "random"),
        ("rosa", "together"),
        ("gpu_per_model", "random"),
        ("gpu_per_model", "together"),
    ]
    for row in rows:
        assert (row["scenario"], row["robots"], row["servers"], row["seeds"]) == ("p4", 8, 8, 2)
        assert set(row["meet"]) == {"system1", "system2", "safety", "monitor"}
        assert 0 < row["qualified_hz"] <= row["raw_hz"] <= row["limit_hz"]
    assert [row["served"] for row in rows] == [8, 8, 2, 2]


@pytest.mark.slow
def test_the_table_names_its_columns_and_who_was_not_served(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "fleet", "p4", *QUICK, "--start", "random"]) == 0
    header, ours, dedicated = capsys.readouterr().out.splitlines()
    for word in ("system", "planned", "raw", "qualified", "limit", "GPU"):
        assert word in header
    assert ours.startswith("rosa ")
    assert dedicated.endswith("2 of 8 served")


@pytest.mark.slow
def test_a_plan_that_is_refused_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--robots", "24", "--servers", "1", "--systems", "rosa", "--seconds", "1", "--seeds", "1"]
    assert main(["bench", "fleet", "p4", *small, "--start", "random"]) == 0
    assert "refused: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["p4", "--robots", "8,many"], "--robots"),
        (["p4", "--systems", "rossa"], "did you mean 'rosa'"),
        (["p4", "--start", "later"], "--start"),
        (["p4", "--seeds", "0"], "--seeds"),
        (["p4", "--servers", "0"], "--servers"),
        (["p4", "--seconds", "-1"], "--seconds"),
        (["p5"], "no such scenario"),
    ],
)
def test_a_mistake_is_one_error_of_the_user(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "fleet", *arguments]) == 2
    assert words in capsys.readouterr().err
