"""The honest robot beside them: a request every 100 ms over the real link, and how many were answered in time."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Any

import numpy as np

from rosa_client.connection.link import GatewayLink
from rosa_contract.wire import messages as m
from rosa_sim.fuzz.mutate import FRONT

PERIOD_S = 0.1
DEADLINE_S = 0.3
HELLO = m.Hello(
    "honest", "pick", {"front": m.CameraInfo(height=8, width=8, encoding="rgb8")}, {"joint_position": 7}
)


def serve_well(endpoint: str, ready: Event, stop: Event, pipe: Connection[Any, Any]) -> None:
    """Until `stop`; sends the latencies in ms, with None for every missed deadline, through `pipe`."""
    link = GatewayLink(endpoint, HELLO)
    latencies: list[float | None] = []
    state = {"joint_position": np.zeros(7, np.float32)}
    due_s, number = time.monotonic(), 0
    while not stop.is_set():
        due_s += PERIOD_S
        if not link.ready:
            link.poll(0.05, time.monotonic())
            if not ready.is_set():
                due_s = time.monotonic()
                continue
        ready.set()
        number += 1
        began_s = time.monotonic()
        request = m.Request(number, "system1", DEADLINE_S * 1000, "", state, {"front": FRONT})
        link.send(request, began_s)
        latencies.append(_answered(link, number, began_s))
        time.sleep(max(0.0, due_s - time.monotonic()))
        due_s = max(due_s, time.monotonic() - PERIOD_S)
    link.close()
    pipe.send(latencies)


def _answered(link: GatewayLink, number: int, began_s: float) -> float | None:
    while (left_s := began_s + DEADLINE_S - time.monotonic()) > 0:
        for answer in link.poll(left_s, time.monotonic()):
            if answer.request_id == number:
                return (time.monotonic() - began_s) * 1000 if answer.status == m.OK else None
    return None
