"""What the blocking and the asyncio robot share: how they are told apart, and how they reach their gateway."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rosa_client.connection.link import GatewayLink
from rosa_client.connection.session_token import SessionToken, default_folder
from rosa_client.robot.errors import RobotError
from rosa_client.robot.observation import Seen
from rosa_contract.config.spaces import SPACES
from rosa_contract.endpoint import gateways_problem
from rosa_contract.keyfile import KeyFileError, RobotKeys
from rosa_contract.wire.images import ENCODINGS
from rosa_contract.wording import nearest

DEADLINE_MS = 500.0
CONNECT_WITHIN_S = 30.0
_numbers = itertools.count()
Connect = Callable[[Seen], GatewayLink]


def connector(
    server: str,
    task: str,
    name: str,
    keys: str | Path | RobotKeys,
    encoding: str,
    spaces: Sequence[str],
    resumes: bool = True,
) -> Connect:
    """What makes a connection from the first observation. Raises `ValueError` for arguments that cannot be meant."""
    if problem := gateways_problem(server):
        raise ValueError(f"server: {problem}")
    if encoding not in ENCODINGS:
        raise ValueError(f"encoding: expected one of {', '.join(ENCODINGS)}, got {encoding!r}")
    for space in spaces:
        if space not in SPACES:
            hint = nearest(space, SPACES)
            raise ValueError(f"spaces: no space {space!r}{hint}; there are {', '.join(SPACES)}")
    if keys and not name:
        raise ValueError("name: keys belong to a robot; give its name, as in `rosa keys FOLDER --robot NAME`")
    told = str(keys) if isinstance(keys, Path) else keys

    def connect(seen: Seen) -> GatewayLink:
        own = name or f"{socket.gethostname()}-{os.getpid()}-{next(_numbers)}"[-128:]
        # A name of one's own is resumed after a crash; one that was made up is never used again.
        token = (
            SessionToken(default_folder(), server, name) if name and not isinstance(keys, RobotKeys) else None
        )
        try:
            return GatewayLink(server, replace(seen.hello(own, task), actions=tuple(spaces)), told, token)
        except KeyFileError as error:
            raise RobotError("bad_keys", str(error)) from None

    return connect


def check_process(pid: int) -> None:
    """Raise `RobotError` (`closed`) where this process was forked from that of a connection: its socket and its thread
    are only there, and nobody here would ever hear an answer."""
    if pid != os.getpid():
        words = "the robot has connected in the process that this one was forked from; make another one here"
        raise RobotError("closed", words)
