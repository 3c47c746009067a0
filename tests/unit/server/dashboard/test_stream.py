"""What open pages are told: each hears of every change, also when several pages ask at about the same time."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

from starlette.requests import Request

from rosa_contract.wire.status import EMERGENCY_STOP
from rosa_contract.wire.watching import Asked, encode_ask
from rosa_server.dashboard import app
from rosa_server.dashboard.app import Dashboard
from rosa_server.dashboard.feed import Feed
from rosa_server.dashboard.guard import LOOPBACK, PageGuard
from rosa_server.dashboard.model import FleetModel
from rosa_server.dashboard.people import People

PATIENCE_S = 5.0


def test_a_page_that_asks_soon_after_another_one_misses_no_change(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(
        app, "TELL_EVERY_S", 1e9
    )  # both ask in the same interval, however slow this machine is
    model = FleetModel()
    feed = Feed(f"ipc://{tmp_path}/nobody", model)
    dashboard = Dashboard(model, feed, PageGuard(LOOPBACK, 8570, People({}), False))

    async def open_page() -> list[str]:
        page = dashboard._events()
        told = json.loads((await anext(page)).removeprefix(b"data: "))
        await page.aclose()
        return [row["robot"] for row in told["rows"]]

    def hear(robot: str) -> None:
        now_s = time.monotonic()
        model.robots.listed(now_s, 1.0, [[robot, "pick", "", 0.0, True, []]])
        model.robots.refresh(now_s)

    async def open_two() -> None:
        feeding = asyncio.create_task(feed.run())
        await asyncio.sleep(0)  # it has begun, and closes its socket when it ends
        hear("r1")
        assert await open_page() == ["r1"]
        hear("r2")
        assert await open_page() == ["r1", "r2"], "what the next change of this page begins after"
        feeding.cancel()
        await asyncio.wait([feeding])

    asyncio.run(open_two())


def test_words_that_no_message_can_carry_hold_no_decision_up() -> None:
    """Half of an emoji, as JavaScript cuts it."""
    asked = app._asked({"robot": "r1", "alert": 0, "choice": EMERGENCY_STOP, "why": "smoke \ud83d"})
    assert not isinstance(asked, str)
    robot, alert, choice, why = asked
    encode_ask(Asked(b"", 1, robot, alert, choice, "anna", why))
    assert why.startswith("smoke")


def test_a_robot_with_long_reports_keeps_nobody_waiting_who_does_not_look_at_it(
    monkeypatch: Any, tmp_path: Path
) -> None:
    """Reading them takes seconds; an emergency stop of another robot goes through the same loop."""
    model = FleetModel()
    feed = Feed(f"ipc://{tmp_path}/nobody", model)
    dashboard = Dashboard(model, feed, PageGuard(LOOPBACK, 8570, People({}), False))
    asked, over = threading.Event(), threading.Event()

    def slow(*about: Any) -> dict[str, Any]:
        asked.set()
        assert over.wait(PATIENCE_S), "others waited"
        return {"row": {}}

    monkeypatch.setattr(model, "robot", slow)

    async def look() -> None:
        feeding = asyncio.create_task(feed.run())
        looks = asyncio.create_task(dashboard._robot(Request({"type": "http", "query_string": b""}), "anna"))
        while not asked.is_set():
            await asyncio.sleep(0.001)
        over.set()  # by somebody else
        assert (await looks).status_code == 200
        feeding.cancel()
        await asyncio.wait([feeding])

    asyncio.run(look())
