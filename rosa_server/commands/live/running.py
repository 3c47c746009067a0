"""A connection to a server that runs on this machine: what it says of itself, and orders for it.

It goes over the server's watch socket, in a folder that only its user can enter (`serving/watching/place.py`).
"""

from __future__ import annotations

import argparse
import getpass
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, cast

import zmq

from rosa_contract.errors import CausedError
from rosa_contract.wire.packing import unpack
from rosa_contract.wire.watching import Order, Watch, encode_ask
from rosa_server.serving.operations.names import CANCEL
from rosa_server.serving.watching.hub import ABOUT, GOING, ORDERED, VERSION
from rosa_server.serving.watching.place import check_private, default_folder, watched_gateways
from rosa_server.serving.watching.watchers import SAYS_EVERY_S

ANSWERS_S = 5.0  # a server that runs says something within this
MAX_NEWS_BYTES = 16 << 20
ORDERS_NUMBER, CANCELS_NUMBER = 1, 2  # of the only order of a connection, and of the one that cancels it


class RunningError(CausedError):
    """No server answers, or it refuses."""

    CAUSES: ClassVar = {
        "no_server": "no server of this user runs on this machine, or none of this name",
        "which_server": "several run; --server says which",
        "no_answer": "the server did not answer",
        "wrong_version": "the server is of another release",
        "refused": "the server refused the order; its words say why",
    }


class Running:
    """One server that runs."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        self._says_s = 0.0
        self._unread: tuple[bytes, Any] | None = None  # what it said first, which showed that it lives

    def news(self, seconds: float) -> Iterator[tuple[bytes, Any]]:
        """What it says within `seconds`: topic and content, of the topics that are one map."""
        end_s = time.monotonic() + seconds
        if (first := self._unread) is not None:
            self._unread = None
            yield first
        while (now_s := time.monotonic()) < end_s:
            if now_s >= self._says_s:
                self._says_s = now_s + SAYS_EVERY_S
                self._socket.send(encode_ask(Watch(b"")))
            if self._socket.poll(int(1000 * max(0.0, min(end_s, self._says_s) - now_s)) + 1):
                topic, *parts = self._socket.recv_multipart()
                if len(parts) == 1:
                    told = unpack(parts[0], "server", MAX_NEWS_BYTES, 1 << 20)
                    if told.get("v") != VERSION:
                        words = f"the server tells version {told.get('v')!r}, this command reads {VERSION}"
                        raise RunningError("wrong_version", f"{words}: use one release")
                    yield topic, told

    def about(self) -> Mapping[str, Any]:
        """What the server says of itself: files, tasks, slots, schedule. Raises `RunningError`."""
        for topic, told in self.news(2 * ANSWERS_S):
            if topic == ABOUT:
                return cast(Mapping[str, Any], told)
        raise RunningError("no_answer", f"the server said nothing of itself within {2 * ANSWERS_S:g} s")

    def answers(self) -> bool:
        """What it says first is what it says of itself, and not again for seconds: `news` begins with it."""
        self._unread = next(self.news(ANSWERS_S), None)
        return self._unread is not None

    def order(self, what: str, target: str, value: str, limit_s: float) -> str:
        """Have an order carried out, and wait for its end; its steps go to standard error. Returns the server's words.

        Ctrl-C cancels the order and waits until the server has done so; a second one leaves the server alone with it.
        Raises `RunningError`.
        """
        self._send(ORDERS_NUMBER, what, target, value)
        try:
            return self._end_of(ORDERS_NUMBER, limit_s)
        except KeyboardInterrupt:
            _tell(
                f"cancelling; Ctrl-C again leaves it to the server (`rosa robots` shows it, `rosa cancel {target}`)"
            )
            try:
                self._send(CANCELS_NUMBER, CANCEL, target, "")
                _tell(self._end_of(ORDERS_NUMBER, limit_s))
            except RunningError as error:
                _tell(str(error))
            raise

    def _send(self, number: int, what: str, target: str, value: str) -> None:
        self._socket.send(encode_ask(Order(b"", number, what, target, value, getpass.getuser())))

    def _end_of(self, number: int, limit_s: float) -> str:
        """The server's words at the end of an order."""
        for topic, told in self.news(limit_s):
            if topic == GOING and told["number"] == number:
                _tell(str(told.get("reason", "")))
            if topic == ORDERED and told["number"] == number:
                if not told.get("accepted"):
                    raise RunningError("refused", f"{told.get('reason', '')} ({told.get('cause', '')})")
                return str(told.get("reason", ""))
        words = f"the server has not ended it within {limit_s:g} s and goes on; `rosa robots` shows it"
        raise RunningError("no_answer", words)


def _tell(words: str) -> None:
    """Beside the result, which goes to standard output."""
    print(words, file=sys.stderr, flush=True)


def add_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--server", default="", metavar="PORT", help="port of the server, if several run on this machine"
    )


@contextmanager
def running(name: str) -> Iterator[Running]:
    """The server of this user that listens on port `name`; empty: the only one. Raises `RunningError`."""
    folder = default_folder()
    found = watched_gateways() if folder.is_dir() else {}
    if found:
        check_private(folder)
    wanted = {name: found[name]} if name in found else ({} if name else found)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    sockets = []
    try:
        living = {}
        for port, endpoint in wanted.items():
            socket = context.socket(zmq.DEALER)
            socket.setsockopt(zmq.LINGER, 0)
            sockets.append(socket)
            socket.connect(endpoint)
            one = Running(socket)
            if one.answers():
                living[port] = one
        if not living:
            named = f" under the name {name}" if name else ""
            words = f"no server of this user answers{named} (looked in {folder}); start one with `rosa serve`"
            raise RunningError("no_server", words)
        if len(living) > 1:
            raise RunningError("which_server", f"several servers run: --server {' or '.join(sorted(living))}")
        yield next(iter(living.values()))
    finally:
        for socket in sockets:
            socket.close()
        context.term()
