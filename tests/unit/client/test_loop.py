"""Why a robot has no server is told with the server's address, wherever it is read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rosa_client.loop import with_server

AT = "tcp://gpu-box:5570"


@pytest.mark.parametrize(
    ("ready", "reason", "told"),
    [
        (False, "unknown_task: no task 'x'", f"{AT}: unknown_task: no task 'x'"),
        (False, f"no answer from a gateway at {AT} yet", f"no answer from a gateway at {AT} yet"),
        (True, "", ""),
    ],
)
def test_a_reason_names_the_server_once(ready: bool, reason: str, told: str) -> None:
    link: Any = SimpleNamespace(ready=ready, endpoint=AT, reason=reason)
    assert with_server(link) == told
