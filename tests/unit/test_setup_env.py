"""Set-up repeats nothing that it has done, and says what a person has to do when it cannot go on."""

from __future__ import annotations

import importlib
import os
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(autouse=True)
def _scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "scripts")


@pytest.fixture
def setup_env() -> ModuleType:
    return importlib.import_module("setup_env")


@pytest.fixture
def setup_steps() -> ModuleType:
    return importlib.import_module("setup_steps")


@pytest.fixture
def build_interfaces() -> ModuleType:
    return importlib.import_module("build_interfaces")


def test_a_step_runs_again_only_when_its_key_has_changed(setup_steps: ModuleType, tmp_path: Path) -> None:
    done: list[str] = []
    for key in ("a", "a", "b", "b"):
        setup_steps.Steps(tmp_path).step("name", key, "doing it", lambda: done.append("once"))
    assert len(done) == 2


def test_a_step_that_failed_runs_again(setup_steps: ModuleType, tmp_path: Path) -> None:
    def fail() -> None:
        raise setup_steps.SetupError("no")

    with pytest.raises(setup_steps.SetupError):
        setup_steps.Steps(tmp_path).step("name", "key", "doing it", fail)
    done: list[str] = []
    setup_steps.Steps(tmp_path).step("name", "key", "doing it", lambda: done.append("once"))
    assert done == ["once"]


def test_without_root_the_one_command_to_run_is_told(
    setup_env: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(setup_env.shutil, "which", lambda name: f"/usr/bin/{name}")
    with pytest.raises(setup_env.SetupError, match=r"sudo sh -c 'apt-get update && .* libegl1 g\+\+'"):
        setup_env.install_system_packages(["libegl1", "g++"])


def test_a_python_that_has_no_ros_wheels_is_refused_with_the_way_out(
    setup_env: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 13, 1))
    with pytest.raises(
        setup_env.SetupError, match=r"this is Python 3\.13.*PYTHON=python3\.11.*Server, scheduler"
    ):
        setup_env.check_machine(with_ros=False)
    setup_env.check_machine(with_ros=True)


def test_the_wheels_cmake_files_get_this_machines_folders_once(
    build_interfaces: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "share" / "some_msgs" / "cmake" / "someExport.cmake"
    path.parent.mkdir(parents=True)
    foreign = "/opt/python/cp311-cp311"
    path.write_text(
        f'DIRS "{foreign}/include/python3.11;{foreign}/lib/python3.11/site-packages/numpy/_core/include"\n'
    )
    build_interfaces.correct_wheel_paths(tmp_path, Path(sys.executable))
    text = path.read_text()
    assert "/opt/python/" not in text
    folders = text.split('"')[1].split(";")
    assert Path(folders[0], "Python.h").exists()
    assert Path(folders[1], "numpy", "arrayobject.h").exists()
    changed_ns = path.stat().st_mtime_ns
    build_interfaces.correct_wheel_paths(tmp_path, Path(sys.executable))
    assert path.stat().st_mtime_ns == changed_ns


def test_a_command_that_fails_shows_the_end_of_its_output(
    setup_steps: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(setup_steps, "ROOT", tmp_path)
    with pytest.raises(setup_steps.SetupError, match=r"step 'try' failed with status 3(.|\n)*the last words"):
        setup_steps.run([sys.executable, "-c", "print('the last words'); raise SystemExit(3)"], "try")


def test_a_long_command_says_how_it_is_getting_on(
    setup_steps: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(setup_steps, "ROOT", tmp_path)
    monkeypatch.setattr(setup_steps, "SAYS_EVERY_S", 0.05)
    stop = tmp_path / "stop"
    waits = (
        "import pathlib, time; print('Collecting torch', flush=True)\n"
        f"while not pathlib.Path({str(stop)!r}).exists(): time.sleep(0.01)"
    )
    heard: list[str] = []

    def say(text: str) -> None:
        heard.append(text)
        if "Collecting torch" in text:
            stop.touch()

    monkeypatch.setattr(setup_steps, "say", say)
    setup_steps.run([sys.executable, "-c", waits], "try")
    assert any(text.startswith("  try, ") and text.endswith(": Collecting torch") for text in heard)


def test_without_a_browser_one_command_is_told_once(
    setup_env: ModuleType,
    setup_steps: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    for _ in range(2):
        setup_env.mention_browser(setup_steps.Steps(tmp_path))
    assert (
        capsys.readouterr().out.count("apt-get install --no-install-recommends chromium chromium-driver") == 1
    )
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    setup_env.mention_browser(setup_steps.Steps(tmp_path / "other"))
    assert capsys.readouterr().out == ""


class Pip:
    """In the place of pip: writes one package wherever it is told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Path | None]] = []

    def install(
        self, python: Path, with_ros: bool, lists: list[str], no_deps: bool = False, aside: Path | None = None
    ) -> None:
        self.asked.append((lists[0], aside))
        root = aside or python.parents[1]
        for name in ("lib/python3.11/site-packages/both/", "bin/"):
            (root / name).mkdir(parents=True, exist_ok=True)
            (root / name / lists[0]).write_text(lists[0])


def test_a_new_environment_gets_the_servers_packages_when_the_robots_are_there(
    setup_env: ModuleType, setup_steps: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = Pip()
    monkeypatch.setattr(setup_env, "install_packages", pip.install)
    pip.install(tmp_path / "bin" / "python", False, ["base"])
    robot_packages: Future[None] = Future()
    here = (setup_steps.Steps(tmp_path), tmp_path, False, "here", True)
    with ThreadPoolExecutor() as other:
        moved = other.submit(setup_env.rest, *here, robot_packages)
        with pytest.raises(TimeoutError):
            moved.result(0.2)
        assert not (tmp_path / "bin" / "server").exists()
        robot_packages.set_result(None)
        moved.result(60)
    assert {path.name for path in tmp_path.glob("lib/python3.11/site-packages/both/*")} == {
        *("base", "server", "no-deps")
    }
    assert all(aside == tmp_path / "aside" for name, aside in pip.asked if name != "base")
    assert not (tmp_path / "aside").exists()


def test_an_environment_that_is_there_gets_them_in_place(
    setup_env: ModuleType, setup_steps: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = Pip()
    monkeypatch.setattr(setup_env, "install_packages", pip.install)
    setup_env.rest(setup_steps.Steps(tmp_path), tmp_path, False, "here", False, None)
    assert pip.asked == [("server", None), ("no-deps", None)]


def test_packages_of_the_robot_that_fail_leave_the_environment_without_the_servers(
    setup_env: ModuleType, setup_steps: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup_env, "install_packages", Pip().install)
    robot_packages: Future[None] = Future()
    robot_packages.set_exception(setup_env.SetupError("no network"))
    steps = setup_steps.Steps(tmp_path)
    with pytest.raises(setup_env.SetupError, match="no network"):
        setup_env.rest(steps, tmp_path, False, "here", True, robot_packages)
    assert not (tmp_path / "bin").exists()
    assert not steps.any()


def test_a_move_that_is_interrupted_leaves_no_package_that_only_seems_to_be_there(
    setup_env: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aside, folder = tmp_path / "aside", tmp_path / "folder"
    for name in ("a-1.dist-info/RECORD", "b/code.py", "z/code.py"):
        path = aside / name
        path.parent.mkdir(parents=True)
        path.touch()
    moved: list[str] = []
    replace = Path.replace

    def watched(path: Path, target: Path) -> Path:
        moved.append(path.name)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", watched)
    setup_env.move_into(folder, aside)
    assert moved == ["code.py", "code.py", "RECORD"]
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == [
        *("a-1.dist-info/RECORD", "b/code.py", "z/code.py")
    ]
