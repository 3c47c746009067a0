"""What the pages tell a newcomer to run does run: the Python quickstart and a backend of one's own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from rosa_sim.ports import free_port

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
PATIENCE_S = 60.0
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


@contextmanager
def served(folder: Path, factory: str) -> Iterator[str]:
    """`rosa serve` in `folder`, with ports of its own; gives its endpoint."""
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    document = {**yaml.safe_load(factory), "gateway": {"bind": endpoint, "metrics_port": 0}}
    (folder / "factory.yaml").write_text(yaml.safe_dump(document))
    command = [sys.executable, "-m", "rosa_server.cli", "serve", "factory.yaml"]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=log, stderr=log)
    try:
        until_s = time.monotonic() + PATIENCE_S
        while "ROSA is ready" not in (folder / "server.log").read_text():
            assert server.poll() is None and time.monotonic() < until_s, (folder / "server.log").read_text()
            time.sleep(0.1)
        yield endpoint
    finally:
        server.terminate()
        server.wait(PATIENCE_S)


def run(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / script), *arguments]
    return subprocess.run(
        command, env={**ENVIRONMENT, **environment}, capture_output=True, text=True, timeout=PATIENCE_S
    )


def code_of(page: str, name: str) -> str:
    """The block of code that begins with a comment with the name of its file."""
    found = re.search(
        rf"```\w+\n# {re.escape(name)}\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL
    )
    assert found is not None, f"{page} lost its {name}"
    return found[1]


def test_the_quickstart_gets_actions_from_a_server(tmp_path: Path) -> None:
    with served(tmp_path, (EXAMPLES / "quickstart.yaml").read_text()) as endpoint:
        ended = run("quickstart.py", endpoint)
    assert ended.returncode == 0, ended.stderr
    assert re.findall(r"actions \((\d+), (\d+)\) in", ended.stdout) == [("50", "7")] * 5, ended.stdout


def test_the_backend_of_the_page_is_served_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "my_module.py").write_text(code_of("add_a_model.md", "my_module.py"))
    with served(tmp_path, code_of("add_a_model.md", "my_factory.yaml")) as endpoint:
        ended = run("quickstart.py", endpoint)
    assert ended.returncode == 0, ended.stderr + (tmp_path / "server.log").read_text()
    assert re.findall(r"actions \((\d+), (\d+)\) in", ended.stdout) == [("16", "8")] * 5, ended.stdout


def test_the_quickstart_says_when_no_server_is_there() -> None:
    impatient = (
        (EXAMPLES / "quickstart.py").read_text().replace('task="pick"', 'task="pick", connect_within_s=1')
    )
    command = [sys.executable, "-c", impatient, f"tcp://127.0.0.1:{free_port()}"]
    ended = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode == 1
    assert "no answer from a gateway" in ended.stderr.splitlines()[-1]
