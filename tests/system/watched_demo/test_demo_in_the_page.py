"""Somebody watches the demo in a browser, sees the robot call, decides there, and the demo goes on to its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.system.cell.cell import factory_file
from tests.system.dashboard.page import MISSING, Browser, browser_is_here, dashboard
from tests.system.domains import own_domain
from tests.system.server_harness import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not browser_is_here(), reason=MISSING)]
NAMESPACE = "watched"
LONGEST_S = 240.0
WHY = "I looked; the cell is clear"
FAULT = "worker_nan"  # System 1 answers what no arm may play, until the fault is lifted

# Of the robot's row; its own view shows the same.
RECORDED = """
const [name, done] = arguments;
import('/page/overview.js').then((overview) => done(overview.rows.get(name)?.recording ?? ''), () => done(''));
"""


def decided(page: Browser) -> bool:
    """Answers the alert that is open, as a person does; False while there is none."""
    # In one step: another alert may take the place of the one that was looked at.
    if not page.run(
        "const button = document.querySelector('#alerts [data-choice=resume]');"
        "if (button) button.click(); return Boolean(button)"
    ):
        return False
    page.type(WHY)
    page.click("#decide-yes")
    page.until(
        lambda: not page.run("return document.getElementById('decide').open") or page.text("#decide-problem"),
        "what came of the decision",
    )
    if page.run("return document.getElementById('decide').open"):  # the robot was faster
        page.click("#decide-no")
    return True


def test_a_fault_of_the_demo_is_answered_in_the_page_and_the_demo_goes_on(tmp_path: Path) -> None:
    watch = f"ipc://{tmp_path / 'private' / 'watch'}"
    config, _ = factory_file(tmp_path, NAMESPACE, watch=watch)
    command = [
        sys.executable,
        "-m",
        "rosa_sim.demo",
        "--config",
        str(config),
        "--out",
        str(tmp_path / "runs"),
    ]
    command += [
        "--namespace",
        NAMESPACE,
        "--fault",
        FAULT,
        "--fault-seconds",
        "2",
        "--episodes",
        "1",
        "--operator",
        "--no-video",
    ]
    with (
        own_domain(),
        (tmp_path / "demo.log").open("wb") as log,
        dashboard(watch, tmp_path) as (address, token),
    ):
        browser = Browser(tmp_path)
        demo = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=log,
            process_group=0,
        )
        try:
            browser.open(f"{address}#token={token}")
            until_s = time.monotonic() + LONGEST_S
            answers, recorded = 0, ""
            while demo.poll() is None:
                assert time.monotonic() < until_s, (tmp_path / "demo.log").read_text()[-4000:]
                assert "cannot be read" not in browser.text("#banner")
                if decided(browser):
                    answers += 1
                    recorded = recorded or browser.ask(
                        "/execute/async", {"script": RECORDED, "args": [NAMESPACE]}
                    )
                    browser.until_text("#audit", WHY)
                time.sleep(0.1)
            # 409: the robot had gone on before this decision came, and the page says so.
            assert [one for one in browser.problems() if "409 (Conflict)" not in one] == []
        finally:
            browser.close()
            if demo.poll() is None:
                os.killpg(demo.pid, 15)
                try:
                    demo.wait(30)
                except subprocess.TimeoutExpired:
                    os.killpg(demo.pid, 9)
                    demo.wait(30)
    account = (tmp_path / "demo.log").read_text()[-4000:]
    assert answers >= 1, account
    [run] = (tmp_path / "runs").iterdir()
    assert recorded.partition(":")[2] == str(run / "run.mcap"), "the page says where the robot is recorded"
    [summary] = (tmp_path / "runs").glob("*/summary.json")
    [episode] = json.loads(summary.read_text())["rows"]
    assert any("resume" in one and one.endswith("accepted") for one in episode["decisions"]), account
    assert (episode["outcome"], episode["truth"]) == ("done", "done"), account
    assert demo.returncode == 0, account
