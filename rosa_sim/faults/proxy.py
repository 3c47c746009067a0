"""A bad link as a process between robots and a gateway.

    python -m rosa_sim.faults.proxy --listen tcp://127.0.0.1:5580 --gateway tcp://127.0.0.1:5570 --control tcp://127.0.0.1:5581

Each robot gets its own connection to the gateway, so that the gateway tells robots apart as if nothing stood
between. Messages are passed on frame by frame, unread. CURVE cannot be passed on: a proxy in the middle is what it is
there to keep out.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import time
from dataclasses import asdict
from typing import Any

import zmq

from rosa_sim.faults.link import DOWN, UP, BadLink, LinkFault, LinkFaultError, Parcel

LONGEST_WAIT_S = 0.5
FORGET_AFTER_S = 60.0  # a robot says something every second
CONTROL_TIMEOUT_S = 2.0


class ProxyError(RuntimeError):
    """The proxy cannot do what was requested; the text says why."""


class Proxy:
    """Call `step()` in a loop, from one thread."""

    def __init__(
        self, context: zmq.Context[Any], listen: str, gateway: str, control: str, seed: int = 0
    ) -> None:
        if not control.startswith(("tcp://127.0.0.1:", "inproc://", "ipc://")):
            raise ProxyError(
                f"--control: expected a loopback address such as tcp://127.0.0.1:5581, got {control}"
            )
        self._context = context
        self._gateway = gateway
        self.link = BadLink(seed)
        self._robots = context.socket(zmq.ROUTER)
        self._control = context.socket(zmq.REP)
        self._lines: dict[bytes, zmq.Socket[bytes]] = {}
        self._owners: dict[zmq.Socket[bytes], bytes] = {}
        self._heard_s: dict[bytes, float] = {}
        self._poller = zmq.Poller()
        for socket, endpoint in ((self._robots, listen), (self._control, control)):
            socket.setsockopt(zmq.LINGER, 0)
            try:
                socket.bind(endpoint)
            except zmq.ZMQError as error:
                self.close()
                raise ProxyError(f"cannot listen on {endpoint}: {error}") from None
            self._poller.register(socket, zmq.POLLIN)

    def endpoint(self) -> str:
        """Where robots connect."""
        return bytes(self._robots.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()

    def control_endpoint(self) -> str:
        return bytes(self._control.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()

    def step(self, timeout_s: float = LONGEST_WAIT_S) -> None:
        """Wait for a message, at most `timeout_s`, and send on what is due."""
        due_s = self.link.next_due_s()
        wait_s = timeout_s if due_s is None else min(timeout_s, max(0.0, due_s - time.monotonic()))
        for socket, _ in self._poller.poll(int(wait_s * 1000)):
            if socket is self._robots:
                self._from_robots()
            elif socket is self._control:
                self._told()
            else:
                self._from_gateway(socket)
        now_s = time.monotonic()
        for parcel in self.link.due(now_s):
            self._send(parcel)
        for robot in [robot for robot, heard_s in self._heard_s.items() if now_s - heard_s > FORGET_AFTER_S]:
            self._forget(robot)

    def close(self) -> None:
        for robot in list(self._lines):
            self._forget(robot)
        self._robots.close()
        self._control.close()

    def _from_robots(self) -> None:
        robot, *frames = self._robots.recv_multipart()
        now_s = time.monotonic()
        self._heard_s[robot] = now_s
        self.link.take(now_s, UP, robot, frames)

    def _from_gateway(self, socket: zmq.Socket[bytes]) -> None:
        self.link.take(time.monotonic(), DOWN, self._owners[socket], socket.recv_multipart())

    def _send(self, parcel: Parcel) -> None:
        """Send without waiting. What cannot leave is lost, as on any link; so is a message to a robot that has left."""
        with contextlib.suppress(zmq.Again):
            if parcel.direction == UP:
                self._line(parcel.robot).send_multipart(parcel.frames, zmq.NOBLOCK)
            else:
                self._robots.send_multipart([parcel.robot, *parcel.frames], zmq.NOBLOCK)

    def _line(self, robot: bytes) -> zmq.Socket[bytes]:
        """This robot's own connection to the gateway."""
        if robot not in self._lines:
            line = self._context.socket(zmq.DEALER)
            line.setsockopt(zmq.LINGER, 0)
            line.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
            if not robot.startswith(b"\0"):  # a name that the robot chose; others come from the socket
                line.setsockopt(zmq.IDENTITY, robot)
            line.connect(self._gateway)
            self._poller.register(line, zmq.POLLIN)
            self._lines[robot], self._owners[line] = line, robot
        return self._lines[robot]

    def _forget(self, robot: bytes) -> None:
        line = self._lines.pop(robot, None)
        self._heard_s.pop(robot, None)
        if line is not None:
            self._poller.unregister(line)
            del self._owners[line]
            line.close()

    def _told(self) -> None:
        """A fault as JSON, such as {"kind": "drop", "probability": 0.5}; the answer has the counters so far."""
        answer: dict[str, Any]
        try:
            wanted = json.loads(self._control.recv())
            if not isinstance(wanted, dict):
                raise LinkFaultError(f"expected a JSON object, got {type(wanted).__name__}")
            if wanted:  # an empty message only asks
                self.link.begin(LinkFault(**wanted))
            answer = {"ok": True, "fault": asdict(self.link.fault), "counts": self.link.counts}
        except (ValueError, TypeError) as error:
            answer = {"ok": False, "reason": str(error)}
        self._control.send(json.dumps(answer).encode())


def set_fault(control: str, fault: LinkFault | None) -> dict[str, Any]:
    """Switch `fault` on at the proxy, or only query it with None; returns its answer. Raises `ProxyError`."""
    socket: zmq.Socket[bytes]
    with zmq.Context.instance().socket(zmq.REQ) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(control)
        socket.send(json.dumps({} if fault is None else asdict(fault)).encode())
        if not socket.poll(round(CONTROL_TIMEOUT_S * 1000)):
            raise ProxyError(f"no proxy answers at {control} within {CONTROL_TIMEOUT_S:g} s")
        answer: dict[str, Any] = json.loads(socket.recv())
    if not answer["ok"]:
        raise ProxyError(f"the proxy at {control} refused: {answer['reason']}")
    return answer


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="rosa_sim.faults.proxy", description="a bad link between robots and a gateway"
    )
    parser.add_argument("--listen", required=True, help="where robots connect to")
    parser.add_argument("--gateway", required=True, help="where the gateway listens")
    parser.add_argument("--control", required=True, help="where faults are ordered; loopback only")
    parser.add_argument("--seed", type=int, default=0, help="of every chance that is taken")
    args = parser.parse_args()
    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda n, _: stopped.append(n))
    with zmq.Context() as context:
        try:
            proxy = Proxy(context, args.listen, args.gateway, args.control, args.seed)
        except ProxyError as error:
            print(f"proxy: {error}", file=sys.stderr)
            return 2
        while not stopped:
            proxy.step()
        proxy.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
