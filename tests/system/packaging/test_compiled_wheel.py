"""The wheel `rosa-compiled` beside the plain ones: it is used if it was made of the files that are there."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
import yaml

from rosa_sim.ports import free_ports
from tests.system.environments import site
from tests.system.packaging.test_wheel import ROOT, WHEELS, Installed

SOME = ["rosa_contract/wire/codec.py", "rosa_contract/wire/packing.py"]  # of its modules: all take minutes


@pytest.mark.slow
def test_compiled_modules_serve_beside_plain_files_of_their_release_and_no_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    script = importlib.import_module("release.compiled_wheel")
    wheels = [WHEELS.build(name, tmp_path) for name in ("rosa-client", "rosa-serving")]
    wheels.append(script.build(tmp_path, SOME, tmp_path / "cache"))
    server = Installed(tmp_path, wheels)
    assert server.run("rosa", "--version").stdout == f"rosa {WHEELS.version()} (compiled)\n"
    port, metrics = free_ports(2)
    factory = yaml.safe_load((ROOT / "examples" / "quickstart.yaml").read_text())
    factory["gateway"] = {"bind": f"tcp://127.0.0.1:{port}", "metrics_port": metrics}
    (server.away / "factory.yaml").write_text(yaml.safe_dump(factory))
    with server.running("ROSA is ready", "rosa", "serve", "factory.yaml") as said:
        first = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
        assert (first["event"], first["compiled"]) == ("server_started", True)
    plain = site(server.prefix / "bin" / "python") / "rosa_contract" / "clock.py"
    plain.write_text(plain.read_text() + "\n")
    refused = server.run("rosa", "serve", "factory.yaml")
    assert refused.returncode == 2 and "rosa-compiled was made of release" in refused.stderr
