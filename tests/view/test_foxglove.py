"""`rosa view` with Foxglove's own library: a viewer gets a recording's bytes in their time, and what a server does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from rosa_contract.wire import messages as m
from rosa_contract.wire.images import encode_image
from rosa_contract.wire.status import ComponentStatus
from rosa_server.bags.records import records, span
from tests.system.server_harness import ROOT, Robot, serving
from tests.unit.server.trying.toy import world, write_bag
from tests.view.client import PATIENCE_S, PAUSE, PLAY, Viewer

PATH = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"  # with the libraries of viewers
JOINTS = "/arm/joint_states"


@contextmanager
def viewed(folder: Path, *words: str) -> Iterator[str]:
    """`rosa view` is running; gives the address that it prints."""
    log = folder / "view.log"
    environment = {**os.environ, "PYTHONPATH": PATH, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "rosa_server.cli", "view", "--port", "0", *words]
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=out)
    try:
        end_s = time.monotonic() + PATIENCE_S
        while (found := re.search(r"ws://127\.0\.0\.1:\d+", log.read_text())) is None:
            assert process.poll() is None and time.monotonic() < end_s, log.read_text()
            time.sleep(0.1)
        yield found[0]
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        finally:
            process.kill()


def test_a_recording_is_played_as_it_was_recorded_and_its_buttons_work(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    write_bag(world(), path)
    recorded = [(one.time_ns, one.data) for one in records(path) if one.track.topic == JOINTS]
    start_ns, end_ns = span(path)
    with viewed(tmp_path, str(tmp_path)) as address, Viewer(address) as viewer:
        viewer.until(lambda: len(viewer.topics) == 5, "the topics")
        channel = viewer.topics[JOINTS]
        assert (channel["encoding"], channel["schemaName"]) == ("cdr", "sensor_msgs/msg/JointState")
        assert "playbackControl" in viewer.info["capabilities"]
        for topic in sorted(
            viewer.topics, key=JOINTS.__ne__
        ):  # it plays from the first one that is looked at
            viewer.subscribe(topic)
        viewer.until(lambda: viewer.of(JOINTS), "it plays when somebody looks")
        viewer.control(PLAY, speed=100.0)
        viewer.until(lambda: viewer.states and viewer.states[-1]["status"] == 3, "the end")
        assert viewer.of(JOINTS) == recorded, "every message once, with its time"
        viewer.heard.clear()
        middle_ns = (start_ns + end_ns) // 2
        viewer.control(PAUSE, seek_ns=middle_ns)
        viewer.until(lambda: viewer.of(JOINTS), "what was shown in the middle")
        before = [one for one in recorded if one[0] < middle_ns]
        assert viewer.of(JOINTS) == before[-1:]
        viewer.control(PLAY, speed=100.0)
        viewer.until(lambda: viewer.of(JOINTS)[-1:] == recorded[-1:], "the rest")
        assert viewer.of(JOINTS) == recorded[len(before) - 1 :]


def test_a_running_server_tells_of_its_robots_and_shows_their_cameras(tmp_path: Path) -> None:
    watch = f"ipc://{tmp_path / 'private' / 'watch'}"
    red = np.zeros((8, 8, 3), np.uint8)
    red[..., 0] = 255
    with serving(tmp_path, gateway=f', watch: "{watch}"') as server:
        robot = Robot(server, "panda0")
        with viewed(tmp_path, "--gateway", watch) as address, Viewer(address) as viewer:
            viewer.subscribe("/rosa/fleet")
            robot.join()  # only now: a robot that is silent while the viewer starts would be forgotten
            number = 0

            def goes_on() -> None:
                nonlocal number
                number += 1
                fact = ComponentStatus("system1", 300.0, 80.0, 120.0, 9, 8, 1, 0, 0)
                robot.send(m.Status("executing", "", True, number, 1, False, (fact,), None))
                robot.request(number, images={"front": encode_image(red, "rgb8")})
                while robot.socket.poll(20):
                    robot.receive()

            def sees(topic: str) -> bool:
                goes_on()
                return topic in viewer.topics

            viewer.until(lambda: sees("/panda0/status") and sees("/panda0/front"), "the robot")
            viewer.subscribe("/panda0/status")
            viewer.subscribe("/panda0/front")

            def got(topic: str) -> bool:
                goes_on()
                return bool(viewer.of(topic))

            viewer.until(lambda: got("/panda0/status") and got("/panda0/front"), "its status and picture")
            status = json.loads(viewer.of("/panda0/status")[-1][1])
            assert (status["robot"], status["state"]) == ("panda0", "executing")
            assert status["components"][0]["component"] == "system1"
            assert b"\xff\xd8\xff" in viewer.of("/panda0/front")[-1][1], "a JPEG"
            fleet = json.loads(viewer.of("/rosa/fleet")[-1][1])
            assert fleet["robots"] == 1 and fleet["servers"]
        robot.close()


def test_a_port_that_is_in_use_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    write_bag(world(), path)
    with viewed(tmp_path, str(path)) as address:
        port = address.rpartition(":")[2]
        command = [sys.executable, "-m", "rosa_server.cli", "view", str(path), "--port", port]
        environment = {**os.environ, "PYTHONPATH": PATH}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == 2
        assert f"--port {port}" in done.stderr and "Traceback" not in done.stderr
