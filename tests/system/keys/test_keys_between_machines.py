"""Two machines, two commands, as `rosa keys` prints them: an encrypted robot; and who has no right key is named."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rosa_server.serving.edge.access import make_keys
from rosa_sim.namespaces import Machine, denied, two_machines

ROOT = Path(__file__).parents[3]
PATIENCE_S = 40.0
WHY_NOT = denied()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(WHY_NOT), reason=f"no network namespaces: {WHY_NOT}")]
# A robot as small as can be: it says every new reason why it has no connection.
ROBOT = """
import sys, time
from rosa_client.connection.link import GatewayLink
from rosa_contract.wire.messages import Hello
endpoint, keys, name = sys.argv[1:]
link, last = GatewayLink(endpoint, Hello(name, "pick_and_place", {}, {}), keys), ""
while True:
    link.poll(0.05, time.monotonic())
    if link.reason != last:
        last = link.reason
        print(last, flush=True)
"""


@pytest.fixture(scope="module")
def machines() -> Iterator[tuple[Machine, Machine]]:
    with two_machines() as both:
        yield both


@contextmanager
def running(machine: Machine, words: list[str], log: Path) -> Iterator[Callable[[], str]]:
    """A command on a machine; gives what it has written so far."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
    }
    with log.open("wb") as file:
        process = subprocess.Popen(
            machine.command(*words), cwd=log.parent, env=environment, stdout=file, stderr=subprocess.STDOUT
        )
    try:
        yield log.read_text
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def until(condition: Callable[[], object], *logs: Callable[[], str]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s, "\n---\n".join(log() for log in logs)
        time.sleep(0.2)


def events(log: str, name: str) -> list[dict[str, str]]:
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{") and line.endswith("}")]
    return [line for line in lines if line["event"] == name]


def refusals(log: str) -> set[tuple[str, str]]:
    """(cause, address) of those who were refused."""
    return {(one["cause"], one["address"]) for one in events(log, "robot_refused")}


def robots(server: Machine) -> int:
    """How many robots the server has welcomed, from its metrics."""
    read = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9570/metrics').read().decode())"
    done = subprocess.run(
        server.command(sys.executable, "-c", read), capture_output=True, text=True, timeout=30
    )
    for line in done.stdout.splitlines():
        if line.startswith("rosa_robots "):
            return int(float(line.split()[1]))
    return -1


def test_the_two_printed_commands_bring_up_an_encrypted_robot_and_others_are_named(
    machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    server_box, robot_box = machines
    keys = tmp_path / "keys"
    make = ["keys", str(keys), "--robot", "panda0", "--server", server_box.address]
    command = [sys.executable, "-m", "rosa_server.cli", *make]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    serve, bring_up = (shlex.split(line) for line in made.stdout.splitlines() if line.startswith("  "))
    with running(server_box, serve, tmp_path / "server.log") as server:
        until(lambda: "ROSA is ready" in server(), server)
        with running(robot_box, bring_up, tmp_path / "robot.log") as robot:
            until(lambda: robots(server_box) == 1, robot, server)
        endpoint = f"tcp://{server_box.address}:5570"

        stranger = tmp_path / "stranger"
        make_keys(stranger, "panda7")
        (stranger / "server.key").write_bytes((keys / "server.key").read_bytes())
        wrong = [sys.executable, "-c", ROBOT, endpoint, str(stranger), "panda7"]
        with running(robot_box, wrong, tmp_path / "wrong.log") as said:
            until(lambda: "the server refused this robot's key" in said(), said, server)
        assert refusals(server()) == {("unknown_key", robot_box.address)}
        assert events(server(), "robot_refused")[0]["key"] in (stranger / "robots" / "panda7.key").read_text()

        borrowed = tmp_path / "borrowed"
        make_keys(borrowed, "panda8")
        for name in ("robots/panda8.key", "robots/panda8.key_secret"):
            (borrowed / name).write_bytes((keys / name.replace("panda8", "panda0")).read_bytes())
        (borrowed / "server.key").write_bytes((keys / "server.key").read_bytes())
        other = [sys.executable, "-c", ROBOT, endpoint, str(borrowed), "panda8"]
        with running(robot_box, other, tmp_path / "other.log") as said:
            until(lambda: "key belongs to 'panda0'" in said(), said, server)
        named = [one for one in events(server(), "robot_refused") if one["cause"] == "wrong_key"]
        assert named[0]["key_of"] == "panda0" and "'panda8'" in named[0]["reason"]
        assert named[0]["address"] == robot_box.address

        # Both sides see that it has no key, and who hangs up first is chance.
        without_key = {("no_key", robot_box.address), ("no_handshake", robot_box.address)}
        without = [sys.executable, "-c", ROBOT, endpoint, "", "panda9"]
        with running(robot_box, without, tmp_path / "without.log") as said:
            until(lambda: "demand" in said() and "keys" in said(), said, server)
            until(lambda: without_key & refusals(server()), said, server)

        (stranger / "server.key").write_bytes((stranger / "server.key_secret").read_bytes())
        elsewhere = [sys.executable, "-c", ROBOT, endpoint, str(stranger), "panda7"]
        with running(robot_box, elsewhere, tmp_path / "elsewhere.log") as said:
            until(lambda: "server.key here may be another server's" in said(), said, server)
            until(lambda: ("wrong_server_key", robot_box.address) in refusals(server()), said, server)


def test_the_robot_is_not_brought_up_with_keys_that_are_not_there(
    machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    words = machines[1].command(sys.executable, "-m", "rosa_client.bringup", f"keys:={tmp_path}")
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert f"keys: {tmp_path}/robots/panda0.key_secret: there is no such file" in done.stderr
    assert "Traceback" not in done.stderr
