"""A model with a Python environment of its own: it is served like any other, and what is wrong is named."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rosa_client import Robot
from rosa_contract.config.adapter import Adapter, CameraInput, StatePart
from rosa_contract.config.models import Model
from rosa_server.cli import main
from rosa_server.cluster.local import LocalCluster
from rosa_server.models.backend import ModelInput
from rosa_server.models.registry import BackendError
from rosa_server.serving.base.release import release
from rosa_server.serving.base.worker_spec import WorkerSpec
from rosa_server.serving.worker.elsewhere import backend_of
from tests.system.environments import bare, site
from tests.system.own_python.prefix import with_worker
from tests.system.server_harness import FACTORY, PATIENCE_S, serving

HEAVY = {"torch", "yaml", "ortools", "prometheus_client", "rclpy", "rosa_server.scheduler", "rosa_client"}
MY_ADAPTER = Adapter(
    cameras={"image": CameraInput("front", fit="pad")},
    state={"state": (StatePart("joint_position", take=(0, 1), unit="deg"), StatePart(values=(7.0,)))},
)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_worker(tmp_path_factory.mktemp("own"))


def model(python: Path, **rest: Any) -> Model:
    return Model("theirs:Theirs", python=str(python), **rest)


def seen() -> ModelInput:
    state = {"joint_position": np.radians([10, 20, 30]).astype(np.float32)}
    return ModelInput("system1", images={"front": np.zeros((48, 64, 3), np.uint8)}, state=state)


def test_a_model_answers_from_its_own_environment_with_the_packages_of_a_worker_alone(python: Path) -> None:
    backend = backend_of("theirs", model(python, adapter=MY_ADAPTER))
    assert backend.input_spec.state == {"joint_position": 2}, "told before anything is loaded"
    backend.load()
    try:
        spec = backend.input_spec
        assert spec.resizes == {"front"} and spec.unused == frozenset() and backend.max_batch == 4
        [one] = backend.infer([seen()])
        prefix, path, *modules = one.text.split(" ")
        assert Path(prefix) == python.parents[1]
        assert path == "", "where the server's Python looks is no business of this one"
        assert not HEAVY & set(modules)
        assert one.arrays["actions"] == pytest.approx(np.array([[10, 20, 7], [10, 20, 7]]), abs=1e-4)
    finally:
        backend.close()


def test_a_worker_of_another_release_is_refused_by_name(python: Path, tmp_path: Path) -> None:
    old = tmp_path / "old"
    shutil.copytree(python.parents[1], old, symlinks=True)
    changed = site(old / "bin" / "python") / "rosa_server" / "serving" / "worker" / "counts.py"
    changed.write_text(changed.read_text() + "# another\n")
    with pytest.raises(BackendError, match=rf"is of release \w+, its server of {release()}; `rosa env`"):
        _ = backend_of("theirs", model(old / "bin" / "python")).input_spec


def test_an_environment_without_a_worker_says_how_it_gets_one(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=r"No module named '\w+'; `rosa env` installs"):
        _ = backend_of("theirs", model(bare(tmp_path / "bare"))).input_spec


def test_a_server_does_not_start_a_worker_again_that_cannot_work_there(tmp_path: Path) -> None:
    spec = WorkerSpec(
        "theirs/0", "theirs", "theirs:Theirs", "ipc://nowhere", python=str(bare(tmp_path / "bare"))
    )
    cluster, now_s = LocalCluster([spec]), 0.0
    try:
        while not cluster.misconfigured and now_s < 10 * PATIENCE_S:
            cluster.poll(now_s)
            now_s += 0.05
            time.sleep(0.05)
        cluster.poll(now_s)
    finally:
        cluster.stop(1.0)
    assert "cannot work as configured" in cluster.misconfigured


def test_what_its_load_raises_reaches_who_asked(python: Path) -> None:
    backend = backend_of("theirs", model(python, options={"fails": True}))
    with pytest.raises(BackendError, match="ended with status 78"):
        backend.load()
    backend.close()


@pytest.fixture
def factory(python: Path) -> str:
    entry = f'{{{{backend: "theirs:Theirs", workers: {{workers}}, python: "{python}"}}}}'
    return FACTORY.replace(
        'policy: {{workers: {workers}, backend: "{backend}", options: {options}}}', f"policy: {entry}"
    )


def test_rosa_serve_serves_it(factory: str, tmp_path: Path) -> None:
    with serving(tmp_path, factory=factory) as server:
        with Robot(server.endpoint, "pick", deadline_ms=20_000.0) as robot:
            picture = np.zeros((16, 16, 3), np.uint8)
            chunk = robot.infer({"image": picture, "state": np.array([1, 2, 3], np.float32)})
        assert chunk.actions.tolist() == [[1, 2, 3], [1, 2, 3]]


def test_check_names_an_interpreter_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "factory.yaml"
    text = FACTORY.replace(
        'backend: "{backend}", options: {options}', "backend: 'a:B', python: env/bin/python"
    )
    path.write_text(text.format(workers=1, port=1, metrics_port=0, gateway=""))
    assert main(["check", str(path)]) == 2
    said = capsys.readouterr().err
    assert (
        f"models.policy.python: there is no program {tmp_path}/env/bin/python; `rosa env NAME` makes" in said
    )
