"""The dashboard over HTTP: one page of files, a stream of events down, decisions up."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rosa_contract.wire.bounds import MAX_ID, MAX_NAME_CHARS
from rosa_contract.wire.status import ARM_CHOICES, MAX_WORDS
from rosa_server.dashboard.feed import Feed
from rosa_server.dashboard.guard import HEADERS, PageGuard, PageRefusal
from rosa_server.dashboard.hooks import Hooks
from rosa_server.dashboard.model import FleetModel
from rosa_server.dashboard.pictures import shown_pictures
from rosa_server.serving.base import log
from rosa_server.serving.core.guard.bucket import Bucket

PAGE = Path(__file__).parent / "page"
TELL_EVERY_S = 0.25
MAX_VIEWERS = 32
MAX_BODY_BYTES = 4096
DECISIONS_PER_S, DECISIONS_AT_ONCE = 5.0, 20.0


class Guarded:
    """Refuses what `PageGuard` refuses, and adds the headers that keep a page to itself."""

    def __init__(self, app: ASGIApp, guard: PageGuard) -> None:
        self._app, self._guard = app, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = self._guard.refuses(headers_of(scope))

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                kept = [one for one in message["headers"] if one[0].decode().lower() not in HEADERS]
                message["headers"] = [*kept, *more]
            await send(message)

        app: ASGIApp = self._app if refused is None else refusal(refused)
        await app(scope, receive, guarded)


def headers_of(scope: Scope) -> dict[str, str]:
    """In lower case; one that stands twice counts as all of them, so that none of them is overlooked."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def refusal(refused: PageRefusal) -> JSONResponse:
    told = {"accepted": False, "cause": refused.cause, "reason": refused.reason}
    return JSONResponse(told, refused.status)


class Dashboard:
    """What the routes do."""

    def __init__(self, model: FleetModel, feed: Feed, guard: PageGuard, hooks: Hooks | None = None) -> None:
        self._model, self._feed, self._guard, self._hooks = model, feed, guard, hooks
        self._viewers = 0
        self._budgets: dict[str, Bucket] = {}  # by person
        self._made: tuple[tuple[int, ...], bytes] | None = None  # the last change, for who saw the same

    def app(self) -> ASGIApp:
        @contextlib.asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            running = [self._feed.run(), *([self._hooks.run()] if self._hooks else [])]
            tasks = [asyncio.create_task(one) for one in running]
            yield
            for task in tasks:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

        routes = [
            Route("/", self._index),
            Route("/api/me", self._person(self._me)),
            Route("/api/stream", self._person(self._stream)),
            Route("/api/robot", self._person(self._robot)),
            Route("/api/pictures", self._person(self._pictures)),
            Route("/api/decide", self._person(self._decide), methods=["POST"]),
            Mount("/page", StaticFiles(directory=PAGE)),
        ]
        return Guarded(Starlette(routes=routes, lifespan=lifespan), self._guard)

    # -- routes ---------------------------------------------------------------------------------------------------

    async def _index(self, request: Request) -> Response:
        return FileResponse(PAGE / "index.html")

    def _person(
        self, answer: Callable[[Request, str], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Only for somebody with a token."""

        async def checked(request: Request) -> Response:
            person = self._guard.person(headers_of(request.scope), time.monotonic())
            return refusal(person) if isinstance(person, PageRefusal) else await answer(request, person)

        return checked

    async def _me(self, request: Request, person: str) -> Response:
        return JSONResponse({"person": person})

    async def _robot(self, request: Request, person: str) -> Response:
        try:
            since_s = float(request.query_params.get("since", "-1"))
        except ValueError:
            since_s = -1.0
        name = request.query_params.get("name", "")

        def told() -> Response | None:
            found = self._model.robot(name, time.monotonic(), since_s)
            return None if found is None else JSONResponse(found)

        # A robot may make its reports long: reading those of minutes takes seconds, which others need not wait for.
        answer = await asyncio.to_thread(told)
        if answer is None:
            return JSONResponse({"cause": "robot_not_here", "reason": "no robot of this name is here"}, 404)
        return answer

    async def _pictures(self, request: Request, person: str) -> Response:
        """What a robot's cameras showed last; to be asked once a second while somebody looks."""
        robot = request.query_params.get("name", "")
        if self._model.robots.get(robot) is None:
            return JSONResponse({"cause": "robot_not_here", "reason": "no robot of this name is here"}, 404)
        self._feed.look(robot)
        found = self._model.pictures.of(robot)
        # Encoding takes milliseconds, which the other viewers need not wait for.
        shown = await asyncio.to_thread(shown_pictures, found, time.monotonic())
        return JSONResponse({"cameras": shown})

    async def _decide(self, request: Request, person: str) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind != "application/json":
            return refusal(PageRefusal(415, "bad_request", "send application/json"))
        budget = self._budgets.setdefault(person, Bucket(DECISIONS_PER_S, DECISIONS_AT_ONCE))
        if not budget.take_if_left(1.0, time.monotonic()):
            return refusal(PageRefusal(429, "too_many_attempts", "too many decisions at once; wait a little"))
        asked = _asked(await _body(request))
        if isinstance(asked, str):
            return refusal(PageRefusal(400, "bad_request", asked))
        outcome = await self._feed.decide(person, *asked)
        robot, alert, choice, why = asked
        told: dict[str, Any] = {
            "accepted": outcome.accepted,
            "cause": outcome.cause,
            "reason": outcome.reason,
        }
        log.event("decided", robot=robot, alert=alert, choice=choice, by=person, why=why, **told)
        return JSONResponse(told, 200 if outcome.accepted else 409)

    async def _stream(self, request: Request, person: str) -> Response:
        if self._viewers >= MAX_VIEWERS:
            return refusal(PageRefusal(503, "too_many_viewers", f"{MAX_VIEWERS} pages are open already"))
        kind = {"content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no"}
        return StreamingResponse(self._events(), headers=kind, media_type="text/event-stream")

    async def _events(self) -> AsyncIterator[bytes]:
        """What has changed, four times a second. Who reads slowly gets fewer and larger changes, and delays nobody."""
        self._viewers += 1
        seen = (0, 0, 0)
        try:
            while True:
                rows, line = self._model.robots.version, self._model.line
                point = self._model.history[-1][0] if self._model.history else 0
                yield self._change(seen, (rows, line, point))
                seen = (rows, line, point)
                await asyncio.sleep(TELL_EVERY_S)
        finally:
            self._viewers -= 1

    def _change(self, seen: tuple[int, int, int], now: tuple[int, int, int]) -> bytes:
        now_s = time.monotonic()
        key = (*seen, *now, int(now_s / TELL_EVERY_S))
        if self._made is not None and self._made[0] == key:
            return self._made[1]
        model = self._model
        rows, gone = model.robots.changes(seen[0])
        told: dict[str, Any] = {
            "totals": model.totals(now_s),
            "whole": seen == (0, 0, 0),
            "rows": rows,
            "gone": gone,
            "audits": [audit for number, audit in model.audits if number > seen[1]],
            "events": [event for number, event in model.events if number > seen[1]],
            "points": [point for number, point in model.history if number > seen[2]],
        }
        made = (
            b"data: "
            + json.dumps(told, separators=(",", ":"), allow_nan=False, default=str).encode()
            + b"\n\n"
        )
        self._made = key, made
        return made


async def _body(request: Request) -> Any:
    """The JSON of a request, None for anything else and for anything long."""
    parts = b""
    async for part in request.stream():
        parts += part
        if len(parts) > MAX_BODY_BYTES:
            return None
    try:
        return json.loads(parts)
    except (ValueError, RecursionError):
        return None


def _asked(body: Any) -> tuple[str, int, str, str] | str:
    """(robot, alert, choice, why) of a request, or what is wrong with it."""
    if not isinstance(body, dict) or body.keys() != {"robot", "alert", "choice", "why"}:
        return "expected a JSON object with robot, alert, choice and why"
    robot, alert, choice, why = body["robot"], body["alert"], body["choice"], body["why"]
    for name, text in (("robot", robot), ("choice", choice)):
        if not isinstance(text, str) or not 0 < len(text) <= MAX_NAME_CHARS or not text.isprintable():
            return f"{name}: expected 1 to {MAX_NAME_CHARS} printable characters"
    if isinstance(alert, bool) or not isinstance(alert, int) or not 0 <= alert <= MAX_ID:
        return "alert: expected its number"
    if not isinstance(why, str) or not why.strip() or len(why) > MAX_WORDS:
        return f"why: say in 1 to {MAX_WORDS} characters why; it is kept with the decision"
    if (choice in ARM_CHOICES) != (alert == 0):
        return f"alert: 0 for {' and '.join(ARM_CHOICES)}, and the number of the alert for any other choice"
    # Half of an emoji is text in JSON, and none on the wire.
    return robot, alert, choice, why.strip().encode(errors="replace").decode()
