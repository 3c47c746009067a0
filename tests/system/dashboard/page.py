"""A dashboard of a test, and a browser that looks at it: WebDriver over plain HTTP, the distribution's chromedriver."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rosa_sim.ports import free_port
from tests.system.server_harness import PATIENCE_S, ROOT

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--no-first-run",
)
MISSING = "a browser is missing: apt-get install chromium chromium-driver"


def browser_is_here() -> bool:
    return all(shutil.which(name) for name in ("chromium", "chromedriver"))


@contextmanager
def dashboard(watch: str, folder: Path, *arguments: str) -> Iterator[tuple[str, str]]:
    """A running `rosa dashboard`; gives its address and its token. `watch`: endpoint of the gateway."""
    log = folder / "dashboard.log"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    command = [
        sys.executable,
        "-m",
        "rosa_server.cli",
        "dashboard",
        "--gateway",
        watch,
        "--port",
        "0",
        *arguments,
    ]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environment, cwd=ROOT)
    try:
        end_s = time.monotonic() + PATIENCE_S
        while not (found := re.search(r"(https?://\S+?/)(?:#token=(\S+))?\n", log.read_text())):
            assert process.poll() is None and time.monotonic() < end_s, log.read_text()
            time.sleep(0.05)
        yield found[1], found[2] or ""
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(PATIENCE_S)


class Browser:
    """A headless Chromium."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._log = (folder / "chromedriver.log").open("wb")
        self._profile = tempfile.mkdtemp(prefix="profile-", dir=folder)
        command = ["chromedriver", f"--port={self.port}"]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        try:
            self._session = self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> str:
        options = {"args": [*FLAGS, f"--user-data-dir={self._profile}"], "binary": shutil.which("chromium")}
        logged = {"browser": "ALL"}
        wanted = {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": logged}}
        end_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                return str(self._ask("POST", "/session", {"capabilities": wanted})["sessionId"])
            except (urllib.error.URLError, ConnectionError):
                assert self._process.poll() is None and time.monotonic() < end_s, (
                    "chromedriver does not start"
                )
                time.sleep(0.1)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["value"]["message"]) from None

    def ask(self, path: str, body: Any = None) -> Any:
        return self._ask("GET" if body is None else "POST", f"/session/{self._session}{path}", body)

    def open(self, address: str) -> None:
        self.ask("/url", {"url": address})

    def run(self, script: str, *arguments: Any) -> Any:
        """The result of JavaScript in the page."""
        return self.ask("/execute/sync", {"script": script, "args": list(arguments)})

    def text(self, selector: str) -> str:
        """What a person reads there; empty where there is nothing."""
        return str(self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        end_s = time.monotonic() + PATIENCE_S
        while not (found := condition()):
            assert time.monotonic() < end_s, (
                f"waited in vain for {what}; the page says {self.text('body')[:2000]!r}"
            )
            time.sleep(0.05)
        return found

    def until_text(self, selector: str, words: str) -> None:
        self.until(lambda: words in self.text(selector), f"{words!r} in {selector}")

    def click(self, selector: str) -> None:
        element = self.ask("/element", {"using": "css selector", "value": selector})
        self.ask(f"/element/{next(iter(element.values()))}/click", {})

    def type(self, keys: str) -> None:
        """Keys to whatever has the focus, as a person types them."""
        pressed = [
            step
            for key in keys
            for step in ({"type": "keyDown", "value": key}, {"type": "keyUp", "value": key})
        ]
        self.ask("/actions", {"actions": [{"type": "key", "id": "keys", "actions": pressed}]})

    def size(self, width: int, height: int, scale: float = 1.0) -> None:
        device = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        self.devtools("Emulation.setDeviceMetricsOverride", device)

    def dark(self, dark: bool) -> None:
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", {"features": [feature]})

    def devtools(self, command: str, parameters: dict[str, Any]) -> Any:
        return self.ask("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.ask("/screenshot")))

    def problems(self) -> list[str]:
        """What the browser has complained of, such as what the page's policy forbids."""
        entries = self.ask("/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def close(self) -> None:
        try:
            if hasattr(self, "_session"):
                self._ask("DELETE", f"/session/{self._session}")
        finally:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(PATIENCE_S)
            self._log.close()
