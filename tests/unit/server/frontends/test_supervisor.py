"""Frontends as processes: what cannot be started now is tried again."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from rosa_contract.config.factory import load_factory
from rosa_server.frontends.supervisor import Frontends, frontend_specs
from rosa_server.serving.base.log import LOGGER

CONFIG = Path("configs/frontends.yaml")
GATEWAY = "tcp://127.0.0.1:5570"


class NoCounts:
    def frontend(self, name: str, clients: int, refused: Mapping[str, int]) -> None: ...


@pytest.mark.parametrize("call", ["pipe", "dup"])
def test_a_server_without_descriptors_goes_on_without_its_frontend(
    call: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    caplog.set_level("WARNING", LOGGER.name)
    frontends = Frontends(frontend_specs(load_factory(CONFIG), GATEWAY)[:1], NoCounts())
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(f"rosa_server.frontends.supervisor.os.{call}", full)
    frontends.step(0.0)
    monkeypatch.undo()
    (line,) = [one for one in caplog.records if one.message == "frontend_lost"]
    assert "Too many open files" in line.fields["reason"]  # type: ignore[attr-defined]
    assert not frontends.listening and len(os.listdir("/proc/self/fd")) == before
    frontends.stop(0.0)
