"""A person gives a running server more GPUs and takes them back: robots keep asking, and no call is lost."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rosa_contract.wire import messages as m
from tests.system.operations.asking import asking, rosa
from tests.system.schedule.plans import planned
from tests.system.server_harness import PATIENCE_S, Server, robot

ASKS = {"images": {}, "budget_ms": 20_000}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """On three servers of four."""
    home = tmp_path / "run"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home))
    with planned(tmp_path, "--what-if", "servers=2") as (made, plan):
        assert len(plan["servers"]) == 2
        made.start()
        yield made


def test_a_server_scales_up_and_down_while_robots_ask_on(server: Server, tmp_path: Path) -> None:
    with ExitStack() as stack:
        robots = [stack.enter_context(robot(server, name)).join("pick", cameras={}) for name in ("p0", "p1")]
        asks = [stack.enter_context(asking(one, **ASKS)) for one in robots]
        tried = rosa("scale", "servers=4", "--dry-run")
        assert tried.returncode == 0, tried.stderr
        assert "would follow" in tried.stdout and "loads emulated/policy" in tried.stderr
        assert len(server.workers()) == 2

        grown = rosa("scale", "servers=4", "--save", str(tmp_path / "four.json"))
        assert grown.returncode == 0, grown.stderr
        assert "4 servers (was 2)" in grown.stdout and "streams move" in grown.stderr
        four = json.loads((tmp_path / "four.json").read_text())
        assert len(four["servers"]) == len(server.workers()) == 4
        before = [len(one.answers) for one in asks]
        end_s = time.monotonic() + PATIENCE_S
        while any(len(one.answers) < count + 3 for one, count in zip(asks, before, strict=True)):
            assert time.monotonic() < end_s and not any(one.failed for one in asks)
            time.sleep(0.01)

        shrunk = rosa("reschedule", str(tmp_path / "plan.json"))
        assert shrunk.returncode == 0, shrunk.stderr
        assert "unloads" in shrunk.stderr and len(server.workers()) == 2
        refused = rosa("scale", "servers=1")
        assert refused.returncode == 2 and "shares_gpus" in refused.stderr, "one GPU would have to be shared"
    assert all(answer.status == m.OK for one in asks for answer in one.answers), "no call was lost"
    steps = [one["step"] for one in server.events("operation") if one["what"] == "reschedule"]
    assert steps.count("done") == 2 and steps.count("failed") == 1, "the last was refused when it was planned"
