"""The three wheels, away from the checkout, each with what it declares and nothing else."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from rosa_sim.ports import free_ports
from tests.system.environments import bare, install, link_declared

ROOT = Path(__file__).parents[3]
PATIENCE_S = 600.0  # the lane has the lowest priority
FACTORY = Path("share", "rosa_client", "configs", "factory.yaml")


def wheels_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("wheels", ROOT / "scripts" / "release" / "wheels.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["wheels"] = module  # its dataclasses look for it
    spec.loader.exec_module(module)
    return module


WHEELS = wheels_script()


class Installed:
    """An environment with some of the wheels, and beside them what they declare."""

    def __init__(self, folder: Path, wheels: list[Path]) -> None:
        python = bare(folder / "env")
        for wheel in wheels:
            install(python, wheel)
        self.prefix = python.parents[1]
        self.away = folder / "away"
        self.away.mkdir()
        packages = folder / "packages"
        packages.mkdir()
        infos = list(self.prefix.glob("lib/python3*/site-packages/*.dist-info"))
        link_declared(packages, [one for info in infos for one in Distribution.at(info).requires or ()])
        self.environment = {"PYTHONPATH": str(packages), "PATH": os.environ["PATH"], "HOME": str(self.away)}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A program of the environment, in a folder of its own."""
        command = [str(self.prefix / "bin" / words[0]), *words[1:]]
        options = {"cwd": self.away, "env": self.environment, "capture_output": True, "text": True}
        return subprocess.run(command, timeout=PATIENCE_S, **options)  # type: ignore[call-overload,no-any-return]

    @contextmanager
    def running(self, says: str, *words: str) -> Iterator[str]:
        """It has said `says`; gives what it has said by then."""
        log = self.away / f"{words[1]}.log"
        with log.open("wb") as out:
            command = [str(self.prefix / "bin" / words[0]), *words[1:]]
            environment = {**self.environment, "PYTHONUNBUFFERED": "1"}
            process = subprocess.Popen(command, cwd=self.away, env=environment, stdout=out, stderr=out)
        try:
            until_s = time.monotonic() + PATIENCE_S
            while says not in log.read_text():
                assert process.poll() is None and time.monotonic() < until_s, log.read_text()
                time.sleep(0.1)
            yield log.read_text()
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE_S)
            finally:
                process.kill()


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("wheels")
    return {name: WHEELS.build(name, folder) for name in WHEELS.WHEELS}


@pytest.fixture(scope="module")
def server(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """What `pip install rosa-serving` brings."""
    needed = [wheels["rosa-client"], wheels["rosa-serving"]]
    return Installed(tmp_path_factory.mktemp("server"), needed)


def test_every_file_is_in_one_wheel_and_two_builds_are_equal(wheels: dict[str, Path], tmp_path: Path) -> None:
    seen: dict[str, str] = {}
    for name, path in wheels.items():
        for file in zipfile.ZipFile(path).namelist():
            where = re.sub(r"^[\w.]+\.data/", "", file)
            if ".dist-info/" not in file:
                assert seen.setdefault(where, name) == name, f"{where} is in {seen[where]} and in {name}"
        assert WHEELS.build(name, tmp_path).read_bytes() == path.read_bytes()
    assert f'version="{WHEELS.version()}"' in (ROOT / "setup.py").read_text(), "one release, one version"


def test_a_client_alone_asks_an_installed_server_and_neither_needs_the_simulator(
    wheels: dict[str, Path], server: Installed, tmp_path: Path
) -> None:
    client = Installed(tmp_path, [wheels["rosa-client"]])
    loads = "import sys, rosa_client.robot.blocking; print(sorted({'cv2', 'yaml'} & set(sys.modules)))"
    assert client.run("python", "-c", loads).stdout.strip() == "[]"
    port, metrics = free_ports(2)
    factory = yaml.safe_load((ROOT / "examples" / "quickstart.yaml").read_text())
    factory["gateway"] = {"bind": f"tcp://127.0.0.1:{port}", "metrics_port": metrics}
    (server.away / "factory.yaml").write_text(yaml.safe_dump(factory))
    shutil.copy(ROOT / "examples" / "quickstart.py", client.away)
    absent = "import importlib.util as u; print(u.find_spec('rosa_sim'), u.find_spec('torch'), u.find_spec('mujoco'))"
    assert server.run("python", "-c", absent).stdout.split() == ["None"] * 3
    with server.running("ROSA is ready", "rosa", "serve", "factory.yaml"):
        asked = client.run("python", "quickstart.py", f"tcp://127.0.0.1:{port}")
        assert asked.stdout.count("actions (") == 5, asked.stderr
        with server.running("#token=", "rosa", "dashboard", "--gateway", str(port), "--port", "0") as said:
            address = re.search(r"http://\S+?/", said)
            assert address is not None
            page = urllib.request.urlopen(address[0] + "page/main.js", timeout=PATIENCE_S).read()
            assert page == (ROOT / "rosa_server" / "dashboard" / "page" / "main.js").read_bytes()


def test_a_server_plans_and_checks_with_what_it_ships_and_names_what_it_lacks(server: Installed) -> None:
    factory = str(server.prefix / FACTORY)
    planned = server.run("rosa", "plan", factory, "--picture", "plan.png")
    assert planned.returncode == 0, planned.stderr
    assert "actions/s" in planned.stdout and (server.away / "plan.png").exists()
    assert server.run("rosa", "check", factory).returncode == 0
    assert server.run("rosa", "--version").stdout == f"rosa {WHEELS.version()}\n"
    refused = server.run("rosa", "bench", "fleet", "p4")
    assert refused.returncode == 2
    assert refused.stderr.startswith("rosa bench: it comes with the wheel rosa-sim: `make wheels`")


def test_with_the_simulator_fleets_are_executed(wheels: dict[str, Path], tmp_path: Path) -> None:
    every = Installed(tmp_path, list(wheels.values()))
    scenarios = every.run("rosa", "bench", "fleet", "no_such_scenario")
    assert scenarios.returncode == 2 and "p4" in scenarios.stderr, scenarios.stderr
