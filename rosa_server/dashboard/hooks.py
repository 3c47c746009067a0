"""Tells others of alerts: a webhook, a program. In the dashboard's process, never in the gateway.

A webhook gets a JSON object by POST; a program gets the same on its standard input, and the main fields as variables.
Both are tried again until they succeed or the notice is ten minutes old.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import os
import shlex
import signal
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO, ClassVar
from urllib.parse import urlsplit

from rosa_contract.errors import CausedError
from rosa_server.dashboard.model import FleetModel
from rosa_server.dashboard.notices import Deliveries, Notice, Notices
from rosa_server.serving.base import log

LOOK_EVERY_S = 0.25
WEBHOOK_WITHIN_S = 10.0
COMMAND_WITHIN_S = 30.0
SECRET = "ROSA_WEBHOOK_SECRET"
PASSES = (408, 425, 429)  # of the client's errors, those that may pass
MAX_TOLD_CHARS = 200
GIVEN_UP = "it waited for too long, or too many others wait"
MAX_READ_BYTES = 4096  # of what a program says last


class HookError(CausedError):
    """A hook cannot be meant as it was given."""

    CAUSES: ClassVar = {
        "bad_url": "a webhook must be an http:// or https:// URL, or @FILE with the URL on its first line",
        "bad_command": "the command is empty or cannot be split into words",
        "unreadable": "the file with the URL cannot be read",
    }


@dataclass(frozen=True)
class HookOutcome:
    """How a telling went. `again`: a failure that may pass."""

    told: bool
    again: bool = True
    words: str = ""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry an alert to somebody else."""

    def redirect_request(self, *arguments: object) -> None:
        return None


def webhook_url(given: str) -> str:
    """The address of `--webhook`. Raises `HookError`."""
    if given.startswith("@"):
        try:
            given = (Path(given[1:]).expanduser().read_text().splitlines() or [""])[0].strip()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise HookError(
                "unreadable", f"--webhook {given}: {why}; expected a file with the address"
            ) from None
    try:
        parts = urlsplit(given)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        signs_in = "@" in parts.netloc
    except ValueError:  # a port or an address that is none
        usable = signs_in = False
    if signs_in:  # urllib takes them for a part of the host
        raise HookError(
            "bad_url", "--webhook: expected an address without a name or a password before its host"
        )
    if not usable or not given.isprintable() or " " in given:
        raise HookError("bad_url", f"--webhook: expected http://... or https://..., got {given[:80]!r}")
    return given


def command_words(given: str) -> list[str]:
    """The words of `--on-alert`. No shell is between. Raises `HookError`."""
    try:
        words = shlex.split(given)
    except ValueError as error:
        raise HookError("bad_command", f"--on-alert {given}: {error}") from None
    if not words:
        raise HookError("bad_command", "--on-alert: expected a program and its arguments")
    return words


def post(url: str, notice: Notice, secret: str = "") -> HookOutcome:
    """Tell a webhook; waits for its answer."""
    body = json.dumps(notice.plain()).encode()
    headers = {"Content-Type": "application/json", "User-Agent": "rosa-dashboard"}
    if secret:
        headers["X-ROSA-Signature"] = (
            f"sha256={hmac.new(os.fsencode(secret), body, hashlib.sha256).hexdigest()}"
        )
    request = urllib.request.Request(url, body, headers, method="POST")
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=WEBHOOK_WITHIN_S):
            return HookOutcome(True)
    except urllib.error.HTTPError as error:
        return HookOutcome(False, error.code >= 500 or error.code in PASSES, f"status {error.code}")
    except (OSError, ValueError, HTTPException) as error:  # the last one: an answer that is no HTTP
        return HookOutcome(False, words=str(getattr(error, "reason", error))[:MAX_TOLD_CHARS])


async def execute(words: Sequence[str], notice: Notice, within_s: float = COMMAND_WITHIN_S) -> HookOutcome:
    """Run a program; 0 means that it has told. What it leaves running ends with it."""
    try:
        with tempfile.TemporaryFile() as errors:  # a pipe would end only with what the program leaves running
            return await _executed(words, notice, within_s, errors)
    except OSError as error:
        return HookOutcome(False, words=f"{words[0]}: {error.strerror or error}")


async def _executed(words: Sequence[str], notice: Notice, within_s: float, errors: IO[bytes]) -> HookOutcome:
    plain = notice.plain()
    told = {
        f"ROSA_{key.upper()}": str(plain[key]).replace("\0", " ")  # a robot's words; no variable holds a zero
        for key in ("event", "robot", "alert_id", "cause", "reason", "task")
    }
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=errors,
        env={**os.environ, **told},
        start_new_session=True,
    )
    try:
        await asyncio.wait_for(process.communicate(json.dumps(plain).encode()), within_s)
    except TimeoutError:
        return HookOutcome(False, words=f"{words[0]} did not end within {within_s:g} s")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    if process.returncode == 0:
        return HookOutcome(True)
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - MAX_READ_BYTES))
    last = errors.read().decode(errors="replace").strip().splitlines()[-1:]
    return HookOutcome(False, words=f"status {process.returncode}: {''.join(last)}"[:MAX_TOLD_CHARS])


class Hooks:
    """Runs in the event loop of the dashboard; a target that does not answer delays nothing but itself."""

    def __init__(self, model: FleetModel, webhooks: Sequence[str], commands: Sequence[str]) -> None:
        """`webhooks`, `commands`: as on the command line. Raises `HookError`."""
        self._model = model
        self._urls = {f"webhook {number}": webhook_url(one) for number, one in enumerate(webhooks, 1)}
        self._commands = {f"command {number}": command_words(one) for number, one in enumerate(commands, 1)}
        self._notices = Notices()
        self._deliveries = Deliveries([*self._urls, *self._commands])
        self._seldom = log.Seldom()
        self._secret = os.environ.get(SECRET, "")
        self._under_way: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until cancelled; what is under way is cancelled with it."""
        if not self._urls and not self._commands:
            return
        try:
            while True:
                now_s = time.monotonic()
                if self._model.state:  # a server was heard once
                    rows = [one.row for one in self._model.robots if one.row]
                    for notice in self._notices.look(
                        rows, self._model.silent_s(now_s), self._model.wall_s(now_s)
                    ):
                        self._deliveries.add(now_s, notice)
                due = self._deliveries.due(now_s)
                for target, notice in self._deliveries.lost():
                    if self._seldom.due((target, notice.robot)):
                        more = {"told": notice.event, "robot": notice.robot, "reason": GIVEN_UP}
                        log.warning("alert_not_told", target=target, **more)
                for target, notice in due:
                    task = asyncio.create_task(self._tell(target, notice))
                    self._under_way.add(task)
                    task.add_done_callback(self._under_way.discard)
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            for task in self._under_way:
                task.cancel()

    async def _tell(self, target: str, notice: Notice) -> None:
        if target in self._urls:
            outcome = await asyncio.to_thread(post, self._urls[target], notice, self._secret)
        else:
            outcome = await execute(self._commands[target], notice)
        done = self._deliveries.ended(time.monotonic(), target, outcome.told, outcome.again)
        event = "alert_told" if outcome.told else "alert_not_told" if done else "alert_told_again_later"
        log.event(event, target=target, told=notice.event, robot=notice.robot, reason=outcome.words)
