"""A webhook and a program are told of an alert; what may pass is tried again, and what may not is not."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from rosa_server.dashboard.hooks import HookError, command_words, execute, post, webhook_url
from rosa_server.dashboard.notices import OPENED, Notice
from rosa_sim.ports import free_port

NOTICE = Notice(
    OPENED, "panda0", 7, "slo_missed", "no answer within 300 ms", ("resume", "abort"), "pick", 12.0
)


class Somebody:
    """A web server that answers as it is told, and keeps what came."""

    def __init__(self) -> None:
        self.status, self.heard = 200, list[tuple[dict[str, str], bytes]]()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.heard.append(({key.lower(): value for key, value in self.headers.items()}, body))
                self.send_response(outer.status)
                self.send_header("Location", "/elsewhere")
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(30)


@pytest.fixture
def somebody() -> Iterator[Somebody]:
    one = Somebody()
    yield one
    one.close()


def test_a_webhook_gets_the_alert_signed(somebody: Somebody) -> None:
    assert post(somebody.url, NOTICE, "secret").told
    [(headers, body)] = somebody.heard
    told = json.loads(body)
    assert (told["event"], told["robot"], told["alert_id"], told["choices"]) == (
        OPENED,
        "panda0",
        7,
        ["resume", "abort"],
    )
    assert headers["x-rosa-signature"] == f"sha256={hmac.new(b'secret', body, hashlib.sha256).hexdigest()}"


def test_a_secret_of_any_bytes_signs(somebody: Somebody) -> None:
    secret = bytes((0xFF, 0xE4))
    assert post(somebody.url, NOTICE, os.fsdecode(secret)).told  # as it stands in the environment
    [(headers, body)] = somebody.heard
    assert headers["x-rosa-signature"] == f"sha256={hmac.new(secret, body, hashlib.sha256).hexdigest()}"


@pytest.mark.parametrize(
    ("status", "again"), [(500, True), (503, True), (429, True), (404, False), (401, False), (302, False)]
)
def test_what_may_pass_is_tried_again(somebody: Somebody, status: int, again: bool) -> None:
    somebody.status = status
    outcome = post(somebody.url, NOTICE)
    assert (outcome.told, outcome.again) == (False, again)
    assert len(somebody.heard) == 1, "no redirect is followed"


def test_nobody_there_is_tried_again() -> None:
    outcome = post(f"http://127.0.0.1:{free_port()}/", NOTICE)
    assert (outcome.told, outcome.again) == (False, True)


@pytest.mark.parametrize(
    "said", [b"SSH-2.0-somebody else\r\n", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n"]
)
def test_an_answer_that_is_no_http_is_tried_again(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(said)

        other = threading.Thread(target=answer)
        other.start()
        outcome = post(f"http://127.0.0.1:{listener.getsockname()[1]}/", NOTICE)
        other.join(30)
    assert (outcome.told, outcome.again) == (False, True)


def test_a_status_is_an_answer_whatever_becomes_of_the_page_behind_it() -> None:
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
                over.wait(60)

        other = threading.Thread(target=answer)
        other.start()
        outcome = post(f"http://127.0.0.1:{listener.getsockname()[1]}/", NOTICE)
        over.set()
        other.join(30)
    assert outcome.told, "it would be told again and again"


def test_a_program_gets_the_alert_on_its_input_and_as_variables(tmp_path: Path) -> None:
    out = tmp_path / "told"
    code = (
        "import json, os, pathlib, sys;"
        "pathlib.Path(sys.argv[1]).write_text(os.environ['ROSA_CAUSE'] + ' ' + json.load(sys.stdin)['robot'])"
    )
    assert asyncio.run(execute([sys.executable, "-c", code, str(out)], NOTICE)).told
    assert out.read_text() == "slo_missed panda0"


def test_a_program_is_told_of_a_reason_that_no_variable_can_hold(tmp_path: Path) -> None:
    out = tmp_path / "told"
    code = (
        "import json, os, pathlib, sys;"
        "pathlib.Path(sys.argv[1]).write_text(os.environ['ROSA_REASON'] + json.load(sys.stdin)['reason'])"
    )
    notice = replace(NOTICE, reason="no\0answer")
    assert asyncio.run(execute([sys.executable, "-c", code, str(out)], notice)).told
    assert out.read_text() == "no answerno\0answer"


def test_a_program_that_has_told_does_not_wait_for_what_it_leaves_running() -> None:
    outcome = asyncio.run(execute(["sh", "-c", "sleep 600 & exit 0"], NOTICE, within_s=5.0))
    assert outcome.told, outcome.words


def test_a_program_that_fails_hangs_or_is_not_there_is_tried_again() -> None:
    failed = asyncio.run(execute([sys.executable, "-c", "import sys; sys.exit('no route')"], NOTICE))
    assert not failed.told and failed.again and "no route" in failed.words
    hung = asyncio.run(execute(["sleep", "600"], NOTICE, within_s=0.2))
    assert not hung.told and "did not end" in hung.words
    assert not asyncio.run(execute(["/no/such/program"], NOTICE)).told


def test_hooks_that_cannot_be_meant_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text("https://example.org/hook?key=1\n")
    assert webhook_url(f"@{file}") == "https://example.org/hook?key=1"
    assert command_words("notify-send 'a robot waits'") == ["notify-send", "a robot waits"]
    for given, cause in (
        ("ftp://x/", "bad_url"),
        ("example.org", "bad_url"),
        ("@/no/such/file", "unreadable"),
        ("http://[::1/hook", "bad_url"),
        ("http://example.org:port/", "bad_url"),
        ("http://example.org/a hook", "bad_url"),
        ("https://me:secret@example.org/hook", "bad_url"),
    ):
        with pytest.raises(HookError) as refused:
            webhook_url(given)
        assert refused.value.cause == cause
    for given in ("", "'"):
        with pytest.raises(HookError) as refused:
            command_words(given)
        assert refused.value.cause == "bad_command"
