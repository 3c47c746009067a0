"""`rosa models` lists every backend by name, and says what is missing and what brings it."""

from __future__ import annotations

import json

import pytest

from rosa_server.cli import main
from rosa_server.commands import models
from rosa_server.environments.table import ENVIRONMENTS
from rosa_server.models.registry import BACKENDS
from rosa_server.models.requirements.catalog import CATALOG


@pytest.mark.slow
def test_every_backend_has_a_line_and_every_environment_exists(capsys: pytest.CaptureFixture[str]) -> None:
    assert CATALOG.keys() == BACKENDS.keys()
    assert {entry.environment for entry in CATALOG.values()} - {""} <= ENVIRONMENTS.keys()
    assert main(["models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(CATALOG)
    assert next(line for line in lines if line.startswith("flow_policy")).endswith(")")


@pytest.mark.slow
def test_what_is_missing_is_named_with_what_brings_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(models, "find_spec", lambda name: None if name == "transformers" else object())
    assert main(["models"]) == 0
    line = next(one for one in capsys.readouterr().out.splitlines() if one.startswith("transformers_vlm"))
    assert "missing: transformers (`rosa env transformers` brings it); needs `model`" in line
    assert main(["models", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["backends"]["transformers_vlm"]["packages"]
    assert told["transformers"] == "" and told["torch"]
