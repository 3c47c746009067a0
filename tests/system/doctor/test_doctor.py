"""`rosa doctor` against a real server with keys and real nodes: all is well, and then things broken on purpose."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from rosa_client.bringup.bringup import Bringup
from rosa_client.bringup.graph import Robot
from rosa_server.serving.edge.access import make_keys
from rosa_sim.ports import free_port

ROOT = Path(__file__).parents[3]
PATIENCE_S = 90.0
AT_ONCE = 4
FACTORY = """
server_cluster: {{num_servers: 1, gpu_type: cpu}}
robot_fleet: [{{task: pick, num_robots: 2}}]
pick:
  pipeline: {{action_period_ms: 400}}
  components:
    system1: {{model: quick, slo_ms: 2000, fallback: stop_and_resend}}
models:
  quick: {{backend: emulated, options: {{latency_ms: 5, images: {{front: [96, 96]}}}}}}
gateway: {{bind: "{endpoint}", metrics_port: 0, curve_keys: "{keys}"}}
"""

Answer = tuple[int, dict[str, dict[str, Any]]]  # exit status, and the checks by name
Visits = dict[str, Future[Answer]]


@dataclass
class Site:
    folder: Path
    endpoint: str
    bringup: Bringup

    def doctor(self, name: str, *more: str, **options: str) -> Answer:
        given = {
            "gateway": self.endpoint,
            "keys": str(self.folder / "keys"),
            "config": str(self.folder / "factory.yaml"),
            "recordings": str(self.folder),
            **options,
        }
        words = [str(self.folder / f"{name}.yaml"), "--name", name, "--json", "--seconds", "3", *more]
        words += [word for key, value in given.items() if value for word in (f"--{key}", value)]
        command = [sys.executable, "-m", "rosa_server.cli", "doctor", *words]
        ended = subprocess.run(
            command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert ended.returncode in (0, 1), ended.stderr
        return ended.returncode, {one["check"]: one for one in json.loads(ended.stdout)["checks"]}


def runs(folder: Path, name: str) -> Path:
    """The robot file of the nodes."""
    return folder / f"{name}_runs.yaml"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server with keys, the robot `good`, and the robot `frozen`, whose wrist camera shows one picture for ever."""
    folder = tmp_path_factory.mktemp("doctor")
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    factory = folder / "factory.yaml"
    factory.write_text(FACTORY.format(endpoint=endpoint, keys=folder / "keys"))
    robots = []
    for name, driver in (("good", "Living"), ("frozen", "FrozenWrist")):
        make_keys(folder / "keys", name)
        spec = yaml.safe_load((ROOT / "configs" / "robots" / "panda.yaml").read_text())
        spec |= {"arm_driver": "echo", "camera_driver": f"tests.system.doctor.still:{driver}"}
        # More pictures come than the doctor's file asks for: those of a busy machine are not too slow.
        for file, rate_hz in ((runs(folder, name), 10), (folder / f"{name}.yaml", 4)):
            for camera in spec["cameras"].values():
                camera["rate_hz"] = rate_hz
            file.write_text(yaml.safe_dump(spec))
        robots.append(
            Robot(
                config=str(factory),
                robot=str(runs(folder, name)),
                gateway=endpoint,
                keys=str(folder / "keys"),
                namespace=name,
            )
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        with Bringup(robots, server=str(factory), logs=folder / "logs", last=True) as bringup:
            yield Site(folder, endpoint, bringup)


@pytest.fixture(scope="module")
def first_visit(site: Site) -> Answer:
    return site.doctor("good")


def test_a_robot_that_is_well_may_move(first_visit: Answer) -> None:
    status, checks = first_visit
    assert status == 0, checks
    for name in ("needs", "gateway", "keys", "models", "arm", "joint_states", "camera.front", "camera.wrist"):
        assert checks[name]["level"] == "ok", checks[name]
    assert checks["round_trip"]["level"] in ("ok", "warn"), "a busy machine may be slow, but nothing is lost"


def test_the_robot_that_runs_under_this_name_is_not_disturbed(site: Site, first_visit: Answer) -> None:
    log = site.folder / "logs" / "good_runtime_node.log"
    _, checks = first_visit
    assert "this robot is connected to it" in checks["gateway"]["found"]
    before = log.read_text().count("not connected")
    _, checks = site.doctor("good")
    assert "this robot is connected to it" in checks["gateway"]["found"]
    assert log.read_text().count("not connected") == before, "its link reports every loss"


# -- one thing broken each --------------------------------------------------------------------------------------------


def another_robots_key(site: Site) -> dict[str, str]:
    """Its secret lies under this robot's name."""
    stolen = site.folder / "stolen"
    shutil.copytree(site.folder / "keys", stolen)
    shutil.copy(stolen / "robots" / "frozen.key_secret", stolen / "robots" / "good.key_secret")
    return {"keys": str(stolen)}


def unknown_key(site: Site) -> dict[str, str]:
    unknown = site.folder / "unknown"
    make_keys(unknown, "good")
    shutil.copy(site.folder / "keys" / "server.key", unknown / "server.key")
    return {"keys": str(unknown)}


def readable_secret(site: Site) -> dict[str, str]:
    loose = site.folder / "loose"
    shutil.copytree(site.folder / "keys", loose)
    (loose / "robots" / "good.key_secret").chmod(0o640)
    return {"keys": str(loose)}


@pytest.fixture(scope="module")
def visits(site: Site) -> Iterator[Visits]:
    """What the doctor says to each; the visits run side by side, since each mostly waits."""
    shutil.copy(site.folder / "good.yaml", site.folder / "absent.yaml")
    options = {
        "no gateway": {"gateway": f"tcp://127.0.0.1:{free_port()}"},
        "another robot's key": another_robots_key(site),
        "unknown key": unknown_key(site),
        "readable secret": readable_secret(site),
        "no key": {"keys": ""},
    }
    with ThreadPoolExecutor(AT_ONCE) as pool:
        visits = {what: pool.submit(site.doctor, "good", **changed) for what, changed in options.items()}
        visits["frozen camera"] = pool.submit(site.doctor, "frozen")
        visits["no nodes"] = pool.submit(site.doctor, "absent", gateway="", keys="")
        yield visits


def test_a_frozen_camera_is_found_and_the_living_one_beside_it_is_not_blamed(visits: Visits) -> None:
    status, checks = visits["frozen camera"].result()
    assert status == 1
    assert (checks["camera.wrist"]["level"], checks["camera.wrist"]["cause"]) == ("fail", "frozen")
    assert checks["camera.front"]["level"] == "ok", checks["camera.front"]


def test_without_a_gateway(visits: Visits) -> None:
    status, checks = visits["no gateway"].result()
    assert status == 1
    assert checks["gateway"]["cause"] == "no_answer"
    assert "rosa serve" in checks["gateway"]["do"]
    # On a busy machine its pictures may come too slowly, which is a warning.
    assert checks["camera.front"]["level"] != "fail", "everything else is still looked at"


def test_the_key_of_another_robot(visits: Visits) -> None:
    status, checks = visits["another robot's key"].result()
    assert status == 1
    assert checks["keys"]["cause"] == "wrong_key"
    assert "'frozen'" in checks["keys"]["found"]


def test_a_key_that_the_server_does_not_know(visits: Visits) -> None:
    status, checks = visits["unknown key"].result()
    assert status == 1
    assert checks["gateway"]["cause"] == "refused"


def test_a_secret_that_others_may_read(visits: Visits) -> None:
    status, checks = visits["readable secret"].result()
    assert status == 1
    assert checks["keys"]["cause"] == "bad_keys"
    assert "chmod 600" in checks["keys"]["found"]


def test_no_key_where_the_server_demands_one(visits: Visits) -> None:
    status, checks = visits["no key"].result()
    assert status == 1
    assert checks["gateway"]["cause"] in ("mismatch", "hung_up", "no_answer")


def test_a_robot_whose_nodes_are_not_up(visits: Visits) -> None:
    status, checks = visits["no nodes"].result()
    assert status == 1
    assert checks["camera.front"]["cause"] == "no_publisher"
    assert checks["arm"]["level"] == "skipped"
