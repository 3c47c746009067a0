"""Findings 1, 6 and 7: a robot with keys on another machine, a full disk, and a name that is taken."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from attempts.attempt import ROSA, Attempt, Checkout, Happened, until
from rosa_server.serving.access import make_keys
from rosa_sim.fuzz.wire import Peer
from rosa_sim.namespaces import Machine, denied, two_machines
from rosa_sim.ports import free_ports
from rosa_sim.small_disk import small_disk

ROBOT = "panda0"
PATIENCE_S = 60.0
DOMAIN = 1 + os.getpid() % 100
DEMO, BRINGUP = "rosa_sim.demo", "rosa_client.bringup"
FACTORY = """
server_cluster: {{num_servers: 1}}
robot_fleet: [{{task: pick, num_robots: 1}}]
pick:
  pipeline: {{action_period_ms: 400}}
  components:
    system1: {{model: policy, slo_ms: 300}}
models:
  policy: {{backend: {backend}, options: {options}}}
gateway: {{bind: "{bind}", metrics_port: {metrics_port}{more}}}
"""
# As small as a robot can be: it says every new reason why it has no connection.
LONE_ROBOT = """
import sys, time
from rosa_client.link import GatewayLink
from rosa_contract.messages import Hello
endpoint, keys, name = sys.argv[1:]
link, last = GatewayLink(endpoint, Hello(name, "pick", {}, {}), keys), ""
while True:
    link.poll(0.05, time.monotonic())
    if getattr(link, "reason", "") != last:
        last = link.reason
        print(last, flush=True)
"""


def factory_file(
    folder: Path, more: str = "", backend: str = "emulated", options: str = "{}", bind: str = ""
) -> tuple[Path, str]:
    """A small factory; returns the file and the endpoint."""
    port, metrics_port = free_ports(2)
    endpoint, path = bind or f"tcp://127.0.0.1:{port}", folder / "factory.yaml"
    text = FACTORY.format(
        bind=endpoint, metrics_port=metrics_port, more=more, backend=backend, options=options
    )
    path.write_text(text)
    return path, endpoint


def cell_file(checkout: Checkout, folder: Path) -> Path:
    """The checkout's own cell, with ports of its own."""
    port, metrics_port = free_ports(2)
    shipped = (checkout.folder / "configs" / "pick_place.yaml").read_text()
    path = folder / "pick_place.yaml"
    path.write_text(f"{shipped}\ngateway: {{bind: 'tcp://127.0.0.1:{port}', metrics_port: {metrics_port}}}\n")
    return path


def in_a_folder(tried: Callable[[Checkout, Path], Happened]) -> Callable[[Checkout], Happened]:
    """Give the attempt a folder of its own."""

    def run(checkout: Checkout) -> Happened:
        with tempfile.TemporaryDirectory(prefix="rosa-hostile-") as folder:
            return tried(checkout, Path(folder))

    return run


def robots_of(machine: Machine) -> int:
    """How many robots the server on this machine has welcomed; -1: it does not answer."""
    read = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9570/metrics').read().decode())"
    done = subprocess.run(
        machine.command(sys.executable, "-c", read), capture_output=True, text=True, timeout=30
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("rosa_robots ")]
    return int(float(lines[0].split()[1])) if lines else -1


def two_commands(checkout: Checkout, folder: Path) -> Happened:
    if why_not := denied():
        return f"not tried, no network namespaces: {why_not}", False
    with two_machines() as (server_box, robot_box):
        make = checkout.command(ROSA, "keys", str(folder / "keys"), "--robot", ROBOT)
        for words in ([*make, "--server", server_box.address], make):
            made = subprocess.run(
                words, cwd=checkout.folder, env=checkout.environment(), capture_output=True, text=True
            )
            if made.returncode == 0:
                break
        commands = [shlex.split(line) for line in made.stdout.splitlines() if line.startswith("  ")]
        if len(commands) != 2:
            return f"no commands, but: {checkout.plain(made.stdout, folder).splitlines()[-1]}", False
        log = folder / "server.log"
        with checkout.running(server_box.command(*commands[0]), log):
            if not until(lambda: b"ROSA is ready" in log.read_bytes(), PATIENCE_S):
                return "the server is not ready", False
            with checkout.running(robot_box.command(*commands[1]), folder / "robot.log"):
                welcomed = until(lambda: robots_of(server_box) == 1, PATIENCE_S)
    return "it is welcomed" if welcomed else "it is not welcomed", welcomed


def refused_by_keys(checkout: Checkout, folder: Path) -> Happened:
    """A robot whose key the server does not have, and one without any."""
    keys, other = folder / "keys", folder / "other"
    make_keys(keys, "r1")
    make_keys(other, "r2")
    shutil.copy(keys / "server.key", other / "server.key")
    shutil.copy(other / "robots" / "r2.key_secret", other / "robot.key_secret")  # as older links want it
    path, endpoint = factory_file(folder, f', curve_keys: "{keys}"')
    log, python = folder / "server.log", checkout.command("")[0]
    said, named = [], []
    with checkout.running(checkout.command(ROSA, "serve", str(path)), log):
        if not until(lambda: b"ROSA is ready" in log.read_bytes(), PATIENCE_S):
            return "the server is not ready", False
        for name, its_keys, reason, causes in (
            ("r2", str(other), "refused this robot's key", (b"unknown_key",)),
            ("r3", "", "demand", (b"no_key", b"no_handshake")),
        ):
            robot_log = folder / f"{name}.log"
            words = [python, "-c", LONE_ROBOT, endpoint, its_keys, name]
            with checkout.running(words, robot_log):
                said.append(until(lambda log=robot_log, r=reason: r in log.read_text(), 15.0))
                named.append(until(lambda c=causes: any(one in log.read_bytes() for one in c), 5.0))
    words = f"{sum(said)} of 2 robots are told why, {sum(named)} of 2 are named in the server's log"
    return words, all(said) and all(named)


def demo_on_a_full_disk(checkout: Checkout, folder: Path) -> Happened:
    disk = folder / "disk"
    with small_disk(disk, kilobytes=300) as why_not:
        if why_not:
            return f"not tried, no small disk: {why_not}", False
        config = cell_file(checkout, folder)
        words = checkout.command(DEMO, "--episodes", "2", "--namespace", "full", "--config", str(config))
        ran = checkout.run([*words, "--out", str(disk)], folder, limit_s=300.0, domain=DOMAIN)
        tracebacks = ran.said.count("Traceback")
        tracebacks += sum(log.read_text().count("Traceback") for log in disk.glob("*/logs/*.log"))
    ended = next((line for line in ran.said.splitlines() if "episodes succeeded" in line), "no summary")
    told = ran.said.count("its record is incomplete")
    words = (
        f"exit {ran.status}, {tracebacks} tracebacks; {ended.split(';')[0].strip()}; {told} line on the disk"
    )
    return words, tracebacks == 0 and told == 1 and "of 2 episodes succeeded" in ended


def serve_on_a_full_disk(checkout: Checkout, folder: Path) -> Happened:
    path, endpoint = factory_file(folder)
    with checkout.running(checkout.command(ROSA, "serve", str(path)), Path("/dev/full")) as process:

        def answers() -> bool:
            try:
                Peer(endpoint, timeout_s=2.0).close()
            except OSError:
                return False
            return True

        until(lambda: process.poll() is not None or answers(), PATIENCE_S)
        lives = not until(lambda: process.poll() is not None, 5.0) and answers()
        status = process.poll()
    return "the server runs and answers" if lives else f"the server ends, exit {status}", lives


def second_bring_up(checkout: Checkout, folder: Path) -> Happened:
    words = checkout.command(BRINGUP, "namespace:=r4", "gateway:=tcp://127.0.0.1:1")
    log = folder / "first.log"
    with checkout.running(words, log, DOMAIN) as first:
        if not until(lambda: b"running" in log.read_bytes(), PATIENCE_S):
            return "the first bring-up does not come up", False
        ran = checkout.run(words, folder, limit_s=30.0, domain=DOMAIN)
        undisturbed = first.poll() is None
    names = f"process {first.pid}" in ran.said and "is taken" in ran.said
    after = "" if undisturbed else "; the first has ended"
    if names:
        return (
            f"exit {ran.status} after {ran.seconds:.0f} s, names the process that has it{after}",
            undisturbed,
        )
    return ran.words() + after, False


ROBOTS = (
    Attempt(
        1,
        "`rosa keys`, and the commands that it prints on two machines (network namespaces)",
        "an encrypted robot is welcomed",
        in_a_folder(two_commands),
    ),
    Attempt(
        1,
        "a robot with a key that the server lacks, and a robot without keys",
        "both are told why, and the server's log names both",
        in_a_folder(refused_by_keys),
    ),
    Attempt(
        6,
        "a demo of 2 episodes whose run folder is full",
        "both episodes run; one line, no traceback",
        in_a_folder(demo_on_a_full_disk),
    ),
    Attempt(6, "`rosa serve > /dev/full`", "the server runs", in_a_folder(serve_on_a_full_disk)),
    Attempt(
        7,
        "a second bring-up under the same namespace",
        "refused at once, with the process that has the name; the first goes on",
        in_a_folder(second_bring_up),
    ),
)
