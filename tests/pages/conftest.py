"""Readers of the pages, on a machine of their own: a network namespace, in which all ports are as printed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rosa_sim.namespaces import Machine, denied, machines
from tests.reader import ROOT, Reader
from tests.system.domains import own_domain

CLONE = ("Makefile", "configs", "deploy", "examples", "hardware", "scripts", "requirements", "integrations")
PORT = 5570
# What a page calls somebody's own robot is the simulated Panda.
NAMES = {"/path/to/NAME.yaml": "NAME.yaml"}


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    """Has also the addresses of the pages' two machines."""
    if why := denied():
        pytest.skip(f"no network namespaces here: {why}")
    with machines(1) as [one]:
        for address in ("10.0.0.1", "10.0.0.2"):
            command = ["ip", "-n", one.name, "addr", "add", f"{address}/32", "dev", "lo"]
            subprocess.run(command, check=True, timeout=10)
        yield one


@contextmanager
def reading(machine: Machine) -> Iterator[Reader]:
    # A Unix socket's path has at most 107 bytes, which pytest's own folders may exceed.
    folder = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    for name in CLONE:
        (folder / name).symlink_to(ROOT / name)
    for name in ("my_panda", "NAME"):
        (folder / f"{name}.yaml").write_text("extends: rosa:panda.yaml\n")
    with own_domain():
        reader = Reader(folder, PORT, NAMES, where=machine.command())
        make = folder / "bin" / "make"  # `make test-pages` has done the set-up
        make.write_text(f'#!/bin/sh\nexec "{shutil.which("make")}" -o setup -o setup-demo "$@"\n')
        make.chmod(0o755)
        try:
            yield reader
        finally:
            reader.end()
            shutil.rmtree(folder)


@pytest.fixture
def reader(machine: Machine) -> Iterator[Reader]:
    """In a folder of its own, with what a clone has."""
    with reading(machine) as one:
        yield one


@pytest.fixture(scope="module")
def beside_a_cell(machine: Machine) -> Iterator[Reader]:
    """Beside a server and a simulated Panda, started as run_a_task.md says."""
    with reading(machine) as one:
        one.type(
            "python -m rosa_client.bringup start_server:=true      # server and simulated Panda, named panda0\n"
        )
        yield one
